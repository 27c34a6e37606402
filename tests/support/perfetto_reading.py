"""Reads a Perfetto trace through the format's own protocol buffers, as its importer would, for tests."""

from __future__ import annotations

from typing import Any

import attrs
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos


@attrs.define
class Slice:
    """A slice or an instant (`end` is its start then); an end that never came is None."""

    track: str
    uuid: int
    name: str
    start: int
    end: int | None
    categories: list[str]
    args: dict[str, Any]
    flows: list[int]
    is_instant: bool = False


@attrs.define
class ReadTrace:
    """What a trace holds."""

    packets: list[Any] = attrs.field(factory=list)
    descriptors: dict[int, Any] = attrs.field(factory=dict)
    slices: list[Slice] = attrs.field(factory=list)
    counters: dict[str, list[int | float]] = attrs.field(factory=dict)
    points: dict[str, list[tuple[int, int | float]]] = attrs.field(factory=dict)
    clocks: list[dict[int, int]] = attrs.field(factory=list)

    def named(self, name: str) -> list[Slice]:
        """Return the slices of a name."""
        return [row for row in self.slices if row.name == name]

    def one(self, name: str) -> Slice:
        """Return the one slice of a name."""
        (row,) = self.named(name)
        return row

    def path(self, uuid: int) -> str:
        """Return a track's names, its parents' first, bars between."""
        descriptor = self.descriptors[uuid]
        name = descriptor.name or descriptor.process.process_name or descriptor.thread.thread_name
        return f"{self.path(descriptor.parent_uuid)}|{name}" if descriptor.parent_uuid else name


def read_value(annotation: Any) -> Any:
    """Return an annotation's value as Python's."""
    if annotation.dict_entries:
        return {entry.name: read_value(entry) for entry in annotation.dict_entries}
    if annotation.array_values:
        return [read_value(value) for value in annotation.array_values]
    field = annotation.WhichOneof("value")
    return None if field is None else getattr(annotation, field)


def read_trace(content: bytes) -> ReadTrace:
    """Return what a trace holds. Raises AssertionError for what an importer would complain of."""
    trace = ReadTrace(packets=list(protos.Trace.FromString(content).packet))
    tables: dict[int, Any] = {}
    for packet in trace.packets:
        if packet.HasField("clock_snapshot"):
            trace.clocks.append({clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks})
        if packet.HasField("interned_data"):
            assert packet.sequence_flags & 1
            tables[packet.trusted_packet_sequence_id] = packet.interned_data
        if packet.HasField("track_descriptor"):
            assert packet.track_descriptor.uuid not in trace.descriptors
            trace.descriptors[packet.track_descriptor.uuid] = packet.track_descriptor
    events = [packet for packet in trace.packets if packet.HasField("track_event")]
    assert [packet.timestamp for packet in events] == sorted(packet.timestamp for packet in events)
    stacks: dict[int, list[Slice]] = {}
    for packet in events:
        _add_event(trace, packet, tables[packet.trusted_packet_sequence_id], stacks)
    return trace


def _add_event(trace: ReadTrace, packet: Any, table: Any, stacks: dict[int, list[Slice]]) -> None:
    event = packet.track_event
    path = trace.path(event.track_uuid)
    if event.type == protos.TrackEvent.TYPE_COUNTER:
        assert trace.descriptors[event.track_uuid].HasField("counter")
        value = event.counter_value if event.HasField("counter_value") else event.double_counter_value
        trace.counters.setdefault(path, []).append(value)
        trace.points.setdefault(path, []).append((packet.timestamp, value))
        return
    names = {row.iid: row.name for row in table.debug_annotation_names}
    args = {names[row.name_iid]: read_value(row) for row in event.debug_annotations}
    stack = stacks.setdefault(event.track_uuid, [])
    if event.type == protos.TrackEvent.TYPE_SLICE_END:
        assert stack, f"an end without a beginning on {path}"
        row = stack.pop()
        row.end = packet.timestamp
        row.args |= args
        row.flows += list(event.flow_ids)
        return
    categories = {row.iid: row.name for row in table.event_categories}
    is_instant = event.type == protos.TrackEvent.TYPE_INSTANT
    row = Slice(
        path,
        event.track_uuid,
        {row.iid: row.name for row in table.event_names}[event.name_iid],
        packet.timestamp,
        packet.timestamp if is_instant else None,
        [categories[iid] for iid in event.category_iids],
        args,
        list(event.flow_ids),
        is_instant,
    )
    trace.slices.append(row)
    if not is_instant:
        stack.append(row)
