"""How text is to look where it lands."""

from __future__ import annotations

import attrs


@attrs.frozen
class TextStyle:
    """Columns to use and whether colour may be used. Nothing is coloured under NO_COLOR or off a terminal.

    `scale` is the vocabulary's word for how numbers of the answer's unit scale, None where nobody said; `is_level` says
    that the answer is of readings whose values do not add up, so that a loss makes fewer of its figures lower bounds.
    `attribute` names what the answer's rows are divided by (`comm` in `summary@comm`), None where nothing divides them.
    `rows` is how many rows a table shows before it counts the rest, None where it shows all: a terminal's reader sees
    the greatest, and whoever searches a pipe or a file finds every one.
    """

    width: int = 80
    colour: bool = False
    scale: str | None = None
    is_level: bool = False
    attribute: str | None = None
    rows: int | None = None
