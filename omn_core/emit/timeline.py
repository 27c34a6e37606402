"""`timeline`: the measurement over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from omn_core.emit.base import Answer, Series
from omn_core.emit.numbers import compute_sums, to_plain_number
from omn_core.format.bars import render_points
from omn_core.format.sparklines import render_sparklines
from omn_core.model.request import EmitSpec
from omn_core.model.style import TextStyle


class Timeline:
    """Every measurement with its instant, in order of time."""

    def compute(self, series: Series, spec: EmitSpec) -> Answer:
        """Return the points. Rows of one instant are one point where values add up, else a point each."""
        when = series.batch.ts if series.measured is None else series.batch.ts[series.measured]
        if series.adds_up:
            instants, codes = np.unique(when, return_inverse=True)
            values = compute_sums(codes.reshape(-1), series.sums, len(instants))
        else:
            order = np.argsort(when, kind="stable")
            instants, values = when[order], series.values[order]
        points = [
            [instant, to_plain_number(value)] for instant, value in zip(instants.tolist(), values.tolist(), strict=True)
        ]
        return {"lower_bound": series.lower_bound, "points": points}

    def render(self, answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
        """Return a line for each stretch of time, with its peak and a bar."""
        return render_points(answer, unit, style)

    def render_several(
        self,
        rows: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
        unit: str,
        style: TextStyle,
        key_names: Sequence[str],
    ) -> list[str]:
        """Return a line for each series, with its extremes and its course."""
        return render_sparklines(rows, unit, style, key_names)


TIMELINE = Timeline()
