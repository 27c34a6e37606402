"""Work for memory that a task does in the kernel, from a tracepoint where it begins to one where it ends.

A task does one such thing at a time: reclaim does not reclaim for itself, and zones are compacted one after the other.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.pieces import measure_span, read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9
from omn_kernel.bpf.stacked import StackedRecords
from omn_kernel.bpf.task_states import TaskStates

TIMES = [("began_ns", "u8"), ("stall_ns", "i8")]
"""When it began, 0 for nothing that has, and how long it took."""
SetFields = Callable[[KernelAssembly, Record], None]
"""Emits what sets the fields of a record that the tracepoint tells; R6 holds what R1 held when the program began."""


@attrs.frozen
class EpisodePrograms:
    """Writes the programs where something begins and where it ends. `unknown` counts ends of what was not seen."""

    collector: StackedRecords
    states: TaskStates
    unknown: LostCounter

    def write_begin(self, program: KernelAssembly, set_fields: SetFields) -> None:
        """Write what remembers that the task that runs has begun."""
        begun = program.reserve(self.states.state)
        program.move(R6, R1)
        program.point_to_current(R7)
        self.collector.tasks.filter.keep(program, R7, "done")
        program.clear(begun)
        set_fields(program, begun)
        self.collector.take_task(program, begun, R7, R6)
        read_clock(program, R0)
        program.set(begun, "began_ns", R0)
        self.states.put(program, R7, begun)
        program.label("done")
        program.leave(0)

    def write_end(self, program: KernelAssembly, set_fields: SetFields) -> None:
        """Write what hands over what the task that runs has ended."""
        program.move(R6, R1)
        program.point_to_current(R7)
        begun = self.states.find_begun(program, R7, "began_ns", at=R8, began=R9, otherwise="unknown")
        measure_span(program, begun, R9, "stall_ns")
        set_fields(program, begun)
        self.collector.transport.write(program, begun, R6)
        program.set(begun, "began_ns", 0)
        program.jump("done")
        program.label("unknown")
        self.collector.tasks.filter.keep(program, R7, "done")
        self.unknown.emit_count(program)
        program.label("done")
        program.leave(0)
