"""The order in which a person reads several series: the greatest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = tuple[Mapping[str, Any], Mapping[str, Any]]

_FIGURES = ("total", "value", "per_second", "last", "mean", "max")
_COUNTS = ("events", "count")
"""What a series is weighed by: the first of the figures that is known, or where it has none of them its count."""


def order_series(rows: Sequence[Row]) -> list[Row]:
    """Return (key, answer) rows with the greatest first, those without a figure last; equal ones keep their order.

    Where a single key counts through (cpus, nodes), the count is the order that a reader expects.
    """
    if _counts_through([key for key, _ in rows]):
        return list(rows)
    return sorted(rows, key=lambda row: -_weigh(row[1]))


def _counts_through(keys: Sequence[Mapping[str, Any]]) -> bool:
    values = [value for key in keys for value in key.values()]
    is_whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    return len(values) == len(keys) and is_whole and all(0 <= value < 2 * len(values) for value in values)


def _weigh(answer: Mapping[str, Any]) -> float:
    """Return what a series weighs: a figure, its greatest point, the sum of its rows, or what its buckets count."""
    if "points" in answer:
        return max((value for _, value in answer["points"] if value is not None), default=float("-inf"))
    parts = answer.get("buckets", answer.get("rows"))
    if isinstance(parts, list):
        return sum(max(_find_figure(part), 0.0) for part in parts)
    return _find_figure(answer)


def _find_figure(answer: Mapping[str, Any]) -> float:
    names = _FIGURES if any(name in answer for name in _FIGURES) else _COUNTS
    found = next((answer[name] for name in names if answer.get(name) is not None), None)
    return float(found) if isinstance(found, int | float) else float("-inf")
