"""The spread of a figure over several runs: its mean, sample deviation, extremes and relative error."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from omn_core.model.request import EmitSpec
from omn_core.model.result import Repeat, Result, SeriesResult, SeriesSpread
from omn_core.model.stacks import FUNC

WEIGHT = "weight"
"""The figure of a profile: what the stacks of a function weigh, that it was the innermost of."""


def find_figure(emits: Sequence[EmitSpec], *, adds_up: bool) -> tuple[EmitSpec, str] | None:
    """Return the emit and the figure of it that stand for a series in a spread, None where there is none.

    Of the first `summary` or `count` that was asked, undivided by an attribute: a summary's total where values add up
    and its mean where they do not, a count's value. Else of a `stack`, whose figures are its functions': what the
    stacks weigh that each was the innermost of.
    """
    for spec in emits:
        if spec.name == "summary" and spec.attribute is None:
            return spec, "total" if adds_up else "mean"
        if spec.name == "count":
            return spec, "value"
    return next(((spec, WEIGHT) for spec in emits if spec.name == "stack"), None)


def compute_repeat(results: Sequence[tuple[int, Result]]) -> Repeat | None:
    """Return how one request's answers spread over its runs, each result with its run's number; None over none.

    A result that failed is left out, and `notes` names its run.
    """
    served = [(number, result) for number, result in results if result.failure is None]
    notes = [f"run {number} failed, and is in no spread" for number, result in results if result.failure is not None]
    if not served:
        return None
    resolved = served[0][1].resolved
    notes += _say_losses(served)
    found = find_figure(resolved.emits, adds_up=resolved.adds_up)
    if found is None:
        return Repeat(len(served), None, None, (), tuple(notes))
    emit, figure = str(found[0]), found[1]
    known: dict[tuple[Any, ...], tuple[Mapping[str, Any], SeriesResult]] = {}
    values: dict[tuple[Any, ...], list[float | None]] = {}
    for place, (_, result) in enumerate(served):
        for key, series, value in _iter_figures(result, emit, figure):
            identity = tuple(key.values())
            known[identity] = key, series
            row = values.setdefault(identity, [None] * len(served))
            row[place] = value
    if figure == WEIGHT:
        _fill_profiles(values, [result for _, result in served])
    spreads = tuple(
        attrs.evolve(compute_spread(known[identity][0], row), labels=known[identity][1].labels)
        for identity, row in values.items()
    )
    return Repeat(len(served), emit, figure, spreads, tuple(notes))


def _fill_profiles(values: Mapping[tuple[Any, ...], list[float | None]], results: Sequence[Result]) -> None:
    """Put a weight of 0 where a run's profile has no stack of a function; a series that a run lacks stays unknown."""
    for place, result in enumerate(results):
        profiled = {tuple(series.key.values()) for series in result.series}
        for identity, row in values.items():
            if row[place] is None and identity[:-1] in profiled:
                row[place] = 0


def _iter_figures(
    result: Result, emit: str, figure: str
) -> Iterator[tuple[Mapping[str, Any], SeriesResult, float | None]]:
    """Iterate over a run's figures: one a series, of a profile one for each function that was running."""
    for series in result.series:
        answer = series.emits[emit]
        if figure != WEIGHT:
            yield series.key, series, answer.get(figure)
            continue
        weights: dict[str | None, float] = {}
        for row in answer["rows"]:
            leaf = row["frames"][0] if row["frames"] else None
            weights[leaf] = weights.get(leaf, 0) + row["weight"]
        for leaf, weight in weights.items():
            yield {**series.key, FUNC: leaf}, series, weight


def compute_spread(key: Any, values: Sequence[float | None]) -> SeriesSpread:
    """Return the spread of one series' figures, one a run, None where a run gave none."""
    known = [value for value in values if value is not None]
    count = len(known)
    if not known:
        return SeriesSpread(key, 0, None, None, None, None, None, tuple(values))
    mean = math.fsum(known) / count
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (count - 1)) if count > 1 else None
    error = None if deviation is None or mean == 0 else deviation / math.sqrt(count) / abs(mean)
    return SeriesSpread(key, count, mean, deviation, min(known), max(known), error, tuple(values))


_MOST_NAMED = 20


def say_runs(numbers: Sequence[int]) -> str:
    """Return which runs, by their numbers; of very many the first, and how many more."""
    named = f"run {', '.join(map(str, numbers[:_MOST_NAMED]))}"
    return named if len(numbers) <= _MOST_NAMED else f"{named} and {len(numbers) - _MOST_NAMED} more"


def _say_losses(results: Sequence[tuple[int, Result]]) -> list[str]:
    """Say which runs lost what, where any did; and that the runs are no equals where they lost differently."""
    from omn_core.model.losses import COUNTS

    lost: dict[str, list[int]] = {}
    for number, result in results:
        kinds = [f"{getattr(result.losses, name)} {name}" for name in COUNTS if getattr(result.losses, name)]
        lost.setdefault(", ".join(kinds) or "nothing", []).append(number)
    if list(lost) == ["nothing"]:
        return []
    each = [f"{what} in {say_runs(numbers)}" for what, numbers in lost.items()]
    uneven = "" if len(lost) == 1 else ": the spread is over runs that lost different amounts"
    return [f"lost {'; '.join(each)}{uneven}"]
