"""`hist` and `hist@ATTRIBUTE`: a distribution in buckets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from omn_core.emit.base import Answer, Series
from omn_core.emit.numbers import compute_sums, compute_total, to_plain_number
from omn_core.emit.series import compute_by
from omn_core.format.bars import render_buckets
from omn_core.format.figures import NOTHING_MEASURED
from omn_core.format.labels import render_rows
from omn_core.model.batch import Array
from omn_core.model.request import EmitSpec
from omn_core.model.style import TextStyle

LINEAR_UNITS = frozenset({"ratio", "percent", "celsius", "load"})
"""Units whose values lie within a known stretch: even buckets describe them, powers of two do not."""

LINEAR_BUCKETS = 20


class Hist:
    """Occurrences by bucket. The unit alone decides the scale, so that two runs of one source compare.

    On the `log2` scale a bucket holds [2^k, 2^(k+1)), everything in [0, 1) shares one, and negative values mirror
    these. On the `linear` scale (`LINEAR_UNITS`, and a family's own unit that scales as a share) twenty even buckets
    span the least to the greatest value, which the last one includes. Empty buckets between two others are listed.
    """

    def compute(self, series: Series, spec: EmitSpec) -> Answer:
        """Return scale, buckets and the exact sum, or a row of them for each value of an attribute."""
        return compute_by(series, spec.attribute, _figures)

    def render(self, answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
        """Return a line for each bucket, with its share and a bar."""
        if "rows" not in answer:
            return render_buckets(answer, unit, style)
        lines: list[str] = []
        for key, row in zip(render_rows(answer["rows"]), answer["rows"], strict=True):
            title = " ".join(filter(None, (style.attribute, str(key["attr"]))))
            lines += render_buckets({**row, "lower_bound": answer["lower_bound"]}, unit, style, title)
        return lines or [NOTHING_MEASURED]


def _figures(series: Series) -> Answer:
    series = series.merged
    values, weights = series.values, series.weights
    is_linear = series.unit in LINEAR_UNITS or series.scale == "ratio"
    edges = _linear_edges(values) if is_linear else None
    if not len(values):
        buckets: list[Answer] = []
    elif edges is not None:
        codes = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, max(len(edges) - 2, 0))
        counts = _count(codes, weights, max(len(edges) - 1, 1))
        lows, highs = edges[: len(counts)].tolist(), edges[-len(counts) :].tolist()
        buckets = [_bucket(*parts) for parts in zip(lows, highs, counts, strict=True)]
    else:
        codes = _log2_codes(values)
        lowest = int(codes.min())
        counts = _count(codes - lowest, weights, int(codes.max()) - lowest + 1)
        buckets = [_bucket(*_log2_bounds(code), count) for code, count in enumerate(counts, lowest)]
    scale = "linear" if is_linear else "log2"
    return {"scale": scale, "buckets": buckets, "sum": to_plain_number(compute_total(series.sums))}


def _bucket(low: float, high: float, count: Any) -> Answer:
    return {"low": to_plain_number(low), "high": to_plain_number(high), "count": to_plain_number(count)}


def _count(codes: Array, weights: Array | None, length: int) -> list[Any]:
    counts = np.bincount(codes, minlength=length) if weights is None else compute_sums(codes, weights, length)
    return list(counts.tolist())


def _linear_edges(values: Array) -> Array:
    """Return the bounds of the even buckets; one bound, of one bucket, where the values leave no room for more."""
    if not len(values):
        return np.empty(0)
    low, high = float(values.min()), float(values.max())
    with np.errstate(over="ignore", invalid="ignore"):
        edges = np.linspace(low, high, LINEAR_BUCKETS + 1)
    if np.isfinite(edges).all() and (np.diff(edges) > 0).all():
        return edges
    return np.array([low] if low == high else [low, high])


def _log2_codes(values: Array) -> Array:
    """Return each value's bucket: 0 for [0, 1), k + 1 for [2^k, 2^(k+1)), and `~` of these for a negative value."""
    is_negative = values < 0
    if values.dtype.kind == "f":
        magnitudes = np.abs(values)
    else:
        magnitudes = np.abs(values).view(np.uint64) if values.dtype == np.int64 else abs(values)
        # The second bit cleared, no magnitude can round up to the next power of two when it becomes a float.
        magnitudes = (magnitudes & ~(magnitudes >> 1)).astype(np.float64)
    codes = np.maximum(np.frexp(magnitudes)[1], 0)
    return np.where(is_negative, ~codes, codes) if is_negative.any() else codes


def _log2_bounds(code: int) -> tuple[int, int]:
    if code >= 0:
        return (0, 1) if code == 0 else (1 << (code - 1), 1 << code)
    low, high = _log2_bounds(~code)
    return -high, -low


HIST = Hist()
