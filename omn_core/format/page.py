"""A page of text: labelled lines that wrap, headings, and colour where the terminal has it."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from omn_core.model.style import TextStyle
from omn_core.names import compute_width

INDENT = 2
LABEL = 11
_LEAST_WIDTH = 40

_CODES = {"strong": "1", "faint": "2", "alarm": "33"}


@attrs.define
class Page:
    """Lines under construction, none wider than the style's width."""

    style: TextStyle
    lines: list[str] = attrs.field(factory=list)

    @property
    def width(self) -> int:
        """The columns in use, never so few that a label leaves no room for its text."""
        return max(self.style.width, _LEAST_WIDTH)

    @property
    def inner(self) -> TextStyle:
        """The style of a block that `add_block` indents."""
        return attrs.evolve(self.style, width=self.width - INDENT)

    def add_blank(self) -> None:
        """Add an empty line, unless one stands there or nothing does."""
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def add_heading(self, text: str) -> None:
        """Add a line at the margin that stands out."""
        self.lines += [self._paint(line, "strong") for line in wrap(text, self.width, "  ")]

    def add_labelled(self, label: str, text: str, paint: str | None = None) -> None:
        """Add a label and its text, wrapped beside it. `paint` is `faint`, `strong` or `alarm`."""
        margin = " " * (INDENT + LABEL)
        head = " " * INDENT + f"{label:<{LABEL}}"
        wrapped = wrap(head + text.strip(), self.width, margin)
        self.lines += [self._paint(line, paint) for line in wrapped]

    def add_block(self, lines: Iterable[str]) -> None:
        """Add lines that were made for `inner`, indented."""
        self.lines += [" " * INDENT + line if line else "" for line in lines]

    def render(self) -> str:
        """Return the page, its lines ended."""
        return "".join(f"{line}\n" for line in self.lines)

    def _paint(self, line: str, paint: str | None) -> str:
        if paint is None or not self.style.colour or not line:
            return line
        return f"\x1b[{_CODES[paint]}m{line}\x1b[0m"


def wrap(text: str, width: int, margin: str) -> list[str]:
    """Return text broken at spaces into lines of a width, all but the first behind a margin; a long word is split."""
    if compute_width(text) <= width:
        return [text.rstrip()]
    lines: list[str] = []
    line, has_word = text[: len(text) - len(text.lstrip())], False
    for word in text.lstrip().split(" "):
        if has_word and compute_width(line) + 1 + compute_width(word) > width:
            lines.append(line.rstrip())
            line, has_word = margin, False
        line = f"{line} {word}" if has_word else line + word
        has_word = True
        while compute_width(line) > width:
            cut = _find_cut(line, width)
            lines.append(line[:cut])
            line = margin + line[cut:]
    return [*lines, line.rstrip()]


def _find_cut(line: str, width: int) -> int:
    cut = min(len(line), width)
    while compute_width(line[:cut]) > width:
        cut -= 1
    return cut
