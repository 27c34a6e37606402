"""`summary` and `summary@ATTRIBUTE`: the figures that describe a distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from omn_core.emit.base import Answer, Series
from omn_core.emit.count import find_last
from omn_core.emit.numbers import compute_reach, compute_total, to_plain_number
from omn_core.emit.series import compute_by
from omn_core.format.figures import NOTHING_MEASURED, render_figures
from omn_core.format.labels import ROW_NAMES, render_rows
from omn_core.format.order import order_series
from omn_core.model.batch import Array
from omn_core.model.request import EmitSpec
from omn_core.model.style import TextStyle

PERCENTS = (50, 90, 99)
"""The percentiles given: each the smallest measured value that at least that share of the occurrences do not pass."""


class Summary:
    """Count, least, greatest, mean, percentiles; a total where values add up; the last reading where there is one.

    Where readings describe intervals (`Series.spans`), mean and percentiles weigh each by its interval's length.
    """

    def compute(self, series: Series, spec: EmitSpec) -> Answer:
        """Return the figures, or a row of them for each value of an attribute, `?` for events that lack it."""
        return compute_by(series, spec.attribute, _figures)

    def render(self, answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
        """Return the figures under their names, a line for each row."""
        if "rows" not in answer:
            return render_figures([({}, answer)], unit, style)
        if not answer["rows"]:
            return [NOTHING_MEASURED]
        name_of_rows = style.attribute or "attr"
        rows = [
            (
                {name_of_rows: key["attr"]},
                {"lower_bound": answer["lower_bound"], **{name: row[name] for name in row if name not in ROW_NAMES}},
            )
            for key, row in zip(render_rows(answer["rows"]), answer["rows"], strict=True)
        ]
        return render_figures(order_series(rows), unit, style, key_names=(name_of_rows,))


def _figures(series: Series) -> Answer:
    series = series.merged
    values, weights = series.values, series.weights
    count = len(values) if weights is None else to_plain_number(compute_total(weights))
    if not count or not len(values):
        names = ["min", "max", "mean", *(["total"] if series.adds_up else []), *(f"p{rank}" for rank in PERCENTS)]
        return {"count": 0, **dict.fromkeys(names)}
    total = compute_total(series.sums)
    figures: Answer = {
        "count": count,
        "min": to_plain_number(values.min()),
        "max": _greatest(series),
        "mean": to_plain_number(total / count if series.spans is None else np.average(values, weights=series.spans)),
    }
    if series.adds_up:
        figures["total"] = to_plain_number(total)
    last = find_last(series) if weights is None else None
    if last is not None:
        figures["last"] = last
    ranked = _percentiles(values, weights if series.spans is None else series.spans)
    return figures | {f"p{rank}": to_plain_number(value) for rank, value in zip(PERCENTS, ranked, strict=True)}


def _greatest(series: Series) -> int | float | None:
    """Return the greatest value, raised to the exact mean of any aggregated row: what that row held reached it."""
    greatest = to_plain_number(series.values.max())
    if series.weights is None or series.sums.dtype.kind == "f" or greatest is None:
        return greatest
    counted = np.flatnonzero(series.weights > 0)
    means = series.sums[counted].astype(np.float64) / series.weights[counted].astype(np.float64)
    return max(greatest, math.ceil(means.max())) if means.max() > greatest else greatest


def _percentiles(values: Array, weights: Array | None) -> list[Any]:
    if weights is None:
        places = [(len(values) * rank + 99) // 100 - 1 for rank in PERCENTS]
        return [np.partition(values, places)[place] for place in places]
    order = np.argsort(values, kind="stable")
    is_wide = weights.dtype.kind != "f" and compute_reach(weights) * len(weights) >= 1 << 63
    reached = np.cumsum((weights.astype(np.float64) if is_wide else weights)[order])
    wanted = [int(np.searchsorted(reached, reached[-1] * rank / 100)) for rank in PERCENTS]
    return [values[order[min(place, len(order) - 1)]] for place in wanted]


SUMMARY = Summary()
