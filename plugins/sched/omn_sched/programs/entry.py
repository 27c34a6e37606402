"""When each cpu's task went into the scheduler: where a block begins, which the choice of who comes next follows."""

from __future__ import annotations

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R6, Register

TRACEPOINT = "sched_entry_tp"
"""At the beginning of `__schedule`, where the kernel stops a task's account of cpu; there from Linux 6.16."""

_ENTERED = np.dtype([("entered_ns", np.uint64)])
_PLACE = np.dtype([("place", np.uint32)])


class SchedulerEntry:
    """Writes the program at the entry, and reads what it kept in that of the switch. Raises MachineRefused for the map.

    Nothing else goes into the scheduler on a cpu between an entry and its switch.
    """

    def __init__(self) -> None:
        self._table = Map(MapType.PERCPU_ARRAY, "entered", _PLACE, _ENTERED, 1)

    def write_entry(self, program: KernelAssembly) -> None:
        """Write sched_entry(preempt)."""
        read_clock(program, R6)
        self._find(program)
        with program.when(R0, "!=", 0):
            program.set(Record(R0, _ENTERED), "entered_ns", R6)
        program.leave(0)

    def take(self, program: KernelAssembly, target: Register) -> None:
        """Emit what sets a register to when the task that leaves entered: now, where that was not seen.

        R0 to R5 hold nothing after it.
        """
        end, unseen = program.make_label("entered"), program.make_label("unseen")
        self._find(program)
        program.jump_if(R0, "==", 0, unseen)
        program.get(target, Record(R0, _ENTERED), "entered_ns")
        program.set(Record(R0, _ENTERED), "entered_ns", 0)
        program.jump_if(target, "!=", 0, end)
        program.label(unseen)
        read_clock(program, target)
        program.label(end)

    def _find(self, program: KernelAssembly) -> None:
        place = program.reserve(_PLACE)
        program.set(place, "place", 0)
        program.look_up(self._table, place)

    def close(self) -> None:
        """Let go of the map."""
        self._table.close()
