"""The speedscope format: its own JSON, a sampled profile for each series.

Names and files of frames are shared by the profiles. Times and sizes keep their units; any other unit speedscope has no
word for, and it shows the numbers bare.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, BinaryIO

from omn_core import __version__
from omn_core.errors import RequestError
from omn_core.model.style import TextStyle

if TYPE_CHECKING:
    from omn_core.format.stacks import StackSeries
    from omn_core.model.result import Document
    from omn_core.model.stacks import Frame

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
UNITS = {"ns": "nanoseconds", "bytes": "bytes"}


class SpeedscopeEncoder:
    """The stacks of a run as a file that speedscope opens."""

    def write(self, document: Document, stream: BinaryIO, style: TextStyle) -> None:
        """Write a run, a profile at a time; the frames, which they share, are written last."""
        from omn_core.format.as_json import render_json
        from omn_core.format.stacks import iter_stack_series

        frames: dict[Frame, int] = {}
        head = {"$schema": SCHEMA, "exporter": f"omn {__version__}", "name": _name(document), "activeProfileIndex": 0}
        stream.write(render_json(head)[:-1].encode() + b', "profiles": [')
        separator = b"\n"
        for series in iter_stack_series(document):
            stream.write(separator + render_json(_make_profile(series, frames)).encode())
            separator = b",\n"
        stream.write(b'],\n"shared": ' + render_json({"frames": _make_frames(frames)}).encode() + b"}\n")

    def write_plain(self, value: Any, stream: BinaryIO, style: TextStyle) -> None:
        """Refuse: the format's row says that it carries runs alone."""
        raise RequestError("the format speedscope holds runs alone")


def _name(document: Document) -> str:
    from omn_core.format.sentences import render_asked
    from omn_core.names import escape_bytes

    return escape_bytes("; ".join(render_asked(result) for result in document.results))


def _make_profile(series: StackSeries, frames: dict[Frame, int]) -> dict[str, Any]:
    weighing = [stack for stack in series.stacks if stack.weight > 0]
    name = " ".join(filter(None, (series.source, series.label)))
    return {
        "type": "sampled",
        "name": f"{name} (lower bounds)" if series.lower_bound else name,
        "unit": UNITS.get(series.unit, "none"),
        "startValue": 0,
        "endValue": sum(stack.weight for stack in weighing),
        "samples": [[frames.setdefault(frame, len(frames)) for frame in stack.frames] for stack in weighing],
        "weights": [stack.weight for stack in weighing],
    }


def _make_frames(frames: Iterable[Frame]) -> list[dict[str, str]]:
    return [
        {"name": frame.label} if frame.object is None else {"name": frame.label, "file": frame.object}
        for frame in frames
    ]


SPEEDSCOPE = SpeedscopeEncoder()
