"""Chrome's trace event format, as JSON: what chrome://tracing, Perfetto's interface and speedscope open.

Each request is a process of the trace and each series of it a thread. A timeline is a counter; raw events are instants,
with their stacks in `stackFrames`; any other answer is an instant at the window's close, whole in its arguments. Stacks
with weights have no times of their own: they are drawn side by side from the window's opening, as wide as they weigh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from omn_core import __version__
from omn_core.errors import RequestError
from omn_core.model.style import TextStyle

if TYPE_CHECKING:
    from omn_core.model.result import Document


class ChromeEncoder:
    """A run as a JSON object of trace events, an event a line."""

    def write(self, document: Document, stream: BinaryIO, style: TextStyle) -> None:
        """Write a run, each event as soon as it is made."""
        from omn_core.format.as_json import render_json
        from omn_core.format.reservations import iter_reservations
        from omn_core.format.trace_events import StackFrames, iter_trace_events

        frames = StackFrames()
        separator = b'{"traceEvents": [\n'
        for event in iter_trace_events(document, frames):
            stream.write(separator + render_json(event).encode())
            separator = b",\n"
        tail = {
            "displayTimeUnit": "ns",
            "stackFrames": frames.rows,
            "otherData": {
                "exporter": f"omn {__version__}",
                "clock": "CLOCK_MONOTONIC",
                "reservations": list(iter_reservations(document)),
            },
        }
        stream.write(b"],\n" + render_json(tail)[1:].encode() + b"\n")

    def write_plain(self, value: Any, stream: BinaryIO, style: TextStyle) -> None:
        """Refuse: the format's row says that it carries runs alone."""
        raise RequestError("the format chrome holds runs alone")


CHROME = ChromeEncoder()
