"""Keys that are read from events' stacks: the function that was running, the file that holds it, all it was within."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs
import numpy as np
import numpy.typing as npt

from omn_core.model.batch import ABSENT, Array, Batch, Column, Names
from omn_core.model.stacks import FUNC, OBJECT, Frame, Stacks

Numbers = npt.NDArray[np.int64]

_OF_LEAF: dict[str, Callable[[Frame], str | None]] = {FUNC: lambda leaf: leaf.label, OBJECT: lambda leaf: leaf.object}


def add_leaves(batch: Batch, stacks: Stacks, asked: Iterable[str]) -> Batch:
    """Return the events with what of their innermost frame is asked: `func`, its name, and `object`, its file.

    Absent in events without a stack, and the file where the address was in nothing known. What the events carry by one
    of these names themselves stays.
    """
    wanted = [name for name in asked if name in _OF_LEAF and batch.column(name) is None]
    if not wanted:
        return batch
    numbers, places = _number_stacks(batch)
    leaves = [_find_leaf(stacks, number) for number in numbers.tolist()]
    columns = {name: _read_leaves(leaves, places, _OF_LEAF[name]) for name in wanted}
    return attrs.evolve(batch, attributes={**batch.attributes, **columns})


def _find_leaf(stacks: Stacks, number: int) -> Frame | None:
    codes = () if number < 0 else stacks.get_codes(number)
    return stacks.frames[codes[0]] if codes else None


def _read_leaves(leaves: list[Frame | None], places: Array, read: Callable[[Frame], str | None]) -> Column:
    names = Names()
    found = [None if leaf is None else read(leaf) for leaf in leaves]
    codes = np.array([ABSENT if text is None else names.intern(text) for text in found], np.int64)
    return Column(codes[places] if len(places) else np.empty(0, np.int64), None, names)


def spread_within(batch: Batch, stacks: Stacks) -> tuple[Numbers, Column]:
    """Return a row for each event and function that its stack holds: the event's place, and the function's name.

    A function is on a stack once, however often it called itself. An event without a stack has one row, without a name.
    """
    numbers, places = _number_stacks(batch)
    names = Names()
    labels = [names.intern(frame.label) for frame in stacks.frames]
    inside = [_list_functions(stacks, number, labels) for number in numbers.tolist()]
    lengths = np.array([len(one) for one in inside], np.int64)
    ends = np.cumsum(lengths)
    flat = np.array([code for one in inside for code in one], np.int64)
    counts = lengths[places]
    rows = np.repeat(np.arange(len(batch)), counts)
    within_row = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = np.repeat((ends - lengths)[places], counts)
    return rows, Column(flat[begins + within_row], None, names)


def _list_functions(stacks: Stacks, number: int, labels: Sequence[int]) -> list[int]:
    codes = () if number < 0 else stacks.get_codes(number)
    return list(dict.fromkeys(labels[code] for code in codes)) or [ABSENT]


def _number_stacks(batch: Batch) -> tuple[Array, Array]:
    """Return the distinct stacks of the events, and which of them each event has."""
    held = np.full(len(batch), ABSENT, np.int64) if batch.stack is None else batch.stack
    numbers, places = np.unique(held, return_inverse=True)
    return numbers, places.reshape(-1)


def count_stackless(batch: Batch) -> int:
    """Count the events that have no stack."""
    return len(batch) if batch.stack is None else int((batch.stack < 0).sum())
