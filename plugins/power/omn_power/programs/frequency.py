"""Clock frequencies that cpus' drivers announce: each as it gives way to the next, with how long it was held.

A cpu's changes are made one after the other (its policy's lock, or its run queue's), so that none is lost between two.
"""

from __future__ import annotations

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import measure_span
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9
from omn_kernel.bpf.transport import Transport
from omn_kernel.sysfs import read_cpus

HELD = np.dtype(
    [
        ("ns", "u8"),
        ("began_ns", "u8"),
        ("held_ns", "u8"),
        ("khz", "u4"),
        ("next_khz", "u4"),
        ("cpu", "u4"),
        ("pad", "u4"),
    ]
)
"""A frequency that a cpu held from `began_ns` to `ns`, and what it changed to. 0 kHz is what nobody announced."""
_PLACE = np.dtype([("place", "u4")])


class HeldFrequencies:
    """Writes the program. `now` is what each cpu holds, by the cpu's number."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._cpus = max(read_cpus("/", "possible")) + 1
        self.now = Map(MapType.ARRAY, "clocks_now", _PLACE, HELD, self._cpus)

    def begin(self, at_ns: int) -> None:
        """Have every cpu hold from an instant on what nobody announced yet."""
        for cpu in range(self._cpus):
            self.now.update(cpu, (0, at_ns, 0, 0, 0, cpu, 0))

    def close(self) -> None:
        """Let go of the map."""
        self.now.close()

    def write(self, program: TaskAssembly) -> None:
        """Write cpu_frequency(kHz, cpu), which any cpu may run for another."""
        place, ended = program.reserve(_PLACE), program.reserve(HELD)
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        program.read_argument(R8, R6, 1)
        program.set(place, "place", R8)
        program.look_up(self.now, place)
        program.jump_if(R0, "==", 0, "done")
        program.move(R9, R0)
        now = Record(R9, HELD)
        program.clear(ended)
        program.set(ended, "cpu", R8)
        program.set(ended, "next_khz", R7)
        program.get(R1, now, "khz")
        program.set(ended, "khz", R1)
        program.get(R8, now, "began_ns")
        program.set(ended, "began_ns", R8)
        measure_span(program, ended, R8, "held_ns")
        program.set(now, "khz", R7)
        program.get(R1, ended, "ns")
        program.set(now, "began_ns", R1)
        self._transport.write(program, ended, R6)
        program.label("done")
        program.leave(0)
