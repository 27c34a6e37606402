"""Ranges of addresses that replace one another: the later stands where it overlaps an earlier."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import numpy as np

from omn_kernel.symbols.index import Addresses, Numbers


class Layout:
    """Which numbered range each address is in. Ranges are put one after another and never overlap."""

    def __init__(self) -> None:
        self._starts, self._ends, self._held = array("Q"), array("Q"), array("q")

    def put(self, start: int, end: int, number: int) -> None:
        """Put a range over what stands there; what it covers in part keeps the rest."""
        starts, ends, held = self._starts, self._ends, self._held
        low = bisect_right(starts, start) - 1
        if low < 0 or ends[low] <= start:
            low += 1
        high = bisect_left(starts, end)
        pieces = [(start, end, number)]
        if high > low:
            if starts[low] < start:
                pieces.insert(0, (starts[low], start, held[low]))
            if ends[high - 1] > end:
                pieces.append((end, ends[high - 1], held[high - 1]))
        starts[low:high] = array("Q", [piece[0] for piece in pieces])
        ends[low:high] = array("Q", [piece[1] for piece in pieces])
        held[low:high] = array("q", [piece[2] for piece in pieces])

    def list_overlapped(self, start: int, end: int) -> list[int]:
        """Return the numbers of the ranges that a range would stand over, each once."""
        low = bisect_right(self._starts, start) - 1
        if low < 0 or self._ends[low] <= start:
            low += 1
        return list(dict.fromkeys(self._held[low : bisect_left(self._starts, end)]))

    def iter_pieces(self) -> Iterator[tuple[int, int, int]]:
        """Yield each piece that stands, in the order of its addresses: its start, its end, and its range's number."""
        yield from zip(self._starts, self._ends, self._held, strict=True)

    def find(self, addresses: Addresses) -> Numbers:
        """Find the number of the range that each address is in, -1 for one that is in none."""
        if not self._starts:
            return np.full(len(addresses), -1, np.int64)
        # Copies: an array whose buffer numpy holds could not grow.
        starts, ends, held = (np.array(column) for column in (self._starts, self._ends, self._held))
        at = np.searchsorted(starts, addresses, side="right").astype(np.int64) - 1
        return np.where((at >= 0) & (addresses < ends[at]), held[at], -1)
