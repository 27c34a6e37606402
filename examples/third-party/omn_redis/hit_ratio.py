"""The emit hit_ratio: what share of a series' lookups found their key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omn_core.api import Answer, EmitSpec, Series, TextStyle


class HitRatio:
    """Hits over hits and misses, of the whole window: a ratio of sums, not a mean of each reading's ratio.

    A window with no lookup has no ratio (null), which is not a ratio of zero. A reading that was missed takes its hits
    and its misses alike, so that a loss makes the counts lower bounds and says nothing of the ratio's side.
    """

    def compute(self, series: Series, spec: EmitSpec) -> Answer:
        """Return `hits`, `misses` and `ratio` (0 to 1)."""
        hits, misses = _total(series, "hits"), _total(series, "misses")
        ratio = hits / (hits + misses) if hits is not None and misses is not None and hits + misses else None
        return {"lower_bound": series.lower_bound, "hits": hits, "misses": misses, "ratio": ratio}

    def render(self, answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
        """Return the ratio, and the counts it is made of."""
        if answer["ratio"] is None:
            return ["no lookup"]
        bound = ">= " if answer["lower_bound"] else ""
        return [f"{answer['ratio']:.2%} found", f"{bound}{answer['hits']} hits, {bound}{answer['misses']} misses"]


def _total(series: Series, name: str) -> int | None:
    """Return the sum of an attribute, each event as often as it weighs; None where no event carries it."""
    column = series.batch.column(name)
    if column is None:
        return 0 if len(series.batch) == 0 else None
    weight = 1 if series.batch.weight is None else series.batch.weight
    return int((column.values * weight)[column.is_present].sum())


HIT_RATIO = HitRatio()
