"""The deferred interrupt work of the network on each cpu, from where it begins to its end.

A cpu does one kind at a time, and none within another: where one began is remembered by cpu. What is counted is each
cpu's own, so that nothing is lost between two cpus that add.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9

NET_TX, NET_RX = 2, 3
"""NET_TX_SOFTIRQ and NET_RX_SOFTIRQ of <linux/interrupt.h>."""
KINDS = ("tx", "rx")
"""What each is called, the first NET_TX."""
LINES = ("NET_TX", "NET_RX")
"""What /proc/softirqs calls them."""
_BEGUN = np.dtype([("ns", "u8"), ("ended", "u8")])
_PLACE = np.dtype([("place", "u4")])


class NetworkSoftirqs:
    """Writes the programs, on some cpus or (empty) all. `unknown` counts what ends and was not seen to begin."""

    def __init__(self, cpus: tuple[int, ...]) -> None:
        self._cpus = cpus
        self._begun = Map(MapType.PERCPU_ARRAY, "begun", _PLACE, _BEGUN, 1)
        self.unknown = LostCounter()

    def close(self) -> None:
        """Let go of the maps."""
        self._begun.close()
        self.unknown.close()

    def read_ended(self) -> int:
        """Read how many ended."""
        return int(self._begun.read().values["ended"].sum())

    def write_entry(self, program: TaskAssembly) -> None:
        """Write softirq_entry(number)."""
        self._find(program)
        read_clock(program, R0)
        program.set(Record(R8, _BEGUN), "ns", R0)
        program.label("done")
        program.leave(0)

    def write_exit(self, program: TaskAssembly, hand_over: Callable[[], None]) -> None:
        """Write softirq_exit(number).

        `hand_over` emits what becomes of it: R6 holds the context then, R7 the kind, as its place in `KINDS`, and R9
        the nanoseconds that it took.
        """
        self._find(program)
        program.get(R1, Record(R8, _BEGUN), "ended")
        program.compute(R1, "+=", 1)
        program.set(Record(R8, _BEGUN), "ended", R1)
        program.get(R9, Record(R8, _BEGUN), "ns")
        with program.when(R9, "==", 0):
            self.unknown.emit_count(program)
            program.jump("done")
        program.set(Record(R8, _BEGUN), "ns", 0)
        read_clock(program, R0)
        program.compute(R0, "-=", R9)
        program.move(R9, R0)
        hand_over()
        program.label("done")
        program.leave(0)

    def _find(self, program: TaskAssembly) -> None:
        """Set R6 to the context, R7 to the kind and R8 to where this cpu's began; done where it is another's."""
        here, place = program.make_label("here"), program.reserve(_PLACE)
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        program.compute(R7, "&=", 0x7FFFFFFF)
        program.compute(R7, "-=", NET_TX)
        program.jump_if(R7, ">", NET_RX - NET_TX, "done")
        if self._cpus:
            program.call("get_smp_processor_id")
            for cpu in self._cpus:
                program.jump_if(R0, "==", cpu, here)
            program.jump("done")
            program.label(here)
        program.set(place, "place", 0)
        program.look_up(self._begun, place)
        program.jump_if(R0, "==", 0, "done")
        program.move(R8, R0)
