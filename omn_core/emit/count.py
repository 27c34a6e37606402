"""`count`: one closing figure, with the number of events behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from omn_core.emit.base import Answer, Series
from omn_core.emit.numbers import compute_total, to_plain_number
from omn_core.format.figures import render_figures
from omn_core.model.request import EmitSpec
from omn_core.model.style import TextStyle


class Count:
    """How many occurrences there were, and the total of what they measured."""

    def compute(self, series: Series, spec: EmitSpec) -> Answer:
        """Return `events` (weighted) and `value`.

        `value` is the total where values add up, else the one reading of the last instant. Of a source that tells every
        occurrence, no events are a total of 0; otherwise it is None where nothing was measured, and where several
        readings of a level share the last instant: none of them is the figure.
        """
        return {"lower_bound": series.lower_bound, "events": _count_events(series), "value": _value(series)}

    def render(self, answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
        """Return the two figures under their names."""
        return render_figures([({}, answer)], unit, style)


def _count_events(series: Series) -> int | float | None:
    weight = series.batch.weight
    return len(series.batch) if weight is None else to_plain_number(compute_total(weight))


def _value(series: Series) -> int | float | None:
    if not len(series.values):
        return 0 if series.hears_all and series.adds_up and not len(series.batch) else None
    return to_plain_number(compute_total(series.sums)) if series.adds_up else find_last(series)


def find_last(series: Series) -> int | float | None:
    """Return the measurement of the last instant, None where there is not exactly one."""
    if not len(series.values):
        return None
    when = series.batch.ts if series.measured is None else series.batch.ts[series.measured]
    latest = np.flatnonzero(when == when.max())
    return to_plain_number(series.values[latest[0]]) if len(latest) == 1 else None


COUNT = Count()
