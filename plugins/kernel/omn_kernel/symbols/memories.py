"""The memory of a process at the times of samples: executable ranges that do not overlap."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from omn_kernel.symbols.held import make_key
from omn_kernel.symbols.index import Numbers
from omn_kernel.symbols.layout import Layout
from omn_kernel.symbols.mappings import Mapping
from omn_kernel.symbols.spaces import Space


@attrs.frozen(eq=False, repr=False)
class Memory:
    """What was mapped when some samples were taken, in pieces that do not overlap; whether it is mapped still."""

    mappings: tuple[Mapping, ...]
    is_living: bool
    samples: Numbers


def iter_layouts(space: Space, ts_ns: Numbers) -> Iterator[tuple[tuple[Mapping, ...], Numbers]]:
    """Yield what a space had mapped, and the samples that saw it so.

    What is mapped where nothing stood makes no other layout: no sample before it is in there. So there is one more than
    times that code replaced other code, and mostly one.
    """
    layout = Layout()
    waiting = np.ones(len(ts_ns), bool)
    for number, mapping, at_ns in space.iter_puts():
        replaced = layout.list_overlapped(mapping.start, mapping.end)
        if any(_is_other(space.mappings[one], mapping) for one in replaced):
            before = waiting & (ts_ns < at_ns)
            if before.any():
                yield _list_pieces(space, layout), np.flatnonzero(before)
                waiting &= ~before
        layout.put(mapping.start, mapping.end, number)
    if waiting.any():
        yield _list_pieces(space, layout), np.flatnonzero(waiting)


def _is_other(earlier: Mapping, later: Mapping) -> bool:
    """Tell whether the code at a place differs between mappings. What a runtime generates is the same unknown code."""
    if not earlier.is_file and not later.is_file:
        return earlier.path != later.path and not (earlier.is_anonymous and later.is_anonymous)
    return make_key(earlier) != make_key(later) or earlier.start - earlier.offset != later.start - later.offset


def _list_pieces(space: Space, layout: Layout) -> tuple[Mapping, ...]:
    pieces = []
    for start, end, number in layout.iter_pieces():
        mapping = space.mappings[number]
        pieces.append(attrs.evolve(mapping, start=start, end=end, offset=mapping.offset + start - mapping.start))
    return tuple(pieces)
