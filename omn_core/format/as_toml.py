"""The TOML format. TOML has no null: what is not known or does not apply is left out.

A list at the top of plain values stands under `entries`. An integer past 64 bits, which TOML readers may refuse, is
written as a text of its digits.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, BinaryIO

from omn_core.model.style import TextStyle
from omn_core.names import escape_tree

if TYPE_CHECKING:
    from omn_core.model.result import Document, Result

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LIMIT = 1 << 63


class TomlEncoder:
    """A run, or plain values, as one TOML document."""

    def write(self, document: Document, stream: BinaryIO, style: TextStyle) -> None:
        """Write a run. Raw events are tables of their result, encoded a bounded number at a time."""
        import tomli_w

        from omn_core.format.plain import compute_plain

        plain = _without_nulls(compute_plain(document))
        results = plain.pop("results")
        stream.write(tomli_w.dumps(plain).encode())
        for result, shown in zip(document.results, results, strict=True):
            if result.raw is not None and not len(result.raw.batch):
                shown["raw"] = []
            # One result's table at a time: its raw events must follow it, before the next one opens.
            stream.write(b"\n[[results]]\n" + _nest(tomli_w.dumps({"results": shown})).encode())
            _write_rows(result, stream)

    def write_plain(self, value: Any, stream: BinaryIO, style: TextStyle) -> None:
        """Write plain values. A session written so is a session file."""
        import tomli_w

        shown = _without_nulls(escape_tree(value))
        stream.write(tomli_w.dumps(shown if isinstance(shown, dict) else {"entries": shown}).encode())


def _nest(text: str) -> str:
    """Return a table's text without its own header, to stand under another."""
    return text.partition("\n")[2]


def _write_rows(result: Result, stream: BinaryIO) -> None:
    from omn_core.format.events import iter_rows

    for rows in iter_rows(result):
        stream.write("".join(f"\n[[results.raw]]\n{_table(row)}" for row in rows).encode())


def _table(row: dict[str, Any]) -> str:
    return "".join(f"{_key(name)} = {_inline(value)}\n" for name, value in row.items())


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(name)} = {_inline(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and not -_LIMIT <= value < _LIMIT:
        return f'"{value}"'
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _inline(name)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_without_nulls(part) for part in value if part is not None]
    if isinstance(value, int) and not isinstance(value, bool) and not -_LIMIT <= value < _LIMIT:
        return str(value)
    return value


TOML = TomlEncoder()
