"""Emits of a third party.

A sound one that forgets its mark, one that cannot be shown, one that raises, one that answers too few series, one that
answers with no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


class Mute(Loudest):
    """Computes, and raises when it is to be shown."""

    def render(self, answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
        raise ValueError("no words")


class Broken:
    """Raises."""

    def compute(self, series: Series, spec: EmitSpec) -> Any:
        raise ValueError("no such thing")


class Few(Loudest):
    """Answers one of several."""

    def compute_several(self, several: Sequence[Series], spec: EmitSpec) -> Any:
        return [self.compute(several[0], spec)]


class Wrong:
    """Answers with a number."""

    def compute(self, series: Series, spec: EmitSpec) -> Any:
        return 5


LOUD = Loudest()
MUTE = Mute()
BROKEN = Broken()
WRONG = Wrong()
FEW = Few()
