"""Functions by their addresses: many symbols sorted once, many addresses looked up in one search.

Which symbol names an address:

- of those at one address, one with a size before one without, a function before a bare label, a global name before a
  weak one before a local one, the one with fewer leading underscores, the better source, the shorter name;
- an address inside several goes to the innermost, the one that starts last;
- a symbol names no address past its size. One without a size reaches to the next symbol, as perf has it, and never out
  of its section; inside one that has a size it is a label and names nothing.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

Addresses = NDArray[np.uint64]
Numbers = NDArray[np.int64]

MOST_NAME_BYTES = 1 << 16
_MOST_NAMES_BYTES = 256 << 20
_END = np.iinfo(np.uint64).max


@attrs.frozen(eq=False, repr=False)
class Candidates:
    """Symbols of one source, in columns: `name` is an offset into `strings`, and `tail` stands behind every name.

    `end` is where a symbol with a size ends, and how far one without may reach: its section's end. `preference` orders
    symbols at one address, the smallest first.
    """

    source: str
    strings: bytes
    start: Addresses
    end: Addresses
    is_sized: NDArray[np.bool_]
    preference: NDArray[np.uint8]
    name: NDArray[np.uint32]
    tail: bytes = b""

    def take(self, chosen: NDArray[np.generic]) -> Candidates:
        """Return some of them."""
        columns = ("start", "end", "is_sized", "preference", "name")
        return attrs.evolve(self, **{column: getattr(self, column)[chosen] for column in columns})


@attrs.frozen(eq=False, repr=False)
class _Columns:
    """Candidates of several sources: `rank` is the preference, and the number of the source under it."""

    start: Addresses
    end: Addresses
    is_sized: NDArray[np.bool_]
    rank: NDArray[np.uint16]
    name: NDArray[np.uint32]

    def take(self, chosen: NDArray[np.generic]) -> _Columns:
        return _Columns(*(column[chosen] for column in attrs.astuple(self, recurse=False)))


class SymbolIndex:
    """The functions of one object. Made of candidates in the order of their sources' worth.

    `names_bytes` is how many bytes the names have that were listed, of this index and of those of its object before it.
    """

    def __init__(self, candidates: list[Candidates], names_bytes: int = 0) -> None:
        self._sources = tuple(one.source for one in candidates)
        self._strings = tuple((one.strings, one.tail) for one in candidates)
        self.names_bytes = names_bytes
        columns = _choose(_join(candidates))
        self._symbol_start, self._name, self._is_sized = columns.start, columns.name, columns.is_sized
        self._source = (columns.rank & 0xFF).astype(np.uint8)
        self._start, self._end, self._symbol = _flatten(columns.start, _compute_ends(columns))

    def __len__(self) -> int:
        return len(self._symbol_start)

    def find(self, addresses: Addresses) -> Numbers:
        """Find the function that each address is in, -1 for one that is in none."""
        if not len(self._start):
            return np.full(len(addresses), -1, np.int64)
        at = np.searchsorted(self._start, addresses, side="right").astype(np.int64) - 1
        held = (at >= 0) & (addresses < self._end[at])
        return np.where(held, at if self._symbol is None else self._symbol[at], -1)

    def tell_sized(self, symbols: Numbers) -> NDArray[np.bool_]:
        """Tell which symbols have a size; -1, for none, has not."""
        is_sized = symbols >= 0
        is_sized[is_sized] = self._is_sized[symbols[is_sized]]
        return is_sized

    def list_starts(self, symbols: Numbers) -> list[int]:
        """List where functions start."""
        starts: list[int] = self._symbol_start[symbols].tolist()
        return starts

    def list_sources(self, symbols: Numbers) -> list[str]:
        """List which source named each."""
        return [self._sources[source] for source in self._source[symbols].tolist()]

    def list_names(self, symbols: Numbers) -> list[bytes | None]:
        """List functions' names as the linker spelt them, None for one that is longer than any compiler makes."""
        names: list[bytes | None] = []
        for source, at in zip(self._source[symbols].tolist(), self._name[symbols].tolist(), strict=True):
            strings, tail = self._strings[source]
            end = strings.find(b"\0", at, at + MOST_NAME_BYTES + 1)
            if end < 0:
                end = len(strings)
            self.names_bytes += end - at
            # Names may share their ends, so that a small table can hold many long ones.
            is_shown = end - at <= MOST_NAME_BYTES and self.names_bytes <= _MOST_NAMES_BYTES
            names.append(strings[at:end] + tail if is_shown else None)
        return names


def choose_functions(candidates: Candidates) -> Candidates:
    """Choose the symbol that names each address, in the order of these: an index of them finds the same."""
    columns = _choose(_join([candidates]))
    return Candidates(
        candidates.source,
        candidates.strings,
        columns.start,
        columns.end,
        columns.is_sized,
        (columns.rank >> np.uint16(8)).astype(np.uint8),
        columns.name,
        candidates.tail,
    )


def _join(candidates: list[Candidates]) -> _Columns:
    if not candidates:
        nothing = np.empty(0, np.uint64)
        return _Columns(nothing, nothing, nothing.astype(bool), nothing.astype(np.uint16), nothing.astype(np.uint32))
    return _Columns(
        start=np.concatenate([one.start for one in candidates]),
        end=np.concatenate([one.end for one in candidates]),
        is_sized=np.concatenate([one.is_sized for one in candidates]),
        rank=np.concatenate(
            [one.preference.astype(np.uint16) << np.uint16(8) | np.uint16(at) for at, one in enumerate(candidates)]
        ),
        name=np.concatenate([one.name for one in candidates]),
    )


def _choose(columns: _Columns) -> _Columns:
    """Keep one symbol for each address, and no label inside a function that has a size."""
    chosen = columns if _ascends(columns.start) else _choose_first(columns)
    covered = np.maximum.accumulate(np.where(chosen.is_sized, chosen.end, np.uint64(0)))
    inside = np.zeros(len(chosen.start), bool)
    inside[1:] = ~chosen.is_sized[1:] & (chosen.start[1:] < covered[:-1])
    return chosen.take(~inside) if inside.any() else chosen


def _ascends(start: Addresses) -> bool:
    return bool((start[1:] > start[:-1]).all())


def _choose_first(columns: _Columns) -> _Columns:
    """Keep the symbol of the least rank for each address, in the order of these."""
    chosen = columns.take(np.lexsort((columns.rank, columns.start)))
    first = np.ones(len(chosen.start), bool)
    first[1:] = chosen.start[1:] != chosen.start[:-1]
    return chosen if first.all() else chosen.take(first)


def add_sizes(start: Addresses, size: Addresses) -> Addresses:
    """Compute where ranges end, without wrapping around."""
    end = start + size
    end[end < start] = _END
    return end


def _compute_ends(columns: _Columns) -> Addresses:
    if columns.is_sized.all():
        return columns.end
    following = np.append(columns.start[1:], np.uint64(_END))
    return np.where(columns.is_sized, columns.end, np.minimum(following, columns.end))


def _flatten(start: Addresses, end: Addresses) -> tuple[Addresses, Addresses, Numbers | None]:
    """Cut ranges that overlap into pieces that do not, each its innermost range's: starts, ends and whose it is.

    None stands for each piece's being the range of its own number.
    """
    joins = np.zeros(len(start), bool)  # that a range starts before all of those before it have ended
    joins[1:] = start[1:] < np.maximum.accumulate(end)[:-1]
    if not joins.any():
        return start, end, None
    tangled = joins.copy()
    tangled[:-1] |= joins[1:]
    numbers = np.flatnonzero(tangled)
    pieces = np.array(_cut(start[numbers].tolist(), end[numbers].tolist()), np.uint64).reshape(-1, 3)
    plain = ~tangled
    starts = np.concatenate([start[plain], pieces[:, 0]])
    ends = np.concatenate([end[plain], pieces[:, 1]])
    whose = np.concatenate([np.flatnonzero(plain), numbers[pieces[:, 2].astype(np.int64)]])
    order = np.argsort(starts, kind="stable")
    return starts[order], ends[order], whose[order]


def _cut(starts: list[int], ends: list[int]) -> list[tuple[int, int, int]]:
    """Sweep sorted ranges once: the innermost open one is the last that started."""
    pieces: list[tuple[int, int, int]] = []
    opened: list[int] = []
    at = 0

    def close_until(limit: int) -> None:
        nonlocal at
        while opened and ends[opened[-1]] <= limit:
            one = opened.pop()
            if at < ends[one]:
                pieces.append((at, ends[one], one))
                at = ends[one]

    for number, start in enumerate(starts):
        close_until(start)
        if opened and at < start:
            pieces.append((at, start, opened[-1]))
        at = max(at, start)
        opened.append(number)
    close_until(int(_END))
    return pieces
