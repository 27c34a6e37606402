"""When block requests were issued, by what tells each from all others that are under way.

A time stands in a slot that follows from its request, so that the requests of a queue lie side by side, and in a hash
where another request has that slot. A slot is claimed by adding the request's number to it: the sum of two numbers is
neither's, so that of two at a time none takes what is the other's.

The kernel's own time of an issue (request.io_start_time_ns) would serve without a program there. Since Linux 6.9 it is
that of the first request that was made with this one (blk_plug.cur_ktime), and a batch's were 50 us early.
"""

from __future__ import annotations

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R7, R8, R9

from omn_io.programs.claimed_places import compute_place, leave_place
from omn_io.programs.requests import MOST_REQUESTS

_SLOT = np.dtype([("request", np.uint64), ("issued_ns", np.uint64)])
_PLACE = np.dtype([("place", np.uint32)])
_REQUEST = np.dtype([("request", np.uint64)])
_TIME = np.dtype([("issued_ns", np.uint64)])

SLOTS = MOST_REQUESTS
"""How many slots there are: a power of two."""

_HALF = 16
_IS_REQUEST = 1 << 15
"""Set in every number, none of which is 0 then: a queue has some thousand requests (BLK_MQ_MAX_DEPTH)."""


class IssueTimes:
    """Keeps times of requests. `lost` counts those that found no room."""

    def __init__(self) -> None:
        self._slots = Map(MapType.ARRAY, "issue_slots", _PLACE, _SLOT, SLOTS)
        self._others = Map(MapType.HASH, "issue_times", _REQUEST, _TIME, MOST_REQUESTS)
        self.lost = LostCounter()

    def close(self) -> None:
        """Let go of the maps."""
        self._slots.close()
        self._others.close()
        self.lost.close()

    def keep(self, program: KernelAssembly) -> None:
        """Emit what keeps the time of the request in R7, unless it was kept before: it is issued again then.

        What is kept is another's, whose end passed no tracepoint, where this one was made after it.

        R0 to R5 hold nothing of the program's after it, nor do R8 and R9.
        """
        claimed, elsewhere, end = (program.make_label(name) for name in ("claimed", "elsewhere", "kept"))
        request, time = program.reserve(_REQUEST), program.reserve(_TIME)
        self._find_slot(program, end)
        slot = Record(R8, _SLOT)
        program.get(R1, slot, "request")
        program.jump_if(R1, "==", R9, "again")
        program.jump_if(R1, "!=", 0, elsewhere)
        program.add_to(slot, "request", R9)
        program.get(R1, slot, "request")
        program.jump_if(R1, "==", R9, claimed)
        leave_place(program, slot, "request", R9)
        program.label(elsewhere)
        program.set(request, "request", R9)
        program.look_up(self._others, request)
        with program.when(R0, "!=", 0):
            program.move(R8, R0)
            _skip_kept(program, Record(R8, _TIME), end)
        read_clock(program, R0)
        program.set(time, "issued_ns", R0)
        program.update(self._others, request, time)
        with program.when(R0, "!=", 0):
            self.lost.emit_count(program)
        program.jump(end)
        program.label("again")
        _skip_kept(program, slot, end)
        program.label(claimed)
        read_clock(program, R0)
        program.set(slot, "issued_ns", R0)
        program.label(end)

    def take(self, program: KernelAssembly, otherwise: str) -> None:
        """Emit what sets R8 to the time of the request in R7 and forgets it, or goes to a label where there is none.

        R0 to R5 hold nothing of the program's after it, nor does R9.
        """
        elsewhere, end = program.make_label("elsewhere"), program.make_label("taken")
        request = program.reserve(_REQUEST)
        self._find_slot(program, otherwise)
        slot = Record(R8, _SLOT)
        program.get(R1, slot, "request")
        program.jump_if(R1, "!=", R9, elsewhere)
        program.get(R2, slot, "issued_ns")
        leave_place(program, slot, "request", R9)
        program.move(R8, R2)
        program.jump(end)
        program.label(elsewhere)
        program.set(request, "request", R9)
        program.look_up(self._others, request)
        program.jump_if(R0, "==", 0, otherwise)
        program.get(R8, Record(R0, _TIME), "issued_ns")
        program.delete(self._others, request)
        program.label(end)

    def _find_slot(self, program: KernelAssembly, otherwise: str) -> None:
        """Set R9 to the number of the request in R7, and R8 to its slot."""
        place = program.reserve(_PLACE)
        program.read_field(R9, R7, "request", "q.id")
        program.compute(R9, "<<=", _HALF)
        program.read_field(R1, R7, "request", "mq_hctx.queue_num")
        program.compute(R9, "|=", R1)
        program.read_field(R8, R7, "request", "internal_tag")
        # Without a scheduler it has a tag of the driver's from its beginning to its end, with one only while issued.
        with program.when(R8, "s<", 0):
            program.read_field(R8, R7, "request", "tag")
        compute_place(program, R9, R8, SLOTS)
        program.set(place, "place", R1)
        program.compute(R9, "<<=", _HALF)
        program.compute(R9, "|=", R8)
        program.compute(R9, "|=", _IS_REQUEST)
        program.look_up(self._slots, place)
        program.jump_if(R0, "==", 0, otherwise)
        program.move(R8, R0)


def _skip_kept(program: KernelAssembly, kept: Record, otherwise: str) -> None:
    """Emit what goes to a label where a time that is kept is of the request in R7.

    R1 to R5 hold nothing of the program's after it, nor does R9.
    """
    program.read_field(R9, R7, "request", "start_time_ns")
    program.get(R1, kept, "issued_ns")
    program.jump_if(R9, "<=", R1, otherwise)
