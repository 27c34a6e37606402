"""`raw`: the events themselves. They stay in columns until an encoder prints them; a series only counts its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omn_core.emit.base import Answer, Series
from omn_core.format.figures import render_figures
from omn_core.model.request import EmitSpec
from omn_core.model.style import TextStyle


class Raw:
    """The events one by one."""

    def compute(self, series: Series, spec: EmitSpec) -> Answer:
        """Return how many events the series lists: rows, not the occurrences that they stand for."""
        return {"lower_bound": series.lower_bound, "events": len(series.batch)}

    def render(self, answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
        """Return the count; the events follow it in the document's own listing."""
        return render_figures([({}, answer)], unit, style)


RAW = Raw()
