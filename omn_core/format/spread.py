"""A repeated run as text: how each request's figures spread over the runs, and the program's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omn_core.emit.spread import compute_spread
from omn_core.format.figures import render_figures
from omn_core.format.labels import render_labels
from omn_core.format.scale import render_count, render_duration, render_number
from omn_core.model.result import Document, Repeat, Result, SeriesSpread
from omn_core.model.style import TextStyle

_MOST_VALUES = 20
_ORDER = ("mean", "error", "deviation", "min", "max", "runs")


def render_spread(repeat: Repeat, result: Result, style: TextStyle) -> list[str]:
    """Return the table of a request's series over its runs, greatest mean first; of a single one each run's figure."""
    if repeat.figure is None:
        return [f"{render_count(repeat.runs)} runs, and no figure that stands for one: --format json has them"]
    lines = [f"{repeat.emit}'s {repeat.figure} in each of {render_count(repeat.runs)} runs"]
    if not repeat.series:
        return [*lines, "no series: no event carried a key"]
    unit, keys = result.resolved.unit, tuple(repeat.series[0].key)
    series = sorted(repeat.series, key=_place)
    shown = render_labels([(one.key, one.labels) for one in series])
    rows = [(key, _make_row(one, repeat.runs)) for key, one in zip(shown, series, strict=True)]
    lines += render_figures(rows, unit, style, keys, _ORDER)
    return lines if len(rows) > 1 else [*lines, "", *_list_values(repeat.series[0].values, unit, style)]


def render_windows(document: Document, index: int) -> str:
    """Return how long the windows of one request were, and how many events they saw."""
    lengths = [run.results[index].window.length_ns for run in document.repeats]
    events = [run.results[index].events_seen for run in document.repeats]
    return f"{_span(lengths, render_duration)}, {_span(events, render_count)} events, in {len(lengths)} runs"


def render_program_spread(document: Document) -> list[str]:
    """Return how long the program lived and what cpu it used, as means with their relative error."""
    programs = [run.program for run in document.repeats if run.program is not None]
    clauses = []
    for what, values in (
        ("lived", [program.lifetime_ns for program in programs]),
        ("used cpu for", [program.cpu_ns for program in programs]),
    ):
        spread = compute_spread({}, values)
        if spread.mean is not None:
            low, high = render_duration(spread.min), render_duration(spread.max)
            clauses.append(f"{what} {render_duration(spread.mean)}{_error(spread)}, from {low} to {high}")
    return clauses


def _make_row(spread: SeriesSpread, runs: int) -> Mapping[str, Any]:
    some = {} if spread.runs == runs else {"runs": spread.runs}
    return {
        **some,
        "mean": spread.mean,
        "deviation": spread.deviation,
        "min": spread.min,
        "max": spread.max,
        "error": spread.relative_error,
    }


def _place(spread: SeriesSpread) -> tuple[bool, float]:
    return spread.mean is None, -(spread.mean or 0.0)


def _list_values(values: Sequence[float | None], unit: str, style: TextStyle) -> list[str]:
    from omn_core.format.page import wrap

    shown = [render_number(value, unit, style.scale) for value in values[:_MOST_VALUES]]
    more = f", ... {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
    return wrap(f"each run: {', '.join(shown)}{more}", style.width, "  ")


def _error(spread: SeriesSpread) -> str:
    return "" if spread.relative_error is None else f" +- {100 * spread.relative_error:.2g} %"


def _span(values: Sequence[int], render: Any) -> str:
    low, high = render(min(values)), render(max(values))
    return str(low) if low == high else f"{low} to {high}"
