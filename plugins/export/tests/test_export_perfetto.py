"""The perfetto format, read back through Perfetto's own protocol buffers."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any

import attrs
import numpy as np
import pytest
from omn_export.as_perfetto import PERFETTO
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
from shapes import WINDOW, make_batch, make_document, make_result
from stack_runs import NASTY_LABELS, make_nasty_stacks, make_row, make_stack_result, make_tree

from omn_core.errors import RequestError
from omn_core.model.batch import Batch, Column
from omn_core.model.result import Document, RawEvents
from omn_core.model.stacks import Frame, Stacks
from omn_core.model.style import TextStyle
from omn_core.names import escape_bytes

pytestmark = pytest.mark.spec("FMT-1", "FMT-2")

Stack = tuple[tuple[str, str | None], ...]


class Trace:
    """A written trace, its interned names resolved."""

    def __init__(self, document: Document) -> None:
        stream = io.BytesIO()
        PERFETTO.write(document, stream, TextStyle())
        packets = list(protos.Trace.FromString(stream.getvalue()).packet)
        self.snapshot = packets[0].clock_snapshot
        interned = packets[1].interned_data
        self.names = {row.iid: row.name for row in interned.event_names}
        self.keys = {row.iid: row.name for row in interned.debug_annotation_names}
        functions = {row.iid: row.str.decode() for row in interned.function_names}
        paths = {row.iid: row.str.decode() for row in interned.mapping_paths}
        objects = {row.iid: paths[row.path_string_ids[0]] for row in interned.mappings}
        frames = {
            row.iid: (functions[row.function_name_id], objects[row.mapping_id] if row.mapping_id else None)
            for row in interned.frames
        }
        self.stacks = {row.iid: tuple(frames[iid] for iid in row.frame_ids) for row in interned.callstacks}
        self.tracks = {
            packet.track_descriptor.uuid: packet.track_descriptor
            for packet in packets
            if packet.HasField("track_descriptor")
        }
        self.events = [packet for packet in packets if packet.HasField("track_event")]
        assert all(packet.timestamp_clock_id == 3 for packet in self.events)
        assert all(packet.track_event.track_uuid in self.tracks for packet in self.events)

    def list_named(self, name: str) -> list[Any]:
        """Return the packets of the events of a name."""
        return [packet for packet in self.events if self.names.get(packet.track_event.name_iid) == name]

    def annotate(self, packet: Any) -> dict[str, Any]:
        """Return an event's annotations."""
        return {self.keys[one.name_iid]: read_value(one) for one in packet.track_event.debug_annotations}


def read_value(annotation: Any) -> Any:
    """Return an annotation's value as Python's."""
    if annotation.dict_entries:
        return {entry.name: read_value(entry) for entry in annotation.dict_entries}
    if annotation.array_values:
        return [read_value(value) for value in annotation.array_values]
    return getattr(annotation, annotation.WhichOneof("value"))


def test_stacks_are_callstacks_with_weights() -> None:
    """Each row is an instant at the close: its callstack from the outermost frame, its weight, its events."""
    document = make_nasty_stacks()
    trace = Trace(document)
    expected: Counter[Stack] = Counter()
    for row in document.results[0].series[0].emits["stack"]["rows"]:
        holders = [None if holder is None else escape_bytes(holder) for holder in row["objects"]]
        expected[tuple(reversed(list(zip(map(escape_bytes, row["frames"]), holders, strict=True))))] += row["weight"]
    found: Counter[Stack] = Counter()
    for packet in trace.events:
        event = packet.track_event
        assert packet.timestamp == WINDOW.closed_ns
        assert trace.annotate(packet) == {"ns": event.callstack_weight, "events": 1}
        found[trace.stacks[event.callstack_iid]] += event.callstack_weight
    assert found == expected


def test_series_and_requests_are_tracks() -> None:
    """A request is a group, a series a track in it, and what was lost an event that says so."""
    faults = make_stack_result({None: [make_row([], 3)]}, source="mem.faults", unit="count")
    trace = Trace(make_document(*make_tree().results, faults))
    names = [track.name for track in trace.tracks.values()]
    assert [name.partition(":")[0] for name in names] == ["cpu.profile", "task 7", "task 8", "mem.faults", names[-1]]
    first = next(iter(trace.tracks))
    assert [track.parent_uuid for track in trace.tracks.values()] == [0, first, first, 0, 0]
    (lost,) = trace.list_named("reservations")
    assert trace.annotate(lost) == {"reservations": ["cpu.profile: lost: 3 events dropped; the ring was full"]}
    (bare,) = trace.list_named("[no stack]")
    assert not bare.track_event.HasField("callstack_iid")
    assert bare.track_event.callstack_weight == 0
    assert max(map(len, trace.stacks.values())) == 5001


def test_what_happened_stands_at_its_time() -> None:
    """A timeline is a counter in its unit, a raw event an instant with its fields, an answer one at the close."""
    batch = make_batch([5, 6, None], keys={"task": [1, 1, 2]}, comm=NASTY_LABELS[1:4], weight=[2, 2, 0])
    trace = Trace(make_document(make_result(batch, ["timeline", "raw", "summary"], mode="trace")))
    opened = WINDOW.opened_ns
    counted = [packet for packet in trace.events if packet.track_event.type == protos.TrackEvent.TYPE_COUNTER]
    values = [(packet.timestamp, packet.track_event.counter_value) for packet in counted]
    assert values == [(opened, 10), (opened + 1, 12)]
    counter = trace.tracks[counted[0].track_event.track_uuid]
    assert (counter.name, counter.counter.unit) == ("mem.test", protos.CounterDescriptor.UNIT_SIZE_BYTES)
    raw = trace.list_named("mem.test")
    assert [packet.timestamp for packet in raw] == [opened, opened + 1, opened + 2]
    assert trace.tracks[raw[0].track_event.track_uuid].name == "task 1"
    assert trace.annotate(raw[0]) == {
        "key": {"task": 1},
        "weight": 2,
        "backend": "fs:proc",
        "attrs": {"value": 5, "comm": NASTY_LABELS[1]},
    }
    assert trace.annotate(raw[2])["attrs"] == {"comm": escape_bytes(NASTY_LABELS[3])}
    assert trace.annotate(raw[2])["weight"] == 0
    (summary,) = trace.list_named("summary")
    assert summary.timestamp == WINDOW.closed_ns
    assert (trace.annotate(summary)["count"], trace.annotate(summary)["total"]) == (4, 22)


def test_a_raw_event_has_its_callstack() -> None:
    """From the outermost frame, as Perfetto wants them; none where the event has no stack."""
    stacks = Stacks()
    leaf, main = (stacks.intern_frame(Frame(label)) for label in (NASTY_LABELS[0], "main"))
    batch = attrs.evolve(make_batch([5, 6]), stack=np.array([stacks.intern([leaf, main]), -1]))
    made = attrs.evolve(make_result(batch, ["raw"], mode="trace"), raw=RawEvents(batch, stacks))
    trace = Trace(make_document(made))
    first, second = trace.list_named("mem.test")
    assert trace.stacks[first.track_event.callstack_iid] == (("main", None), (NASTY_LABELS[0], None))
    assert not second.track_event.HasField("callstack_iid")


def test_the_clock_is_the_traces_own() -> None:
    """The one snapshot names CLOCK_MONOTONIC, which leads: no wall clock is made up."""
    snapshot = Trace(make_tree()).snapshot
    assert snapshot.primary_trace_clock == 3
    assert [(clock.clock_id, clock.timestamp) for clock in snapshot.clocks] == [(3, WINDOW.opened_ns)]


def test_a_counter_past_64_bits_is_a_double() -> None:
    """A number that Perfetto's integers cannot hold is not cut."""
    batch = Batch(np.array([WINDOW.opened_ns]), attributes={"value": Column(np.array([1 << 63], np.uint64))})
    (packet,) = Trace(make_document(make_result(batch, ["timeline"]))).events
    assert packet.track_event.double_counter_value == float(1 << 63)


def test_perfetto_holds_no_listing() -> None:
    """A listing is refused as the row says."""
    with pytest.raises(RequestError, match="holds runs alone"):
        PERFETTO.write_plain({}, io.BytesIO(), TextStyle())
