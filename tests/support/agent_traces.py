"""Recordings of coding agents made for tests: through the writer, and packet by packet as others wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omn_agent.encoding.write import write_recording
from omn_agent.harness import Harness
from omn_agent.reading.captures import read_captures
from omn_agent.reading.report import make_report
from omn_agent.recording import (
    Attempt,
    Capture,
    Compaction,
    Configuration,
    Delegation,
    Prompt,
    Recording,
    Response,
    Samples,
    Script,
    Tool,
    Turn,
    Usage,
)
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

SECOND = 1_000_000_000
WALL = 1_772_355_600 * SECOND


def write(path: Path, *captures: Capture, harness: Harness = Harness.PI, **changes: Any) -> Path:
    """Write a recording's file."""
    with path.open("wb") as stream:
        write_recording(stream, Recording(harness, list(captures), **changes))
    return path


def show(*paths: Path) -> dict[str, Any]:
    """Return the report on files."""
    return make_report(read_captures(paths))


def make_capture(session: str = "s1", at: float = 0, length: float = 10, **changes: Any) -> Capture:
    """Return a capture of some seconds on the wall clock."""
    start_ns = WALL + int(at * SECOND)
    fields = {"capture_id": f"c-{session}-{at}", "stop_reason": "manual", **changes}
    return Capture(session, start_ns=start_ns, end_ns=start_ns + int(length * SECOND), **fields)


def at(second: float) -> int:
    """Return a time on the wall clock."""
    return WALL + int(second * SECOND)


def make_parent() -> Capture:
    """Return a capture with some of everything."""
    return make_capture(
        label="code-mode",
        configuration=Configuration("m1", "garden", "high", 1_000, ("codemode",)),
        prompts=[Prompt(at(0.1), at(9), text="p", attempts=[Attempt(at(0.2), at(8), [Turn(0, at(0.3), at(3))])])],
        responses=[
            Response(at(1), at(2), "garden", "m1", Usage(100, 20)),
            Response(at(3), at(4), "garden", "m2", Usage(180, 45)),
            Response(None, at(4.5), usage=Usage(None, 5)),
            Response(at(8), None),
        ],
        tools=[
            Tool("read", "t1", at(2), at(2.5), args={"path": "a"}, has_args=True),
            Tool(
                "bash", "t2", at(2.25), at(6), args={"command": "make"}, has_args=True, intent="build it", is_error=True
            ),
            Tool("task", "t3", at(5), at(7), delegation=Delegation({}, "kid")),
            Tool("run", "t4", at(2), at(3), args={"code": "a\nb"}, has_args=True, script=Script("js", "a\nb")),
            Tool("grep", "t5", at(2.1), at(2.2), parent_call_id="t4"),
            Tool("edit", "t6", at(9), None),
        ],
        compactions=[Compaction(at(6), at(6.5), outcome="success", tokens_before=450)],
        samples=Samples(context_tokens=[(at(1), 100), (at(3), 400)], dropped_events=[(at(5), 3)]),
    )


class Hand:
    """A recording made packet by packet, as older and other recorders did."""

    def __init__(self) -> None:
        self.trace = protos.Trace()

    def track(self, uuid: int, name: str, parent: int = 0, *, counter: bool = False) -> None:
        """Describe a track."""
        row = self.trace.packet.add().track_descriptor
        row.uuid, row.name, row.parent_uuid = uuid, name, parent
        if counter:
            row.counter.SetInParent()

    def process(self, uuid: int, pid: int, name: str, *labels: str) -> None:
        """Describe a process."""
        row = self.trace.packet.add().track_descriptor
        row.uuid, row.process.pid, row.process.process_name = uuid, pid, name
        row.process.process_labels.extend(labels)

    def event(self, ts_ns: int, what: int, track: int, name: str = "", category: str = "", **args: Any) -> Any:
        """Add an event; a double underscore in an argument's name is a dot."""
        packet = self.trace.packet.add(timestamp=ts_ns, timestamp_clock_id=1, trusted_packet_sequence_id=9)
        event = packet.track_event
        event.type, event.track_uuid = what, track
        if name:
            event.name = name
        if category:
            event.categories.append(category)
        for key, value in args.items():
            row = event.debug_annotations.add(name=key.replace("__", "."))
            field = (
                "bool_value" if isinstance(value, bool) else "int_value" if isinstance(value, int) else "string_value"
            )
            setattr(row, field, value)
        return packet

    def count(self, track: int, *points: tuple[float, int]) -> None:
        """Add a counter's values, each with its second."""
        for second, value in points:
            self.event(at(second), COUNTER, track).track_event.counter_value = value

    def write(self, path: Path) -> Path:
        """Write the file."""
        path.write_bytes(self.trace.SerializeToString())
        return path


BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
