"""Rows that programs add up in the kernel, emptied while they go on.

Programs find the map they write to in a slot. A drain puts the other of two maps there, waits until every program that
may have found the first one has ended, and only then empties it: so a row is neither cut nor counted twice, and no
interval is relied on. The wait is membarrier(2)'s, since putting a map into the slot waits for nothing itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from omn_kernel.bpf.assembly import Assembly, Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import NO_EXIST, Entries, Map
from omn_kernel.bpf.refusals import refuse_grace
from omn_kernel.bpf.registers import R0, R1, R2, R3, R4
from omn_kernel.native._bpf import lib

_SLOT = np.dtype([("number", np.uint32)])
_POINTER = np.dtype([("map", np.uint64)])


class SwappedRows:
    """Two hashes of rows, or two arrays of them, behind one slot.

    Raises MachineRefused where the kernel makes none, or withdraws the wait.

    `slot` is what programs look up at zero, to find the map in which rows are; `entries` is how many rows fit between
    two drains, and `lost` counts what belonged to a row that did not.
    """

    def __init__(self, kind: MapType, name: str, key: npt.DTypeLike, value: npt.DTypeLike, entries: int) -> None:
        failed = lib.omn_grace_query()
        if failed < 0:
            raise refuse_grace(OSError(-failed, os.strerror(-failed)))
        self._held = ExitStack()
        with ExitStack() as stack:
            stack.callback(self.close)
            self._written, self._idle = (
                self._held.enter_context(Map(kind, name, key, value, entries)) for _ in range(2)
            )
            self.slot = self._held.enter_context(
                Map(MapType.ARRAY_OF_MAPS, f"{name}_slot", np.uint32, np.uint32, 1, inner=self._written)
            )
            self.slot.update(0, self._written.descriptor)
            self.lost = self._held.enter_context(LostCounter())
            stack.pop_all()

    @property
    def rows(self) -> Map:
        """One of the two maps, for its types: both are made alike."""
        return self._written

    def find_map(self, program: Assembly, otherwise: str) -> None:
        """Emit what sets R0 to the map that rows are written to now, or goes to a label. R1 to R5 hold nothing then."""
        slot = program.reserve(_SLOT)
        program.set(slot, "number", 0)
        program.look_up(self.slot, slot)
        program.jump_if(R0, "==", 0, otherwise)

    def find_or_make(
        self, program: Assembly, key: Record, empty: Record, fill: Callable[[], None] = lambda: None
    ) -> None:
        """Emit what sets R0 to where the row under a key lies, made of `empty` where there was none yet.

        `fill` emits what a new row is to hold from its beginning, and uses R0 to R5. R0 is zero where there is no room
        for another, which is counted. R1 to R5 hold nothing after it.
        """
        found = program.reserve(_POINTER)
        end = program.make_label("row")
        self.find_map(program, otherwise=end)
        program.set(found, "map", R0)
        _look_up(program, found, key)
        program.jump_if(R0, "!=", 0, end)
        fill()
        _point(program, found, key)
        program.point_at(R3, empty)
        program.move(R4, NO_EXIST)
        program.call("map_update_elem")
        # Another cpu may have made it meanwhile, so that what is there says whether there is one.
        _look_up(program, found, key)
        program.jump_if(R0, "!=", 0, end)
        self.lost.emit_count(program)
        program.label(end)

    def take(self) -> Entries:
        """Take the rows that were added up since the last call, each whole. Waits some milliseconds for programs."""
        self._written, self._idle = self._idle, self._written
        self.slot.update(0, self._written.descriptor)
        failed = lib.omn_grace_wait()
        if failed < 0:
            raise OSError(-failed, os.strerror(-failed))
        return self._idle.take()

    def close(self) -> None:
        """Let go of the maps. What they hold is lost."""
        self._held.close()


def _point(program: Assembly, found: Record, key: Record) -> None:
    program.get(R1, found, "map")
    program.point_at(R2, key)


def _look_up(program: Assembly, found: Record, key: Record) -> None:
    _point(program, found, key)
    program.call("map_lookup_elem")
