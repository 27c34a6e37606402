"""The NDJSON format: one JSON object a line, for programs that read as it comes.

`type` says what a line is: `event` (a raw event), `answer` (one emit over one series), `run` (the last line: the
document without what the other lines said). `result` is the place of the line's request in the run's `results`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from omn_core.errors import RequestError
from omn_core.format.as_json import render_json
from omn_core.model.style import TextStyle

if TYPE_CHECKING:
    from omn_core.model.result import Document


class NdjsonEncoder:
    """A run as lines: its events, its answers, then the run itself."""

    def write(self, document: Document, stream: BinaryIO, style: TextStyle) -> None:
        """Write a run, each event as soon as its chunk is encoded."""
        from omn_core.format.events import iter_rows
        from omn_core.format.plain import compute_plain

        for place, result in enumerate(document.results):
            for rows in iter_rows(result):
                lines = [render_json({"type": "event", "result": place, **row}) for row in rows]
                stream.write("\n".join([*lines, ""]).encode())
        plain = compute_plain(document)
        for place, result in enumerate(plain["results"]):
            for series in result.pop("series"):
                for emit, answer in series["emits"].items():
                    line = {"type": "answer", "result": place, "source": result["request"]["source"]}
                    line |= {"key": series["key"], "labels": series["labels"], "emit": emit, "answer": answer}
                    stream.write(render_json(line).encode() + b"\n")
            del result["raw"]
        stream.write(render_json({"type": "run", **plain}).encode() + b"\n")

    def write_plain(self, value: Any, stream: BinaryIO, style: TextStyle) -> None:
        """Refuse: the format's row says that it carries runs alone."""
        raise RequestError("the format ndjson holds runs alone")


NDJSON = NdjsonEncoder()
