"""How text is to look where it lands."""

from __future__ import annotations

import attrs


@attrs.frozen
class TextStyle:
    """Columns to use and whether colour may be used. Nothing is coloured under NO_COLOR or off a terminal."""

    width: int = 80
    colour: bool = False
