"""Stacks as a tree in text: the callers above, what they call below them, the light branches counted and left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from omn_core.format.columns import render_column
from omn_core.format.figures import mark_bound, render_key
from omn_core.format.scale import render_count, render_number
from omn_core.model.style import TextStyle
from omn_core.names import compute_width, pad

LEAST_SHARE = 0.01
"""What part of the whole a branch must have to be shown."""

_ROWS = 40
_INDENT = 2


@attrs.define(eq=False)
class _Branch:
    label: str
    weight: float = 0
    below: dict[str, _Branch] = attrs.field(factory=dict)


def render_tree(answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
    """Return a line for each call: its share of the whole, its sum, and its name under its caller's.

    A call that is all that its caller did stands at the caller's own depth, so that depth is spent on branches. What is
    below `LEAST_SHARE`, and lines past forty, are counted at the end.
    """
    rows = answer["rows"]
    if not rows:
        return ["no stacks"]
    whole = _grow(rows)
    branches = list(_iter_branches(whole, 0))
    shown = [(depth, one) for depth, one in branches if one.weight >= LEAST_SHARE * whole.weight][:_ROWS]
    total = mark_bound(render_number(whole.weight, unit, style.scale), bool(answer["lower_bound"]))
    events = render_count(sum(row["count"] for row in rows))
    lines = [f"{total} in {events} events, {render_count(len(rows))} stacks"]
    values = render_column([one.weight for _, one in shown], unit, style.scale)
    width = max((compute_width(text) for text in values), default=0)
    for (depth, one), text in zip(shown, values, strict=True):
        share = f"{100 * one.weight / whole.weight if whole.weight else 0:5.1f} %"
        head = f"{share}  {pad(text, width, right=True)}  {' ' * (_INDENT * depth)}"
        lines.append(f"{head}{render_key(one.label, max(style.width - compute_width(head), 8))}")
    if len(shown) < len(branches):
        lines.append(f"({render_count(len(branches) - len(shown))} lighter calls are not shown)")
    return lines


def _grow(rows: list[Mapping[str, Any]]) -> _Branch:
    """Make the tree of stacks, each from its outermost frame."""
    whole = _Branch("")
    for row in rows:
        at = whole
        at.weight += row["weight"] or 0
        for label in reversed(row["frames"] or ["[no stack]"]):
            at = at.below.setdefault(label, _Branch(label))
            at.weight += row["weight"] or 0
    return whole


def _iter_branches(branch: _Branch, depth: int) -> Iterator[tuple[int, _Branch]]:
    """Iterate over what stands below a branch, the heaviest first, without a Python call for each frame of a stack."""
    waiting = [(depth, one) for one in _order(branch)]
    while waiting:
        depth, one = waiting.pop()
        yield depth, one
        below = _order(one)
        is_alone = len(below) == 1 and below[0].weight == one.weight
        waiting += [(depth if is_alone else depth + 1, each) for each in below]


def _order(branch: _Branch) -> list[_Branch]:
    """Return what a branch calls, the heaviest last, as it is taken from the end."""
    return sorted(branch.below.values(), key=lambda one: one.weight)
