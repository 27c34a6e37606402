"""The html format: a flame graph as one page, which any browser opens without a network.

The page carries its data, its style and its script, and forbids itself to load anything. It searches, zooms, turns the
stacks around (`reversed`: what called each function, from the innermost), and shows the series that keys divide
together, apart or one at a time.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from importlib.resources import files
from typing import Any, BinaryIO

from omn_core.api import (
    Document,
    Encoder,
    Frame,
    RequestError,
    Stack,
    TextStyle,
    escape_bytes,
    iter_reservations,
    iter_stack_series,
    render_asked,
)


class HtmlEncoder:
    """The stacks of a run as a page."""

    def write(self, document: Document, stream: BinaryIO, style: TextStyle) -> None:
        """Write a run."""
        data = make_page_data(document)
        values = {"title": html.escape(f"omn {data['asked']}"), "run": render_embedded(data)}
        values |= {"style": _read("page.css"), "script": _read("page.js")}
        pieces = _read("page.html").split("@")
        # Every other piece is the name of what stands in its place; what is put in is not looked at again.
        for place, piece in enumerate(pieces):
            stream.write((values[piece] if place % 2 else piece).encode())

    def write_plain(self, value: Any, stream: BinaryIO, style: TextStyle) -> None:
        """Refuse: the format's row says that it carries runs alone."""
        raise RequestError("the format html holds runs alone")


def render_embedded(value: Any) -> str:
    """Return plain values as JSON that can stand in a script element: no character of it ends the element."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def make_page_data(document: Document) -> dict[str, Any]:
    """Return what the page's script reads.

    Stacks are paths of one tree, `parents` (-1: none) and `at` (the frame of each place): callers are written once. A
    series has the place where each of its stacks ends, its weight and its events.
    """
    paths = _Paths()
    requests: dict[int, dict[str, Any]] = {}
    series = []
    for one in iter_stack_series(document):
        request = requests.setdefault(one.place, {"name": one.source, "unit": one.unit, "lower_bound": False})
        request["lower_bound"] = request["lower_bound"] or one.lower_bound
        place = list(requests).index(one.place)
        series.append({"request": place, "label": one.label, "stacks": paths.list_ends(one.stacks)})
    return {
        "asked": escape_bytes("; ".join(render_asked(document.results[place]) for place in requests)),
        "reservations": list(map(escape_bytes, iter_reservations(document))),
        "requests": list(requests.values()),
        "series": series,
        "frames": [[frame.label, frame.object, frame.named_by] for frame in paths.frames],
        "parents": paths.parents,
        "at": paths.at,
    }


class _Paths:
    """Every stack's path from the outermost frame, those that begin alike sharing their beginning."""

    def __init__(self) -> None:
        self.frames: dict[Frame, int] = {}
        self.parents: list[int] = []
        self.at: list[int] = []
        self._known: dict[tuple[int, int], int] = {}

    def list_ends(self, stacks: Iterable[Stack]) -> list[tuple[int, float, float]]:
        """Return where each stack with a weight ends, its weight and its events."""
        return [(self._add(stack.frames), stack.weight, stack.count) for stack in stacks if stack.weight > 0]

    def _add(self, frames: Iterable[Frame]) -> int:
        place = -1
        for frame in frames:
            step = (place, self.frames.setdefault(frame, len(self.frames)))
            known = self._known.get(step)
            if known is None:
                known = self._known[step] = len(self.at)
                self.parents.append(step[0])
                self.at.append(step[1])
            place = known
        return place


def _read(name: str) -> str:
    return (files("omn_export.flame_graph") / name).read_text(encoding="utf-8")


HTML: Encoder = HtmlEncoder()
