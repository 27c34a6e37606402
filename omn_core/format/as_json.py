"""The JSON format: one document, ASCII on the wire, raw events streamed a line each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, BinaryIO

from omn_core.model.style import TextStyle
from omn_core.names import escape_tree

if TYPE_CHECKING:
    from omn_core.model.result import Document, Result

_encoder = json.JSONEncoder(allow_nan=False)


def render_json(value: Any) -> str:
    """Return plain values as JSON on one line, ASCII only: it parses anywhere and cannot disturb a terminal.

    Raises ValueError for a number that JSON has no spelling for.
    """
    return _encoder.encode(value)


class JsonEncoder:
    """A run as one JSON object: a line for each part of it, of each result, and for each raw event."""

    def write(self, document: Document, stream: BinaryIO, style: TextStyle) -> None:
        """Write a run. Raw events are encoded a bounded number at a time."""
        from omn_core.format.plain import compute_plain

        separator = b"{"
        for name, value in compute_plain(document).items():
            stream.write(separator + f"{render_json(name)}: ".encode())
            if name == "results":
                _write_results(document, value, stream)
            else:
                stream.write(render_json(value).encode())
            separator = b",\n"
        stream.write(b"}\n")

    def write_plain(self, value: Any, stream: BinaryIO, style: TextStyle) -> None:
        """Write plain values, indented."""
        stream.write(json.dumps(escape_tree(value), indent=2, allow_nan=False).encode() + b"\n")


def _write_results(document: Document, plains: list[dict[str, Any]], stream: BinaryIO) -> None:
    stream.write(b"[")
    for index, (result, plain) in enumerate(zip(document.results, plains, strict=True)):
        stream.write(b",\n" if index else b"\n")
        separator = "{"
        for name, value in plain.items():
            stream.write(f"{separator}{render_json(name)}: ".encode())
            if name == "raw" and result.raw is not None:
                _write_rows(result, stream)
            else:
                stream.write(render_json(value).encode())
            separator = ",\n "
        stream.write(b"}")
    stream.write(b"]")


def _write_rows(result: Result, stream: BinaryIO) -> None:
    from omn_core.format.events import iter_rows

    separator = b"[\n"
    for rows in iter_rows(result):
        # The list's own brackets are cut off: the chunks make one list together.
        stream.write(separator + render_json(rows)[1:-1].encode())
        separator = b",\n"
    stream.write(b"[]" if separator == b"[\n" else b"]")


JSON = JsonEncoder()
