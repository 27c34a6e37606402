"""Emits of a third party: a sound one that forgets its mark, one that raises, one that answers with no answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omn_core.emit.base import Series
from omn_core.model.request import EmitSpec
from omn_core.model.style import TextStyle


class Loudest:
    """The greatest value."""

    def compute(self, series: Series, spec: EmitSpec) -> Any:
        return {"loudest": int(series.values.max()), "of": ["values"]}

    def render(self, answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
        return [f"the loudest was {answer['loudest']} {unit}"]


class Broken:
    """Raises."""

    def compute(self, series: Series, spec: EmitSpec) -> Any:
        raise ValueError("no such thing")


class Wrong:
    """Answers with a number."""

    def compute(self, series: Series, spec: EmitSpec) -> Any:
        return 5


LOUD = Loudest()
BROKEN = Broken()
WRONG = Wrong()
