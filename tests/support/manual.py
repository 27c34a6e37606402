"""The manual as files: its pages, their fenced blocks, and the examples that can be run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
"""Every page that a person writes; those under docs/catalog are generated."""

_FENCE = re.compile(r"^```(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXIT = re.compile(r"\s# exit (\d)$")
_NUMBER = re.compile(r"[-+]?\d[\d.,]*( (ns|us|ms|s|B|KiB|MiB|GiB|k|M|G|%)(?![\w]))?")


@attrs.frozen
class Example:
    """One command of a page: the line it stands on, its exit code, and what the page says that it prints."""

    line: int
    command: str
    code: int
    shown: str


def read_page(name: str) -> str:
    """Return a page of docs/."""
    return (DOCS / name).read_text()


def iter_blocks(text: str, language: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every fenced block of a language."""
    for match in _FENCE.finditer(text):
        if match[1] == language:
            yield text.count("\n", 0, match.start()) + 1, match[2]


def iter_examples(text: str) -> Iterator[Example]:
    """Yield every command of the page's `console` blocks: a line that begins with `$ `, and what stands below it."""
    for line, block in iter_blocks(text, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            code = _EXIT.search(command)
            at = line + 1 + block[: block.index(part)].count("\n")
            yield Example(at, _EXIT.sub("", command), int(code[1]) if code else 0, shown)


def find_mismatch(shown: str, printed: str) -> str | None:
    """Return the first part of what a page shows that a command did not print where it belongs, None when all is there.

    `...` stands for anything, numbers with their units are compared as numbers without a value, and how many spaces
    or where lines wrap does not matter. What is printed begins and ends as shown, unless `...` stands there.
    """
    printed = _normalise(printed)
    parts = [_normalise(part) for part in shown.split("...")]
    at = 0
    for place, part in enumerate(parts):
        found = printed.find(part, at)
        if found < 0 or (place == 0 and found > 0):
            return part
        at = found + len(part)
    if parts[-1] and not printed.endswith(parts[-1]):
        return parts[-1]
    return None


def _normalise(text: str) -> str:
    return _NUMBER.sub("#", " ".join(text.split()))
