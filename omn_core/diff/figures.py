"""Counts, rates, summaries and rankings of two sides, figure by figure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from omn_core.diff.answers import OF_ONE_RUN, Asked, count_samples, get_seconds
from omn_core.diff.model import Apart, Figure, Row, Table
from omn_core.diff.rows import compare_rows
from omn_core.diff.sides import Plain

Name = tuple[tuple[str, Any], ...]

_FUNCTIONS = frozenset({"func", "within"})
_UNNAMED = re.compile(r"\+0x[0-9a-f]+$|^\[")
"""What stands for a function that has no name: an address in a file, or what its memory is called."""

_TOTALS = frozenset({"value", "total"})
"""Figures that grow with the window, where values add up."""


@attrs.frozen
class _Reading:
    """One figure of one row in one run. `events` is how many it is of, None where nobody knows."""

    value: float
    events: float | None
    is_bound: bool


_Readings = Mapping[str, Mapping[Name, _Reading]]
"""Each figure's rows in one run."""


def compare_figures(asked: Asked, emit: str) -> tuple[Table, ...]:
    """Compare the figures of an emit that has any: a table for each, a row for each series and each of its rows."""
    read = _READERS[emit.partition("@")[0].partition(":")[0]]
    sides = [[_collect(read, one, emit) for one in side] for side in asked.sides]
    figures = dict.fromkeys(figure for side in sides for run in side for figure in run)
    return tuple(
        _tabulate(figure, [[run.get(figure, {}) for run in side] for side in sides], asked) for figure in figures
    )


def has_figures(emit: str) -> bool:
    """Tell whether an emit's answers have figures that stand for a series."""
    name, at, _ = emit.partition("@")
    return name.partition(":")[0] in _READERS and (not at or name.partition(":")[0] != "hist")


def _collect(read: _Read, result: Plain, emit: str) -> _Readings:
    found: dict[str, dict[Name, _Reading]] = {}
    for series in result["series"]:
        key = tuple(series["key"].items())
        for figure, name, reading in read(result, emit, series["emits"][emit]):
            found.setdefault(figure, {})[(*key, *name)] = reading
    return found


_Read = Callable[[Plain, str, Mapping[str, Any]], Iterator[tuple[str, Name, _Reading]]]


def _read_count(result: Plain, emit: str, answer: Mapping[str, Any]) -> Iterator[tuple[str, Name, _Reading]]:
    if answer["value"] is not None:
        yield "value", (), _Reading(answer["value"], _count_events(result, answer), answer["lower_bound"])


def _count_events(result: Plain, answer: Mapping[str, Any]) -> float | None:
    """Return how many independent events make a count: its samples, or its occurrences where it counts them."""
    if not result["adds_up"]:
        return None
    if result["request"]["mode"] == "sample":
        return count_samples(result) if len(result["series"]) == 1 else None
    return float(answer["value"]) if result["unit"] == "count" else None


def _read_rate(result: Plain, emit: str, answer: Mapping[str, Any]) -> Iterator[tuple[str, Name, _Reading]]:
    if answer["per_second"] is not None:
        counted = {**answer, "value": answer["total"]}
        yield "per_second", (), _Reading(answer["per_second"], _count_events(result, counted), answer["lower_bound"])


def _read_summary(result: Plain, emit: str, answer: Mapping[str, Any]) -> Iterator[tuple[str, Name, _Reading]]:
    attribute = emit.partition("@")[2]
    for row in answer.get("rows", [answer]):
        name = ((attribute, row.get("label") or row["attr"]),) if attribute else ()
        for figure in ("total", "mean", "p50", "p90", "p99", "max"):
            if row.get(figure) is not None:
                yield figure, name, _Reading(row[figure], None, bool(answer["lower_bound"]))


def _read_ranking(result: Plain, emit: str, answer: Mapping[str, Any]) -> Iterator[tuple[str, Name, _Reading]]:
    for row in answer["rows"]:
        if row["value"] is not None:
            events = None
            if result["request"]["mode"] == "sample" and row["share"] is not None and len(result["series"]) == 1:
                events = row["share"] * count_samples(result)
            elif result["unit"] == "count":
                events = float(row["value"])
            yield "value", tuple(row["key"].items()), _Reading(row["value"], events, bool(answer["lower_bound"]))


_READERS: Mapping[str, _Read] = {
    "count": _read_count,
    "rate": _read_rate,
    "summary": _read_summary,
    "topk": _read_ranking,
}


def _tabulate(figure: str, sides: Sequence[Sequence[Mapping[Name, _Reading]]], asked: Asked) -> Table:
    unit = str(asked.first["unit"])
    is_scaled = asked.is_per_second and bool(asked.first["adds_up"]) and figure in _TOTALS
    names = dict.fromkeys(name for side in sides for run in side for name in run)
    rows: list[Row] = []
    lacking: dict[str, list[Name]] = {}
    for name in names:
        lack = _find_lack(name, sides)
        if lack is not None:
            lacking.setdefault(lack, []).append(name)
            continue
        a, b = (
            _make_figure(name, side, results, is_scaled=is_scaled)
            for side, results in zip(sides, asked.sides, strict=True)
        )
        rows.append(Row(dict(name), a, b, b.mean - a.mean))
    confidence, compared = compare_rows(rows)
    apart = tuple(_set_apart(lack, of, sides, asked, is_scaled=is_scaled) for lack, of in lacking.items())
    is_per_second = is_scaled or figure == "per_second"
    return Table(figure, unit, confidence, compared, is_per_second, apart)


def _find_lack(name: Name, sides: Sequence[Sequence[Mapping[Name, _Reading]]]) -> str | None:
    """Find what keeps a row from being compared, None where every run of both sides has it."""
    numbers = sorted({part for part, _ in name if part in OF_ONE_RUN})
    if numbers:
        return f"a name outside its own run ({', '.join(numbers)})"
    if any(part in _FUNCTIONS and _UNNAMED.search(str(value)) for part, value in name):
        return "a name: an address is no function of another run"
    for letter, side in zip("AB", sides, strict=True):
        if not all(name in run for run in side):
            return f"a figure in {'every run of ' if len(side) > 1 else ''}{letter}"
    return None


def _make_figure(
    name: Name, side: Sequence[Mapping[Name, _Reading]], results: Sequence[Plain], *, is_scaled: bool
) -> Figure:
    scales = [1 / get_seconds(result) if is_scaled else 1.0 for result in results]
    readings = [run[name] for run in side]
    values = [reading.value * scale for reading, scale in zip(readings, scales, strict=True)]
    counts = [reading.events for reading in readings if reading.events is not None]
    is_counted = len(counts) == len(readings)
    noises = tuple(value**2 / count if count else 0.0 for value, count in zip(values, counts, strict=False))
    return Figure(
        values=tuple(values),
        noises=noises if is_counted else None,
        step=math.fsum(values) / math.fsum(counts) if is_counted and any(counts) else 0.0,
        events=math.fsum(counts) / len(counts) if is_counted and counts else None,
        is_bound=any(reading.is_bound for reading in readings),
    )


def _set_apart(
    lack: str,
    names: Sequence[Name],
    sides: Sequence[Sequence[Mapping[Name, _Reading]]],
    asked: Asked,
    *,
    is_scaled: bool,
) -> Apart:
    adds_up = bool(asked.first["adds_up"])

    def compute_mean(side: int, name: Name) -> float | None:
        held = [
            run[name].value / (get_seconds(result) if is_scaled else 1.0)
            for run, result in zip(sides[side], asked.sides[side], strict=True)
            if name in run
        ]
        return math.fsum(held) / len(sides[side]) if held else None

    means = {name: (compute_mean(0, name), compute_mean(1, name)) for name in names}
    heaviest = sorted(means.items(), key=lambda one: -math.fsum(abs(value or 0.0) for value in one[1]))[:5]
    columns = [[value for value in of if value is not None] for of in zip(*means.values(), strict=True)]
    totals = [math.fsum(column) if adds_up and column else None for column in columns]
    shown = tuple((", ".join(str(value) for _, value in name), *mean) for name, mean in heaviest)
    return Apart(lack, None, totals[0], totals[1], None, None, len(names), shown)
