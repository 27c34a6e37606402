"""The stacks of a run as every format of stacks reads them, and the tree they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from omn_core.format.figures import render_key
from omn_core.model.request import parse_emit
from omn_core.model.result import Document, Result
from omn_core.model.stacks import Frame
from omn_core.names import escape_bytes

EMIT = "stack"
"""The emit whose rows are stacks."""


@attrs.frozen
class Stack:
    """One row: its frames from the outermost to the innermost, what it weighs in the series' unit, its events."""

    frames: tuple[Frame, ...]
    weight: float
    count: float


@attrs.frozen(eq=False)
class StackSeries:
    """The stacks of one series. `label` is the text of its key, empty where nothing divides the request.

    `labels` says what the key's parts are called where that is known, `lower_bound` that losses make every weight a
    lower bound.
    """

    result: Result
    place: int
    key: Mapping[str, Any]
    labels: Mapping[str, str]
    lower_bound: bool
    stacks: tuple[Stack, ...]

    @property
    def source(self) -> str:
        """The source that was asked."""
        return self.result.resolved.entry.id

    @property
    def unit(self) -> str:
        """The unit of the weights."""
        return self.result.resolved.unit

    @property
    def label(self) -> str:
        """The key as text: `task worker (7)`."""
        return render_series(self.key, self.labels)


def iter_stack_series(document: Document) -> Iterator[StackSeries]:
    """Iterate over the series that were asked for stacks, in the document's order. `place` is the result's.

    Names are text that UTF-8 can hold. Frames alike are one object, whichever stack they stand in.
    """
    known: dict[tuple[str, str | None, str | None], Frame] = {}
    for place, result in enumerate(document.results):
        for series in result.series:
            for emit, answer in series.emits.items():
                if parse_emit(emit).name == EMIT:
                    stacks = tuple(_read(row, known) for row in answer["rows"])
                    lower_bound = bool(answer.get("lower_bound"))
                    yield StackSeries(result, place, series.key, series.labels, lower_bound, stacks)


def render_series(key: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Return the text of a series' key, empty for the series of a request without keys.

    What a part is called stands before its value, which stays: two that are called alike are told apart.
    """
    return ", ".join(f"{render_key(name)} {_render_part(value, labels.get(name))}" for name, value in key.items())


def _render_part(value: Any, label: str | None) -> str:
    return render_key(value) if label is None else f"{render_key(label)} ({render_key(value)})"


def compute_roots(series: Iterable[StackSeries]) -> Iterator[tuple[StackSeries, tuple[str, ...]]]:
    """Return each series with the frames that tell it from the others, for a format that holds one tower of all.

    The source where several requests have stacks, the key where keys divide the request, otherwise none.
    """
    listed = list(series)
    has_several = len({one.place for one in listed}) > 1
    for one in listed:
        yield one, tuple(filter(None, (one.source if has_several else "", one.label)))


class Node:
    """A frame where it stands in the tree of a series: what passed through it and what ended in it."""

    __slots__ = ("children", "count", "frame", "own", "weight")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.weight: float = 0
        self.own: float = 0
        self.count: float = 0
        self.children: dict[Frame, Node] = {}


def compute_tree(stacks: Iterable[Stack], root: Frame) -> Node:
    """Return the tree of stacks, below a root of that name. A stack without weight takes no part."""
    top = Node(root)
    for stack in stacks:
        if stack.weight <= 0:
            continue
        node = top
        _add(node, stack)
        for frame in stack.frames:
            below = node.children.get(frame)
            if below is None:
                below = node.children[frame] = Node(frame)
            node = below
            _add(node, stack)
        node.own += stack.weight
    return top


def _add(node: Node, stack: Stack) -> None:
    node.weight += stack.weight
    node.count += stack.count


def _read(row: Mapping[str, Any], known: dict[tuple[str, str | None, str | None], Frame]) -> Stack:
    labels = row["frames"]
    absent = [None] * len(labels)
    parts = zip(labels, row.get("objects") or absent, row.get("named_by") or absent, strict=True)
    frames = [known.get(part) or known.setdefault(part, _make_frame(*part)) for part in parts]
    return Stack(tuple(reversed(frames)), row["weight"], row["count"])


def _make_frame(label: str, holder: str | None, named_by: str | None) -> Frame:
    return Frame(escape_bytes(label), None if holder is None else escape_bytes(holder), named_by)
