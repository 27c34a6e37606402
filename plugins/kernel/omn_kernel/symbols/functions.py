"""The functions of one object, looked up in its symbol tables without those being sorted.

A table may have a million records, of which a profile asks for some hundreds: to sort them all costs more than anything
else that naming does. So the records that can have a say in what some addresses are called are picked out first, and
only of those an index is made, which answers as one of all of them would:

- every function that holds one of the addresses, and every other that starts where it does, since one of them stands
  for all;
- for an address that no function holds, what starts last before it, and the functions that hold that place: a label is
  none inside a function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from omn_kernel.symbols.index import Addresses, Candidates, Numbers, SymbolIndex

_LEAST_STRETCHES = 1 << 12
_FEW = 1 << 12
"""So many symbols cost less to make an index of than to pick from."""


class Table(Protocol):
    """Symbols of one source in columns."""

    @property
    def start(self) -> Addresses:
        """Where each starts."""

    @property
    def end(self) -> Addresses:
        """Where each ends, as far as a label may reach."""

    def take(self, chosen: Numbers) -> Candidates:
        """Make candidates of some of them."""


@attrs.frozen(eq=False, repr=False)
class LaterTable:
    """A table that is read for addresses that no function of those before it holds, if it may hold one of these."""

    may_hold: Callable[[Addresses], bool]
    read: Callable[[], Sequence[Table]]


class ObjectFunctions:
    """The functions of one object, numbered as they are found. Tables are in the order of their worth."""

    def __init__(self, tables: Sequence[Table], later: Sequence[LaterTable] = ()) -> None:
        self._tables = list(tables)
        self._later = list(later)
        self._numbers: dict[int, int] = {}
        self._starts: list[int] = []
        self._sources: list[str] = []
        self._names: list[bytes | None] = []
        self._names_bytes = 0
        self._whole: tuple[int, SymbolIndex] | None = None

    def __len__(self) -> int:
        """Count the symbols of the tables that are read."""
        return sum(len(table.start) for table in self._tables)

    def find(self, addresses: Addresses) -> Numbers:
        """Find the function that each address is in, -1 for one that is in none."""
        if not len(addresses):
            return np.empty(0, np.int64)
        points = np.sort(addresses)
        numbers, loose = np.full(len(points), -1, np.int64), np.arange(len(points))
        loose = self._settle(points, numbers, loose)
        for table in tuple(self._later):
            if len(loose) and table.may_hold(points[loose]):
                self._later.remove(table)
                self._tables += table.read()
                loose = self._settle(points, numbers, loose)
        if len(loose):
            asked = points[loose]
            index = self._make_index(lambda: np.sort(np.concatenate([asked, self._list_before(asked)])))
            numbers[loose] = self._number(index, index.find(asked))
        return numbers[np.searchsorted(points, addresses)]

    def _settle(self, points: Addresses, numbers: Numbers, loose: Numbers) -> Numbers:
        """Number the points that a function holds, of those that are loose, and return which still are."""
        index = self._make_index(lambda: points[loose])
        found = index.find(points[loose])
        is_held = index.tell_sized(found)
        numbers[loose[is_held]] = self._number(index, found[is_held])
        return loose[~is_held]

    def _make_index(self, list_points: Callable[[], Addresses]) -> SymbolIndex:
        """Make an index of what has a say at some points; of everything, once, where that is little."""
        if len(self) > _FEW:
            return SymbolIndex(pick_out(self._tables, list_points()), self._names_bytes)
        if self._whole is None or self._whole[0] != len(self._tables):
            everything = [table.take(np.arange(len(table.start))) for table in self._tables]
            self._whole = len(self._tables), SymbolIndex(everything, self._names_bytes)
        return self._whole[1]

    def _list_before(self, addresses: Addresses) -> Addresses:
        """List the places that symbols start at last before some addresses, each at one or some of these."""
        starts = np.sort(np.concatenate([table.start for table in self._tables] or [addresses[:0]]))
        at = np.searchsorted(starts, addresses, side="right")
        return starts[at[at > 0] - 1]

    def _number(self, index: SymbolIndex, found: Numbers) -> Numbers:
        """Turn an index's numbers into those of the object, by where functions start: one stands for each place."""
        known, places = np.unique(found[found >= 0], return_inverse=True)
        starts = index.list_starts(known)
        fresh = [at for at, start in enumerate(starts) if start not in self._numbers]
        self._numbers.update((starts[at], number) for number, at in enumerate(fresh, len(self._starts)))
        self._starts += (starts[at] for at in fresh)
        self._sources += index.list_sources(known[fresh])
        self._names += index.list_names(known[fresh])
        self._names_bytes = index.names_bytes
        numbers = np.full(len(found), -1, np.int64)
        numbers[found >= 0] = np.array([self._numbers[start] for start in starts], np.int64)[places]
        return numbers

    def list_starts(self, numbers: Numbers) -> list[int]:
        """List where functions start."""
        return [self._starts[number] for number in numbers.tolist()]

    def list_sources(self, numbers: Numbers) -> list[str]:
        """List which source named each."""
        return [self._sources[number] for number in numbers.tolist()]

    def list_names(self, numbers: Numbers) -> list[bytes | None]:
        """List functions' names as the linker spelt them, None for one that is longer than any compiler makes."""
        return [self._names[number] for number in numbers.tolist()]


def pick_out(tables: Sequence[Table], points: Addresses) -> list[Candidates]:
    """Pick out the functions that hold one of some points, and whatever starts where one of them or a point is.

    More may come with them: the memory is looked at in stretches, a few of them for each symbol.
    """
    low, high = int(points[0]), int(points[-1])
    most = max(2 * sum(len(table.start) for table in tables), _LEAST_STRETCHES)
    holding = [_find_holding(table, points, most) for table in tables]
    starts = np.concatenate([points, *(table.start[held] for table, held in zip(tables, holding, strict=True))])
    low = int(starts.min())
    shift = _compute_shift(high - low, most)
    marks = np.zeros((high - low >> shift) + 1, bool)
    marks[_number_stretches(starts, low, shift)] = True
    picked = []
    for table in tables:
        inside = np.flatnonzero((table.start >= np.uint64(low)) & (table.start <= np.uint64(high)))
        picked.append(table.take(inside[marks[_number_stretches(table.start[inside], low, shift)]]))
    return [one for one in picked if len(one.start)]


def _find_holding(table: Table, points: Addresses, most: int) -> Numbers:
    """Find the functions of a table that are in a stretch of memory with a point in it."""
    low, high = points[0], points[-1]
    shift = _compute_shift(int(high - low), most)
    counts = np.zeros((int(high - low) >> shift) + 2, np.int32)
    counts[_number_stretches(points, int(low), shift) + 1] = 1
    np.cumsum(counts, out=counts)
    inside = np.flatnonzero((table.start <= high) & (table.end > low) & (table.end > table.start))
    first = _number_stretches(np.maximum(table.start[inside], low), int(low), shift)
    last = _number_stretches(np.minimum(table.end[inside] - np.uint64(1), high), int(low), shift)
    return inside[counts[last + 1] > counts[first]]


def _compute_shift(span: int, most: int) -> int:
    """Compute how many bits of an address say where it is within its stretch."""
    return max(span.bit_length() - most.bit_length() + 1, 0)


def _number_stretches(addresses: Addresses, low: int, shift: int) -> NDArray[np.int64]:
    return ((addresses - np.uint64(low)) >> np.uint64(shift)).astype(np.int64)
