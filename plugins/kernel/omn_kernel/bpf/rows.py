"""Collectors of rows that programs add up in the kernel: a tick, or the close alone, takes them out whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from omn_core.api import Batch, Drain, Losses
from omn_kernel.bpf.collecting import ProgramCollector
from omn_kernel.bpf.columns import Columns
from omn_kernel.bpf.drains import SwappedRows
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Entries


class RowCollector(ProgramCollector, ABC):
    """A collector of rows, each what happened under one key since the last time they were taken.

    `key` and `row` are their types, `entries` how many fit between two drains, `kind` the hash that they stand in. A
    subclass writes programs that add to a row of `self.rows` (`SwappedRows.find_or_make`), and makes columns of them.
    """

    key: np.dtype[Any]
    row: np.dtype[Any]
    entries = 1 << 14
    kind = MapType.HASH

    def open_maps(self) -> None:
        """Open the maps that rows stand in."""
        self.rows = self.hold(SwappedRows(self.kind, "rows", self.key, self.row, self.entries))
        self._lost = 0
        self._drains: list[Drain] = []

    @abstractmethod
    def make_columns(self, entries: Entries) -> Columns:
        """Make columns of the rows of one drain; events may be more than rows, or fewer."""

    def sample(self, now_ns: int) -> Batch:
        """Take the rows that were added up since the last time, stamped now."""
        entries = self.rows.take()
        taken_ns = self.context.clock()
        self._note_lost(taken_ns)
        if not len(entries):
            return Batch.empty()
        columns = self.make_columns(entries)
        stamps = np.full(len(columns), taken_ns, np.int64)
        return Batch(stamps, None, columns.keys, columns.attributes, columns.weight)

    def _note_lost(self, taken_ns: int) -> None:
        lost = self.rows.lost.read_count()
        if lost > self._lost:
            self._drains.append(Drain(taken_ns, lost - self._lost))
            self._lost = lost

    def row_stamp(self) -> str | None:
        """Return that rows are stamped when they are taken out of the kernel."""
        return "drain"

    def losses(self) -> Losses:
        """Return the occurrences whose row had no room, and the runs that the kernel passed over."""
        reason = f"occurrences came under another key when {self.entries} rows, the bound of a drain, were there"
        reasons = (reason,) if self._lost else ()
        return self.add_missed(Losses(dropped=self._lost, reasons=reasons, drains=tuple(self._drains)))
