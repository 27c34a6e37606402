"""The YAML format: block style for what a person reads, a line of flow style for each raw event.

Written without a library, because none writes a large document quickly; every scalar is spelt so that YAML 1.1 and 1.2
loaders read the same value, and a test reads documents back with a safe loader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from omn_core.model.style import TextStyle
from omn_core.names import escape_tree

if TYPE_CHECKING:
    from omn_core.model.result import Document, Result

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@+-]*(?::[A-Za-z0-9_./@+-]+)*(?: [A-Za-z0-9_./@+][A-Za-z0-9_./@+-]*)*")
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_ESCAPED = re.compile('["\\\\]|[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


def render_yaml(value: Any) -> str:
    """Return plain values as a YAML document, block style."""
    return "\n".join([*_lines(escape_tree(value), ""), ""])


class YamlEncoder:
    """A run, or plain values, as one YAML document."""

    def write(self, document: Document, stream: BinaryIO, style: TextStyle) -> None:
        """Write a run. Raw events are encoded a bounded number at a time, after the rest of their result."""
        from omn_core.format.plain import compute_plain

        for name, value in compute_plain(document).items():
            if name == "results" and value:
                stream.write(b"results:\n")
                for result, plain in zip(document.results, value, strict=True):
                    _write_result(result, plain, stream)
            else:
                stream.write(render_yaml({name: value}).encode())

    def write_plain(self, value: Any, stream: BinaryIO, style: TextStyle) -> None:
        """Write plain values. A session written so is a session file."""
        stream.write(render_yaml(value).encode())


def _write_result(result: Result, plain: dict[str, Any], stream: BinaryIO) -> None:
    from omn_core.format.events import iter_rows

    raw = result.raw
    shown = {name: value for name, value in plain.items() if name != "raw" or raw is None or not len(raw.batch)}
    if raw is not None and not len(raw.batch):
        shown["raw"] = []
    stream.write("\n".join([*_lines([shown], ""), ""]).encode())
    if raw is None or not len(raw.batch):
        return
    stream.write(b"  raw:\n")
    for rows in iter_rows(result):
        stream.write("".join(f"  - {_flow(row)}\n" for row in rows).encode())


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _entry(f"{indent}{_text(name)}:", part, f"{indent}  ")
    elif isinstance(value, list) and value:
        for part in value:
            nested = list(_lines(part, f"{indent}  "))
            yield f"{indent}- {nested[0][len(indent) + 2 :]}"
            yield from nested[1:]
    else:
        yield f"{indent}{_scalar(value)}"


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict | list) and value and not _is_short(value):
        yield head
        yield from _lines(value, indent)
    else:
        yield f"{head} {_flow(value)}"


def _is_short(value: Any) -> bool:
    """Whether a list is a few bare scalars, which read best on the line of their name."""
    return isinstance(value, list) and len(value) <= 8 and all(not isinstance(part, dict | list) for part in value)


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(name)}: {_flow(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = repr(value)
        # YAML 1.1 loaders read an exponent without a point as a text.
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    if isinstance(value, str):
        return _text(value)
    return "{}" if isinstance(value, dict) else "[]"


def _text(text: str) -> str:
    if len(text) <= 100 and _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


YAML = YamlEncoder()
