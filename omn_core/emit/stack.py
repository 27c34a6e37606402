"""`stack`: where in the code, as stacks with their weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from omn_core.emit.base import Answer, Series
from omn_core.emit.numbers import compute_sums, to_plain_number
from omn_core.format.stack_tree import render_tree
from omn_core.model.batch import Array
from omn_core.model.request import EmitSpec
from omn_core.model.stacks import Frame
from omn_core.model.style import TextStyle


class Stack:
    """What the total is made of, by the code that was running."""

    def compute(self, series: Series, spec: EmitSpec) -> Answer:
        """Return a row for each stack, the heaviest first: its frames from the innermost, its sum, its events.

        Events without a stack are a row without frames. `builds` has the build ids of each object that any frame is in,
        several where another file took its place as it ran.
        """
        if not len(series.values):
            return {"lower_bound": series.lower_bound, "rows": [], "builds": {}}
        numbers, codes = np.unique(_list_stacks(series), return_inverse=True)
        codes = codes.reshape(-1)
        sums = compute_sums(codes, series.sums, len(numbers))
        ones = np.ones(len(codes), np.int64) if series.weights is None else series.weights
        counts = compute_sums(codes, ones, len(numbers))
        order = sorted(range(len(numbers)), key=lambda place: (-sums[place], numbers[place]))
        stacks = [_find_frames(series, int(numbers[place])) for place in order]
        rows = [_make_row(frames, sums[place], counts[place]) for frames, place in zip(stacks, order, strict=True)]
        return {"lower_bound": series.lower_bound, "rows": rows, "builds": _list_builds(stacks)}

    def render(self, answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
        """Return the tree of the calls, from the outermost, with each one's sum and share."""
        return render_tree(answer, unit, style)


def _list_stacks(series: Series) -> Array:
    stack = series.batch.stack
    if stack is None:
        return np.full(len(series.values), -1, np.int64)
    return stack if series.measured is None else stack[series.measured]


def _find_frames(series: Series, stack: int) -> list[Frame]:
    return [] if stack < 0 or series.stacks is None else series.stacks.get_frames(stack)


def _list_builds(stacks: list[list[Frame]]) -> dict[str, list[str]]:
    frames = {frame for stack in stacks for frame in stack}
    pairs = sorted(
        {(one.object, one.build_id) for one in frames if one.object is not None and one.build_id is not None}
    )
    builds: dict[str, list[str]] = {}
    for path, build_id in pairs:
        builds.setdefault(path, []).append(build_id)
    return builds


def _make_row(frames: list[Frame], weight: Any, count: Any) -> Answer:
    return {
        "frames": [frame.label for frame in frames],
        "weight": to_plain_number(weight),
        "count": to_plain_number(count),
        "named_by": [frame.named_by for frame in frames],
        "objects": [frame.object for frame in frames],
    }


STACK = Stack()
