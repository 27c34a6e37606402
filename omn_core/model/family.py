"""What a family's name alone asks: the requests its catalog composes, by how much they may cost."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from omn_core.errors import RequestError
from omn_core.model.request import Request
from omn_core.nearest import suggest

DEFAULT_BANDS = ("low", "med", "high")
"""The bands a default may declare and `--cost` may name, cheapest first: words of `omn_core.model.catalog.BANDS`."""


@attrs.frozen(repr=False)
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


def find_band_fault(word: str | None) -> RequestError | None:
    """Return what is wrong with a word that `--cost` was given, None where it names a band or nothing was said."""
    if word is None or word in DEFAULT_BANDS:
        return None
    offered = f"the bands are {', '.join(DEFAULT_BANDS)}"
    return RequestError(f"no cost band is called {word!r}", suggest(word, DEFAULT_BANDS, offered))
