"""How many requests of each device completed, as the device's own account counts them.

The kernel counts a request right after its last part passed block_rq_complete, unless it is one that flushes, or a part
of a sequence with a flush (RQF_FLUSH_SEQ): of such a sequence it counts the end, which moves nothing. What a device's
accounting leaves out has no RQF_IO_STAT. Commands that programs send a device themselves may be counted here and not
there: that hides as many that were not seen, and makes none up.

A record says none of this. There everything counts but a flush alone: the parts of a request too, which errs to the
same side.
"""

from __future__ import annotations

import attrs
import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map, compute_sums
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R6, R7, Register
from omn_kernel.btf.fields import find_enumerator
from omn_kernel.btf.types import Btf

from omn_io.programs.claimed_places import SPREADS, SPREADS_AT, compute_place

PLACES = 128
"""How many devices are told apart: a power of two. Those that share a place are held to what all of them counted."""


@attrs.frozen
class Counted:
    """Requests of a place that completed.

    `older` of these had begun before the account was opened, `unbegun` after it where no program saw it, and `kept` are
    the target's.
    """

    completed: int
    older: int
    unbegun: int
    kept: int


_FIELDS = tuple(field.name for field in attrs.fields(Counted))
COUNTS = np.dtype([(name, "u8") for name in _FIELDS])

_PLACE = np.dtype([("place", np.uint32)])
_OPENED = np.dtype([("ns", np.uint64)])
_FLAGS = ("__RQF_IO_STAT", "__RQF_FLUSH_SEQ")
_EARLIER_FLAGS = (13, 4)
"""The bits of both before Linux 6.11 made an enumeration of them, which has a name since 6.13."""
_NEVER = (1 << 64) - 1
_STATUS, _BYTES = 1, 2
"""Arguments of block_rq_complete."""


def compute_device_place(device: int) -> int:
    """Compute the place of a device, by its number as the kernel keeps it."""
    return (device * SPREADS >> SPREADS_AT) % PLACES


def find_flags(types: Btf) -> tuple[int, int]:
    """Find the flags of a request that is accounted, and of one that is a part of a flush's sequence."""
    places = [find_enumerator(types, name) for name in _FLAGS]
    accounted, sequence = (
        earlier if place is None else place for place, earlier in zip(places, _EARLIER_FLAGS, strict=True)
    )
    return 1 << accounted, 1 << sequence


class CompletionCounts:
    """Counts what each cpu sees complete, by the place of its device."""

    def __init__(self) -> None:
        self._counts = Map(MapType.PERCPU_ARRAY, "completions", _PLACE, COUNTS, PLACES)
        self._opened = Map(MapType.ARRAY, "opened", np.uint32, _OPENED, 1)
        self._opened.update(0, (_NEVER,))

    def close(self) -> None:
        """Let go of the maps."""
        self._counts.close()
        self._opened.close()

    def open(self, now_ns: int) -> None:
        """Begin to tell what began before now from what began after it."""
        self._opened.update(0, (now_ns,))

    def read(self, place: int) -> Counted:
        """Read what was counted of a place so far."""
        (sums,) = compute_sums(self._counts.find(place)[np.newaxis])
        return Counted(**{name: int(sums[name]) for name in _FIELDS})

    def skip_unaccounted(self, program: TaskAssembly, otherwise: str) -> None:
        """Emit what goes to a label where the request in R7 is not in its device's account. R1 holds nothing after."""
        if isinstance(program, KernelAssembly):
            accounted, sequence = find_flags(program.types)
            program.read_field(R1, R7, "request", "rq_flags")
            program.compute(R1, "&=", accounted | sequence)
            program.jump_if(R1, "!=", accounted, otherwise)

    def count(self, program: TaskAssembly, device: Register, field: str) -> None:
        """Emit what counts one of the device whose number a register has. R0 to R5 hold nothing of the program's."""
        end, place = program.make_label("counted"), program.reserve(_PLACE)
        compute_place(program, device, 0, PLACES)
        program.set(place, "place", R1)
        program.look_up(self._counts, place)
        program.jump_if(R0, "==", 0, end)
        program.move(R1, 1)
        program.add_to(Record(R0, COUNTS), field, R1)
        program.label(end)

    def tell_unseen(self, program: KernelAssembly, device: Register, otherwise: str) -> None:
        """Emit what counts a request, in R7, that completes and was not seen to begin: R6 holds the context.

        One that had begun before the account was opened goes on after it, and so does one of which the kernel keeps no
        time, since its device is not accounted. All others go to a label: beside those that began unseen, the end of a
        flush's sequence, and what failed before it was issued. R0 to R5 hold nothing of the program's after it.
        """
        older, end = program.make_label("older"), program.make_label("told")
        program.read_field(R2, R7, "request", "start_time_ns")
        program.point_into(R1, self._opened)
        program.get(R1, Record(R1, _OPENED), "ns")
        program.jump_if(R2, "<", R1, older)
        program.read_argument(R1, R6, _STATUS)
        program.jump_if(R1, "!=", 0, otherwise)
        program.read_argument(R1, R6, _BYTES)
        program.jump_if(R1, "==", 0, otherwise)
        self.count(program, device, "unbegun")
        program.jump(otherwise)
        program.label(older)
        self.skip_unaccounted(program, end)
        self.count(program, device, "older")
        program.label(end)
