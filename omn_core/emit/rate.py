"""`rate`: how much there was in a second of the window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omn_core.emit.base import Answer, Series
from omn_core.emit.numbers import compute_total, to_plain_number
from omn_core.format.figures import render_figures
from omn_core.model.request import EmitSpec
from omn_core.model.style import TextStyle


class Rate:
    """The total over the window's length."""

    def compute(self, series: Series, spec: EmitSpec) -> Answer:
        """Return `per_second` and `total`, in the series' unit.

        No events over a window are a rate of zero. Events that carry no measurement leave both None, and so does a
        window without length the rate.
        """
        if len(series.batch) and not len(series.values):
            return {"lower_bound": series.lower_bound, "per_second": None, "total": None}
        total = compute_total(series.sums)
        length_ns = series.window.length_ns
        per_second = to_plain_number(total * 1e9 / length_ns) if length_ns > 0 else None
        return {"lower_bound": series.lower_bound, "per_second": per_second, "total": to_plain_number(total)}

    def render(self, answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
        """Return the two figures under their names."""
        return render_figures([({}, answer)], unit, style)


RATE = Rate()
