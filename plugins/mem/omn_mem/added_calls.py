"""Calls of an allocator added up while they come: one row stands for all that were alike, however many there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.injected.heap_records import AddedUp

from omn_mem.heap_events import find_calls

Array = npt.NDArray[Any]
_ODD = np.uint64(0x9E3779B97F4A7C15)
_NAME_WORDS = 2
_MOST_ROWS = 1 << 17
"""How many rows are held before those of different readings that are alike become one."""


class AddedCalls:
    """Rows of calls, alike in who called, from where, which function, how much was asked and whether it was had.

    Which block a call made, and so how long that lived, is in none of them. `frees` counts what was given back.
    """

    def __init__(self, records: Array, owners: Array) -> None:
        self.frees = 0
        self._parts = [(records, owners, np.ones(len(records), np.int64))]

    def add(self, added: AddedUp) -> None:
        """Add what one reading was added up to."""
        self.frees += added.frees
        self._parts.append((added.records, added.owners, added.weights))
        if sum(len(weights) for _, _, weights in self._parts) > _MOST_ROWS:
            self._parts = [_add_up(*self.read())]

    def keep_apart(self, records: Array, owners: Array) -> None:
        """Keep the calls among records each by itself: they came last, and may be after the window."""
        is_call = find_calls(records)
        self._parts.append((records[is_call], owners[is_call], np.ones(np.count_nonzero(is_call), np.int64)))

    def read(self) -> tuple[Array, Array, Array]:
        """Return a record of each row, the first, whose it is, and how many calls it stands for."""
        records, owners, weights = (np.concatenate(one) for one in zip(*self._parts, strict=True))
        return records, owners, weights


def _add_up(records: Array, owners: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Make one row of all that are alike."""
    names = np.ascontiguousarray(owners["name"]).view(np.uint64).reshape(len(owners), _NAME_WORDS)
    words = [records["addr"] != 0, *(records[name] for name in ("op", "bytes", "stack"))]
    words += [owners["process"], owners["thread"], *names.T]
    sums = np.zeros(len(records), np.uint64)
    for word in words:
        sums = (sums ^ (sums >> np.uint64(29)) ^ word.astype(np.uint64)) * _ODD
    _, firsts, places = np.unique(sums, return_index=True, return_inverse=True)
    added = np.zeros(len(firsts), np.int64)
    np.add.at(added, places.reshape(-1), weights)
    return records[firsts], owners[firsts], added
