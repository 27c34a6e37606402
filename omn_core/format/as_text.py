"""The text format, for a person at a terminal or reading a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from omn_core.model.style import TextStyle

if TYPE_CHECKING:
    from omn_core.model.result import Document


class TextEncoder:
    """A run for a person: no line is wider than the style's width, nothing in it disturbs a terminal."""

    def write(self, document: Document, stream: BinaryIO, style: TextStyle) -> None:
        """Write a run: each request with its numbers, then the program and the cost."""
        from omn_core.format.text_run import write_run

        write_run(document, stream, style)

    def write_plain(self, value: Any, stream: BinaryIO, style: TextStyle) -> None:
        """Write plain values as YAML, which reads as well as anything and can be fed back."""
        from omn_core.format.as_yaml import render_yaml

        stream.write(render_yaml(value).encode())


TEXT = TextEncoder()
