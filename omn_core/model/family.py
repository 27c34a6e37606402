"""What a family's name alone asks: the requests its catalog composes, by how much they may cost."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from omn_core.model.request import Request

DEFAULT_BANDS = ("low", "med", "high")
"""The bands a default may declare and `--cost` may name, cheapest first: words of `omn_core.model.catalog.BANDS`."""


@attrs.frozen
class FamilyDefault:
    """A family's default. Its requests say no target: each takes the person's.

    `bands` holds those it declares, cheapest first, each whole and not on top of a cheaper one. It is empty where the
    family has no safe default, and `none` is then the reason.
    """

    family: str
    bands: Mapping[str, tuple[Request, ...]]
    none: str | None = None
    path: str = ""
    line: int = 0
