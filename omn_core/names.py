r"""Names as they may be written: what a program calls itself reaches a terminal or a parser as harmless text.

A name is bytes that a stranger chose. In every format, bytes that are not UTF-8 are written `\xNN`, each as those four
characters, so that any parser reads the document; everything else survives by the format's own escapes. The text
format also escapes whatever does not print, and bounds the length.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}
ELLIPSIS = "..."


def escape_bytes(text: str) -> str:
    r"""Return text that encodes as UTF-8: each byte that was none (a surrogate escape) as `\xNN`."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return _SURROGATE.sub(_escape_surrogate, text)


def escape_tree(value: Any) -> Any:
    """Return plain values as every format can spell them.

    `escape_bytes` is applied to every text, keys included; tuples become lists, numpy's scalars Python's, and a float
    that is not finite None. Raises TypeError for anything that is no plain value.
    """
    kind = type(value)
    if kind is str:
        return value if value.isascii() else escape_bytes(value)
    if kind is list or kind is tuple:  # of texts mostly, and there are many: the labels of stacks
        return [part if type(part) is str and part.isascii() else escape_tree(part) for part in value]
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return escape_bytes(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [escape_tree(part) for part in value]
    if isinstance(value, Mapping):
        return {escape_bytes(str(name)): escape_tree(part) for name, part in value.items()}
    if hasattr(value, "item"):
        return escape_tree(value.item())
    raise TypeError(f"{type(value).__name__} is no plain value: {value!r}")


def render_printable(text: str, width: int | None = None) -> str:
    """Return one line of printable text: control, format and line-breaking characters escaped, cut to a width."""
    if width is not None and len(text) > 2 * width + 8:
        text = text[: 2 * width + 8]
    if not text.isprintable():
        text = "".join(part if part.isprintable() else _escape(part) for part in text)
    return text if width is None else shorten(text, width)


def shorten(text: str, width: int) -> str:
    """Return text that takes at most that many columns, an ellipsis in place of what was cut."""
    if compute_width(text) <= width:
        return text
    kept = list(text[:width])
    while kept and compute_width("".join(kept)) > width - len(ELLIPSIS):
        kept.pop()
    return ("".join(kept) + ELLIPSIS)[:width]


def compute_width(text: str) -> int:
    """Return the terminal columns that printable text takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(part) else 2 if unicodedata.east_asian_width(part) in "WF" else 1 for part in text
    )


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Return text filled with spaces to a width, on its left where it is to stand at the right."""
    fill = " " * max(width - compute_width(text), 0)
    return fill + text if right else text + fill


def _escape_surrogate(match: re.Match[str]) -> str:
    return _escape(match.group())


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
