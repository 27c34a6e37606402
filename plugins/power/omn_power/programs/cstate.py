"""Idle periods of each cpu, from where the kernel puts it into a state to where it wakes.

A cpu sums its own periods, so that nothing is lost between two cpus that add.
"""

from __future__ import annotations

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9

STATES = 16
"""How many states are told apart; the kernel has 10 at most (CPUIDLE_STATE_MAX)."""
SUMS = np.dtype([("time_ns", "u8"), ("entries", "u8")])
_PERIOD = np.dtype([("began_ns", "u8"), ("state", "u8")])
_PLACE = np.dtype([("place", "u4")])
_AWAKE = -1
"""PWR_EVENT_EXIT of <trace/events/power.h>, as a signed number of 32 bits."""


class IdlePeriods:
    """Writes the program. `sums` are those of each state on each cpu; `unknown` counts ends of what began before."""

    def __init__(self) -> None:
        self.sums = Map(MapType.PERCPU_ARRAY, "idle", _PLACE, SUMS, STATES)
        self._now = Map(MapType.PERCPU_ARRAY, "idle_now", _PLACE, _PERIOD, 1)
        self.unknown = LostCounter()

    def close(self) -> None:
        """Let go of the maps."""
        self.sums.close()
        self._now.close()
        self.unknown.close()

    def write(self, program: TaskAssembly) -> None:
        """Write cpu_idle(state, cpu), which a cpu passes as it goes to a state, and with none as it wakes."""
        place = program.reserve(_PLACE)
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        program.compute(R7, "<<=", 32)
        program.compute(R7, "s>>=", 32)
        program.set(place, "place", 0)
        program.look_up(self._now, place)
        program.jump_if(R0, "==", 0, "done")
        program.move(R9, R0)
        now = Record(R9, _PERIOD)
        read_clock(program, R8)
        program.jump_if(R7, "==", _AWAKE, "awake")
        program.set(now, "began_ns", R8)
        program.set(now, "state", R7)
        program.jump("done")
        program.label("awake")
        program.get(R1, now, "began_ns")
        with program.when(R1, "==", 0):
            self.unknown.emit_count(program)
            program.jump("done")
        program.compute(R8, "-=", R1)
        program.set(now, "began_ns", 0)
        program.get(R1, now, "state")
        program.set(place, "place", R1)
        program.look_up(self.sums, place)
        program.jump_if(R0, "==", 0, "done")
        sums = Record(R0, SUMS)
        program.add_to(sums, "time_ns", R8)
        program.move(R1, 1)
        program.add_to(sums, "entries", R1)
        program.label("done")
        program.leave(0)
