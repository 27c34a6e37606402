"""Several timelines below each other: a line for each, with its extremes, its last value and its course."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from omn_core.format.columns import render_column
from omn_core.format.figures import render_key, say_more
from omn_core.format.page import wrap
from omn_core.format.scale import render_duration
from omn_core.model.style import TextStyle
from omn_core.names import compute_width, pad

_STEPS = "▁▂▃▄▅▆▇█"
_UNKNOWN = " "
_LEAST_CELLS = 8
_GREATEST_CELLS = 60

Points = Sequence[tuple[int, float]]


def render_sparklines(
    rows: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], unit: str, style: TextStyle, key_names: Sequence[str]
) -> list[str]:
    """Return a line for each series of a timeline: its key, least, greatest and last value, and its course.

    All courses are over one stretch of time. Each cell is the greatest value in its part of it, from zero to the
    series' own greatest; a blank one holds no point.
    """
    shown = rows if style.rows is None else rows[: style.rows]
    series = [_known(answer["points"]) for _, answer in shown]
    room = max(style.width // (len(key_names) + 4), 8)
    columns = [[name, *(render_key(key.get(name), room) for key, _ in shown)] for name in key_names]
    for name, find in (("min", min), ("max", max), ("last", _find_last)):
        figures = [find(value for _, value in points) if points else None for points in series]
        columns.append([name, *render_column(figures, unit, style.scale)])
    widths = [max(map(compute_width, column)) for column in columns]
    cells = min(style.width - sum(widths) - 2 * len(widths), _GREATEST_CELLS)
    instants = sorted({when for points in series for when, _ in points})
    courses = [""] * len(series)
    if instants and cells >= _LEAST_CELLS:
        places = _place(instants, cells)
        courses = [_draw([(places[when], value) for when, value in points]) for points in series]
    lines = []
    for place in range(len(shown) + 1):
        parts = [
            pad(column[place], width, right=index >= len(key_names))
            for index, (column, width) in enumerate(zip(columns, widths, strict=True))
        ]
        lines.append("  ".join([*parts, courses[place - 1] if place else ""]).rstrip())
    if len(shown) < len(rows):
        lines += wrap(say_more(len(rows) - len(shown)), style.width, " ")
    if any(courses):
        lines += wrap(
            f"(each course is over {render_duration(instants[-1] - instants[0])}, up from zero)", style.width, " "
        )
    return lines


def _known(points: Sequence[Sequence[Any]]) -> Points:
    return [(when, value) for when, value in points if value is not None]


def _find_last(values: Any) -> float:
    last: float = list(values)[-1]
    return last


def _place(instants: Sequence[int], cells: int) -> dict[int, int]:
    """Return the cell of each instant: its own where so many are even steps, else that of its part of the time."""
    steps = [then - first for first, then in pairwise(instants)]
    if len(instants) <= cells and (not steps or max(steps) <= 2 * sorted(steps)[len(steps) // 2]):
        return {when: place for place, when in enumerate(instants)}
    length = (instants[-1] - instants[0]) // cells + 1
    return {when: (when - instants[0]) // length for when in instants}


def _draw(points: Sequence[tuple[int, float]]) -> str:
    peaks: dict[int, float] = {}
    for place, value in points:
        peaks[place] = max(value, peaks.get(place, value))
    top = max((abs(peak) for peak in peaks.values()), default=0)
    return "".join(_spell(peaks.get(place), top) for place in range(max(peaks, default=-1) + 1))


def _spell(peak: float | None, top: float) -> str:
    if peak is None:
        return _UNKNOWN
    return _STEPS[min(int(max(peak, 0) / top * len(_STEPS)), len(_STEPS) - 1) if top else 0]
