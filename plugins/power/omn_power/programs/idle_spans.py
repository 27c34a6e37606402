"""Idle periods of cpus, each handed over when the cpu wakes from it."""

from __future__ import annotations

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import measure_span, read_clock
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9
from omn_kernel.bpf.transport import Transport

IDLE = np.dtype([("ns", "u8"), ("began_ns", "u8"), ("idle_ns", "u8"), ("state", "i4"), ("cpu", "u4")])
"""A period from `began_ns` to `ns`. One that had begun when the program came has a beginning of 0, and no state."""
AWAKE = -1
"""PWR_EVENT_EXIT of <trace/events/power.h>, as a signed number of 32 bits."""
_PLACE = np.dtype([("place", "u4")])


class IdleSpans:
    """Writes the program. `now` is the period that each cpu is in."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.now = Map(MapType.PERCPU_ARRAY, "idle_now", _PLACE, IDLE, 1)

    def close(self) -> None:
        """Let go of the map."""
        self.now.close()

    def write(self, program: TaskAssembly) -> None:
        """Write cpu_idle(state, cpu), which a cpu passes as it goes to a state, and with none as it wakes."""
        place, period = program.reserve(_PLACE), program.reserve(IDLE)
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        program.compute(R7, "<<=", 32)
        program.compute(R7, "s>>=", 32)
        program.read_argument(R8, R6, 1)
        program.set(place, "place", 0)
        program.look_up(self.now, place)
        program.jump_if(R0, "==", 0, "done")
        program.move(R9, R0)
        now = Record(R9, IDLE)
        program.jump_if(R7, "==", AWAKE, "awake")
        program.set(now, "cpu", R8)
        program.set(now, "state", R7)
        read_clock(program, R1)
        program.set(now, "began_ns", R1)
        program.jump("done")
        program.label("awake")
        program.set(period, "cpu", R8)
        program.get(R8, now, "began_ns")
        program.set(period, "began_ns", R8)
        program.move(R7, AWAKE)
        with program.when(R8, "!=", 0):
            program.get(R7, now, "state")
        program.set(period, "state", R7)
        program.move(R1, 0)
        program.set(now, "began_ns", R1)
        measure_span(program, period, R8, "idle_ns")
        self._transport.write(program, period, R6)
        program.label("done")
        program.leave(0)
