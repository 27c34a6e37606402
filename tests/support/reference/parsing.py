"""What a parser returns, and what it raises where there is nothing to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Figures = Mapping[str, float]
"""Figures by name, in omn's units: bytes, nanoseconds, shares of one, counts."""


class UnreadableError(ValueError):
    """Output that is not what the tool prints: the pair fails."""


class ToolLossError(Exception):
    """The tool says itself that it lost or could not count something: the pair is skipped with its words."""


def parse_tables(text: str, *mark: str) -> list[dict[str, str]]:
    """Return the rows of every table of a text whose heading has all of these words, each by its heading.

    A table is a line of headings and the lines below it down to an empty one or the next heading. Raises
    UnreadableError where no heading has the words.
    """
    rows: list[dict[str, str]] = []
    heading: Sequence[str] | None = None
    was_found = False
    for line in text.splitlines():
        words = line.split()
        if set(mark) <= set(words):
            heading, was_found = words, True
        elif not words:
            heading = None
        elif heading is not None:
            rows.append(dict(zip(heading, words, strict=False)))
    if not was_found:
        raise UnreadableError(f"no heading has the words {', '.join(mark)}")
    return rows


def parse_number(text: str) -> float:
    """Return a number. Raises UnreadableError for what is none."""
    try:
        return float(text)
    except ValueError as error:
        raise UnreadableError(f"{text!r} is no number") from error
