"""The events of agents in a trace: those on tracks where an agent's category was seen, and counters of known names."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
from google.protobuf.message import DecodeError
from omn_export.perfetto.tracks import Clock
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from omn_agent.reading.clocks import ClockTable
from omn_agent.reading.framing import FileHealth, iter_packets
from omn_core.api import RequestError

COUNTERS = {
    "Input tokens": "input",
    "llm.tokens.input": "input",
    "Output tokens": "output",
    "llm.tokens.output": "output",
    "Context size": "context",
    "llm.context.size": "context",
    "llm.tokens.context": "context",
    "Context window": "window",
    "llm.context.window": "window",
    "Dropped events": "dropped_events",
    "tracing.dropped": "dropped_events",
    "Lane overflows": "lane_overflows",
    "tracing.lane_overflows": "lane_overflows",
}
"""Counters that are read, by the labels of today and the keys of older recordings."""

MOST_EVENTS = 1_000_000
"""More events of agents are not held in memory: they take some 600 bytes each."""

_AGENT = re.compile(r"(pi|claude|codex|muse|agentprof)(\.|$)|omn\.machine$")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CLEARED = protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
BEGIN = protos.TrackEvent.TYPE_SLICE_BEGIN
END = protos.TrackEvent.TYPE_SLICE_END
_INSTANT = protos.TrackEvent.TYPE_INSTANT
_COUNTER = protos.TrackEvent.TYPE_COUNTER


@attrs.define
class Track:
    """A track as its descriptor tells of it."""

    name: str
    parent: int | None = None
    pid: int | None = None


@attrs.define
class Event:
    """One event, on the wall clock where that is known."""

    ts_ns: int
    kind: int
    track: int
    name: str | None
    categories: tuple[str, ...]
    args: dict[str, Any]
    flows: tuple[int, ...]


@attrs.define
class FileEvents:
    """What one file holds of agents."""

    health: FileHealth
    tracks: dict[int, Track] = attrs.field(factory=dict)
    events: list[Event] = attrs.field(factory=list)
    counters: dict[int, list[tuple[int, float]]] = attrs.field(factory=dict)


@attrs.define
class _State:
    """What packets of one sequence refer to."""

    names: dict[int, str] = attrs.field(factory=dict)
    categories: dict[int, str] = attrs.field(factory=dict)
    annotations: dict[int, str] = attrs.field(factory=dict)
    strings: dict[int, str] = attrs.field(factory=dict)
    clock: int = Clock.BOOTTIME
    track: int = 0


def read_events(path: Path) -> FileEvents:
    """Read a file in one pass. Raises RequestError for what is no Perfetto trace, or holds more than memory should."""
    return _Decoding(path).run(path)


class _Decoding:
    """One file under way. On a track where no agent has been seen only the depth of open slices is kept."""

    def __init__(self, path: Path) -> None:
        self.found = FileEvents(FileHealth(str(path)))
        self.states: dict[int, _State] = {}
        self.clocks = ClockTable()
        self.machines: list[tuple[int, int]] = []
        self.depths: dict[int, int] = {}
        self.agents: set[int] = set()
        self.raw: list[tuple[int, int, Event]] = []
        self.counted: list[tuple[int, int, int, int, float]] = []

    def run(self, path: Path) -> FileEvents:
        """Decode every packet, then place what was found on the wall clock."""
        health = self.found.health
        for content in iter_packets(path, health):
            try:
                packet = protos.TracePacket.FromString(content)
            except DecodeError:
                health.undecodable_packets += 1
                continue
            self.take(packet)
            if len(self.raw) + len(self.counted) > MOST_EVENTS:
                raise RequestError(
                    f"{str(path)!r} holds more than {MOST_EVENTS} events of agents", "record less at once"
                )
        if health.packets == health.undecodable_packets:
            raise RequestError(f"{str(path)!r} is no Perfetto recording: nothing in it is a packet")
        self.place()
        return self.found

    def take(self, packet: Any) -> None:
        """Take in a packet."""
        state = self.states.get(packet.trusted_packet_sequence_id)
        if state is None or packet.sequence_flags & _CLEARED:
            state = self.states[packet.trusted_packet_sequence_id] = _State()
        if packet.previous_packet_dropped:
            self.found.health.dropped_packets += 1
        if packet.HasField("trace_packet_defaults"):
            defaults = packet.trace_packet_defaults
            state.clock = defaults.timestamp_clock_id or state.clock
            state.track = defaults.track_event_defaults.track_uuid or state.track
        if packet.HasField("interned_data"):
            _intern(state, packet.interned_data)
        if packet.HasField("clock_snapshot"):
            self.clocks.add(packet.machine_id, packet.clock_snapshot)
        elif packet.HasField("track_descriptor"):
            self.found.tracks[packet.track_descriptor.uuid] = _make_track(packet.track_descriptor)
        elif packet.HasField("track_event"):
            self.take_event(packet, state)

    def take_event(self, packet: Any, state: _State) -> None:
        """Take in an event, or only the depth that it makes on a track of somebody else's."""
        event = packet.track_event
        track = event.track_uuid or state.track
        clock = packet.timestamp_clock_id or state.clock
        place = (packet.machine_id, clock)
        if event.type == _COUNTER:
            self.take_counter(event, track, place, packet.timestamp)
            return
        plain = map(get_text, event.categories)
        categories = tuple(map(sys.intern, (*plain, *(state.categories.get(iid, "") for iid in event.category_iids))))
        if track not in self.agents:
            if not any(map(_AGENT.match, categories)):
                step = 1 if event.type == BEGIN else -1 if event.type == END else 0
                self.depths[track] = max(self.depths.get(track, 0) + step, 0)
                return
            self.agents.add(track)
        name = sys.intern(get_text(event.name) or state.names.get(event.name_iid) or "") or None
        args = {
            normalise(get_text(row.name) or state.annotations.get(row.name_iid, "")): _read_value(row, state)
            for row in event.debug_annotations
        }
        flows = (*event.flow_ids, *event.terminating_flow_ids)
        self.raw.append((*place, Event(packet.timestamp, event.type, track, name, categories, args, flows)))

    def take_counter(self, event: Any, track: int, place: tuple[int, int], ts_ns: int) -> None:
        """Take in a counter's value, where its track is one that is read."""
        described = self.found.tracks.get(track)
        if described is not None and described.name in COUNTERS:
            value = event.counter_value if event.HasField("counter_value") else event.double_counter_value
            self.counted.append((*place, ts_ns, track, value))

    def place(self) -> None:
        """Place everything on the wall clock; what no snapshot relates to it keeps its own time and is counted."""
        for machine, clock, event in self.raw:
            event.ts_ns = self.get_wall(machine, clock, event.ts_ns)
            self.found.events.append(event)
        self.raw.clear()
        self.found.events.sort(key=lambda event: event.ts_ns)
        for machine, clock, ts_ns, track, value in self.counted:
            self.found.counters.setdefault(track, []).append((self.get_wall(machine, clock, ts_ns), value))
        for points in self.found.counters.values():
            points.sort(key=lambda point: point[0])

    def get_wall(self, machine: int, clock: int, ts_ns: int) -> int:
        """Return a time on the wall clock, or the time itself."""
        wall = self.clocks.find_wall(machine, clock, ts_ns)
        if wall is None:
            self.found.health.clock_errors += 1
            return ts_ns
        return wall


def get_text(value: str | bytes) -> str:
    """Return a text of a message. What is not UTF-8 in a broken file comes as bytes."""
    return value if isinstance(value, str) else value.decode(errors="replace")


@functools.lru_cache(4096)
def normalise(name: str) -> str:
    """Return an annotation's local name: without a prefix of its recorder, words divided by underscores."""
    return _CAMEL.sub("_", name.rpartition(".")[2]).lower()


def _intern(state: _State, data: Any) -> None:
    for table, rows in (
        (state.names, data.event_names),
        (state.categories, data.event_categories),
        (state.annotations, data.debug_annotation_names),
    ):
        table.update({row.iid: get_text(row.name) for row in rows})
    state.strings.update({row.iid: row.str.decode(errors="replace") for row in data.debug_annotation_string_values})


def _make_track(descriptor: Any) -> Track:
    parent = descriptor.parent_uuid or None
    if descriptor.HasField("process"):
        return Track(get_text(descriptor.process.process_name), None, descriptor.process.pid)
    if descriptor.HasField("thread"):
        return Track(get_text(descriptor.thread.thread_name), None, descriptor.thread.pid)
    return Track(get_text(descriptor.name or descriptor.static_name), parent)


def _read_value(annotation: Any, state: _State) -> Any:
    if annotation.dict_entries:
        return {
            get_text(entry.name) or state.annotations.get(entry.name_iid, ""): _read_value(entry, state)
            for entry in annotation.dict_entries
        }
    if annotation.array_values:
        return [_read_value(value, state) for value in annotation.array_values]
    field = annotation.WhichOneof("value")
    if field == "string_value_iid":
        return state.strings.get(annotation.string_value_iid)
    value = None if field is None else getattr(annotation, field)
    return get_text(value) if isinstance(value, bytes) else value


def iter_ancestors(tracks: dict[int, Track], uuid: int) -> Iterable[int]:
    """Yield a track and those above it, each once: a file may hold a loop."""
    passed: set[int] = set()
    at: int | None = uuid
    while at is not None and at not in passed:
        passed.add(at)
        yield at
        at = tracks[at].parent if at in tracks else None
