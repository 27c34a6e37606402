"""Rows that programs add up in the kernel, emptied while they go on.

Programs find the map they write to in a slot. A drain puts the other of two maps there, waits until every program that
may have found the first one has ended, and only then empties it: so a row is neither cut nor counted twice, and no
interval is relied on. The wait is membarrier(2)'s, since putting a map into the slot waits for nothing itself.
"""

from __future__ import annotations

import os
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Entries, Map
from omn_kernel.bpf.refusals import refuse_grace
from omn_kernel.native._bpf import lib


class SwappedRows:
    """Two hashes of rows behind one slot. Raises MachineRefused where the kernel makes none, or withdraws the wait.

    `slot` is what programs look up at zero, to find the map in which rows are; `entries` is how many rows fit between
    two drains.
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
            stack.pop_all()

    @property
    def rows(self) -> Map:
        """One of the two maps, for its types: both are made alike."""
        return self._written

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
