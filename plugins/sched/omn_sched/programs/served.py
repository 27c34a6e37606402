"""What interrupt, and what kind of deferred interrupt work, each cpu serves: kept from where it begins to its end."""

from __future__ import annotations

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R6, Register
from omn_kernel.bpf.tracing import ABSENT, Tracing

_SERVED = np.dtype([("irq", np.int64), ("softirq", np.int64)])
"""Each one more than the kernel's number, since a map begins with zeros."""
_PLACE = np.dtype([("place", np.uint32)])
_TRACEPOINTS = {"irq": "irq_handler", "softirq": "softirq"}


class Served:
    """Writes the programs that keep what each cpu serves, and reads it in others. Raises MachineRefused for the map.

    A timer's interrupt and those that cpus send each other have no line, and no number here.
    """

    def __init__(self) -> None:
        self._table = Map(MapType.PERCPU_ARRAY, "served", _PLACE, _SERVED, 1)

    def load(self, tracing: Tracing, kind: str) -> None:
        """Load the programs that keep one of the two: `irq` or `softirq`."""
        name = _TRACEPOINTS[kind]
        tracing.load_tracepoint(f"{name}_exit", lambda program: self._write(program, kind, is_entry=False))
        tracing.load_tracepoint(f"{name}_entry", lambda program: self._write(program, kind, is_entry=True))

    def _write(self, program: TaskAssembly, kind: str, *, is_entry: bool) -> None:
        """Write irq_handler_entry(line, handler), softirq_entry(number), or the exit of either."""
        program.move(R6, 0)
        if is_entry:
            program.read_argument(R6, R1, 0)
            program.compute(R6, "&=", 0x7FFFFFFF)
            program.compute(R6, "+=", 1)
        self._find(program)
        with program.when(R0, "!=", 0):
            program.set(Record(R0, _SERVED), kind, R6)
        program.leave(0)

    def read(self, program: TaskAssembly, target: Register, kind: str) -> None:
        """Emit what sets a register to what this cpu serves, ABSENT for none. R0 to R5 hold nothing after it."""
        end = program.make_label("served")
        self._find(program)
        program.move(target, ABSENT)
        program.jump_if(R0, "==", 0, end)
        program.get(target, Record(R0, _SERVED), kind)
        program.compute(target, "-=", 1)
        program.label(end)

    def _find(self, program: TaskAssembly) -> None:
        place = program.reserve(_PLACE)
        program.set(place, "place", 0)
        program.look_up(self._table, place)

    def close(self) -> None:
        """Let go of the map."""
        self._table.close()
