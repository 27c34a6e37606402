"""The Perfetto writer, read back through the format's own protocol buffers by code that shares nothing with it."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_export.perfetto.annotations import UNBOUNDED, Bounds, compute_units, cut_text
from omn_export.perfetto.identity import compute_machine_id, compute_uuid
from omn_export.perfetto.publish import publish
from omn_export.perfetto.sequence import Sequence
from omn_export.perfetto.tracks import (
    Clock,
    ClockSnapshot,
    Counter,
    CounterUnit,
    Group,
    Merge,
    Ordering,
    Process,
    Thread,
    Track,
)
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

pytestmark = pytest.mark.spec("AGT-1", "AGT-2", "AGT-3")


def publish_packets(*sequences: Sequence, snapshots: tuple[ClockSnapshot, ...] = ()) -> list[Any]:
    """Return the packets of what sequences publish."""
    stream = io.BytesIO()
    count = publish(stream, sequences, snapshots)
    packets = list(protos.Trace.FromString(stream.getvalue()).packet)
    assert len(packets) == count
    return packets


def read_value(annotation: Any) -> Any:
    """Return an annotation's value as Python's."""
    if annotation.dict_entries:
        return {entry.name: read_value(entry) for entry in annotation.dict_entries}
    if annotation.array_values:
        return [read_value(value) for value in annotation.array_values]
    field = annotation.WhichOneof("value")
    return None if field is None else getattr(annotation, field)


def annotate(value: Any, bounds: Bounds | None = None) -> tuple[Any, bool]:
    """Return what of a value stands in the file, and whether it was cut short."""
    sequence = Sequence()
    bounds = attrs.evolve(bounds or UNBOUNDED, flag="cut")
    sequence.begin(1, 1, "slice", annotations={"args": value}, bounds={"args": bounds})
    first, packet = publish_packets(sequence)
    names = {row.iid: row.name for row in first.interned_data.debug_annotation_names}
    read = {names[row.name_iid]: read_value(row) for row in packet.track_event.debug_annotations}
    assert read.keys() <= {"args", "cut"}
    return read.get("args"), read.get("cut", False)


def test_events_of_several_sequences_are_published_by_time() -> None:
    """Packets of two sequences stand in the order of their timestamps, equal ones as they were added, each whole."""
    first, second = Sequence(machine_id=7), Sequence(machine_id=7)
    for ts_ns in (30, 10, 20):
        first.begin(1, ts_ns, f"a{ts_ns}")
    first.end(1, 20)
    second.instant(2, 15, "b15")
    packets = publish_packets(first, second)
    events = [packet for packet in packets if packet.HasField("track_event")]
    assert [(event.timestamp, event.track_event.type) for event in events] == [
        (10, protos.TrackEvent.TYPE_SLICE_BEGIN),
        (15, protos.TrackEvent.TYPE_INSTANT),
        (20, protos.TrackEvent.TYPE_SLICE_BEGIN),
        (20, protos.TrackEvent.TYPE_SLICE_END),
        (30, protos.TrackEvent.TYPE_SLICE_BEGIN),
    ]
    assert [event.trusted_packet_sequence_id for event in events] == [1, 2, 1, 1, 1]
    assert {packet.machine_id for packet in packets} == {7}
    assert {event.timestamp_clock_id for event in events} == {3}


def test_names_are_interned_once_and_before_they_are_used() -> None:
    """The first packet of a sequence clears its state and holds every name; events carry ids and say they need them."""
    sequence = Sequence()
    for index in range(3):
        sequence.begin(1, index, "same", categories=["one", "two"], annotations={"key": index})
    first, *events = publish_packets(sequence)
    assert first.sequence_flags == 1
    assert first.first_packet_on_sequence
    assert [(row.iid, row.name) for row in first.interned_data.event_names] == [(1, "same")]
    assert [row.name for row in first.interned_data.event_categories] == ["one", "two"]
    assert [row.name for row in first.interned_data.debug_annotation_names] == ["key"]
    for index, event in enumerate(events):
        assert event.sequence_flags == 2
        assert (event.track_event.name_iid, list(event.track_event.category_iids)) == (1, [1, 2])
        assert event.track_event.debug_annotations[0].int_value == index


def test_tracks_say_what_they_are() -> None:
    """A process with its labels, a thread, a group that merges with none, and counters with a unit or its name."""
    sequence = Sequence()
    tracks: list[Track] = [
        Process(1, 42, "pi", ("session abc", "reviewer"), start_ns=5),
        Thread(2, 42, 43, "pi"),
        Group(3, "Tools", parent=1, merge=Merge.BY_NAME, rank=4, ordering=Ordering.EXPLICIT, description="what ran"),
        Group(4, "Capture", merge=Merge.NONE),
        Group(5, "Lane", merge=Merge.BY_KEY, merge_key="lane"),
        Counter(6, "Resident memory", parent=3, unit=CounterUnit.SIZE_BYTES),
        Counter(7, "Input tokens", parent=3, unit_name="tokens", share_key="tokens"),
    ]
    for track in tracks:
        sequence.declare(track)
    process, thread, tools, capture, lane, memory, tokens = [
        packet.track_descriptor for packet in publish_packets(sequence)[1:]
    ]
    assert (process.process.pid, process.process.process_name) == (42, "pi")
    assert list(process.process.process_labels) == ["session abc", "reviewer"]
    assert process.process.start_timestamp_ns == 5
    assert (thread.thread.pid, thread.thread.tid, thread.thread.thread_name) == (42, 43, "pi")
    assert (tools.parent_uuid, tools.sibling_merge_behavior, tools.sibling_order_rank) == (1, 1, 4)
    assert (tools.child_ordering, tools.description) == (3, "what ran")
    assert capture.sibling_merge_behavior == 2
    assert not capture.HasField("parent_uuid")
    assert (lane.sibling_merge_behavior, lane.sibling_merge_key) == (3, "lane")
    assert memory.counter.unit == 3
    assert (tokens.counter.unit_name, tokens.counter.y_axis_share_key) == ("tokens", "tokens")
    assert not tokens.counter.HasField("unit")


def test_counters_keep_integers_and_fractions_apart() -> None:
    """An integral value is a 64-bit integer in the file, a fraction a double."""
    sequence = Sequence()
    sequence.count(1, 1, 1 << 60)
    sequence.count(1, 2, 0.5)
    _, whole, fraction = publish_packets(sequence)
    assert whole.track_event.counter_value == 1 << 60
    assert fraction.track_event.double_counter_value == 0.5


def test_flows_are_fixed_ids_on_their_events() -> None:
    """A flow of 64 bits stands on each event that it connects."""
    sequence = Sequence()
    sequence.begin(1, 1, "from", flows=[10930410510516263498])
    sequence.end(1, 2, flows=[3])
    _, begin, end = publish_packets(sequence)
    assert list(begin.track_event.flow_ids) == [10930410510516263498]
    assert list(end.track_event.flow_ids) == [3]


def test_clock_snapshots_stand_before_every_event() -> None:
    """The first packets say what the clocks said and that REALTIME is the trace's clock."""
    sequence = Sequence()
    sequence.instant(1, 1, "early")
    snapshot = ClockSnapshot({Clock.MONOTONIC: 5, Clock.BOOTTIME: 6, Clock.REALTIME: 7})
    packets = publish_packets(sequence, snapshots=(snapshot, snapshot))
    for packet in packets[:2]:
        assert packet.clock_snapshot.primary_trace_clock == 1
        clocks = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
        assert clocks == {3: 5, 6: 6, 1: 7}


@pytest.mark.parametrize(
    ("value", "kept", "is_cut"),
    [
        ({"flag": True, "n": 3, "f": 0.5, "s": "x"}, {"flag": True, "n": 3, "f": 0.5, "s": "x"}, False),
        ((1 << 64) - 1, (1 << 64) - 1, False),
        (-(1 << 63), -(1 << 63), False),
        ({"big": 1 << 64, "b": 1}, {"b": 1}, True),
        ({"a": None, "b": 1}, {"b": 1}, True),
        ([1, None, 3], [1], True),
        ([1, {}, 3], [1], True),
        ({"empty": [], "b": ""}, {"b": ""}, True),
        ({}, None, True),
        ({"x": "a\ud800b"}, {"x": "a\ufffdb"}, False),
        ({"\udc00": 1}, {"\ufffd": 1}, False),
        ({"x": {1, 2}}, None, True),
    ],
)
def test_an_annotation_is_typed_and_says_what_it_left_out(value: Any, kept: Any, is_cut: bool) -> None:
    """Booleans, integers, doubles, texts, lists and dictionaries as they are; what has no encoding is left out."""
    assert annotate(value) == (kept, is_cut)


def test_bounds_keep_a_prefix() -> None:
    """Of 129 values 128 stay, of nine levels eight, of the units those that fit, a surrogate pair whole."""
    bounds = Bounds()
    assert annotate(list(range(128)), bounds) == (list(range(128)), False)
    assert annotate(list(range(129)), bounds) == (list(range(128)), True)
    eight: Any = {"leaf": 1}
    for _ in range(7):
        eight = {"in": eight}
    assert annotate(eight, bounds) == (eight, False)
    assert annotate({"in": eight}, bounds) == (None, True)
    assert annotate({"in": eight, "beside": 2}, bounds) == ({"beside": 2}, True)
    assert annotate("x" * 65_535 + "\U0001f600", bounds) == ("x" * 65_535, True)
    assert annotate("x" * 65_534 + "\U0001f600", bounds) == ("x" * 65_534 + "\U0001f600", False)
    assert annotate({"k" * 65_536: "v"}, bounds) == ({"k" * 65_536: ""}, True)


@given(st.text(), st.integers(0, 40))
def test_a_cut_text_is_the_longest_beginning_that_fits(text: str, units: int) -> None:
    """It fits, it is a beginning, and one character more would not fit."""
    kept = cut_text(text, units)
    assert text.startswith(kept)
    assert compute_units(kept) <= units
    assert kept == text or compute_units(text[: len(kept) + 1]) > units
    assert compute_units(text) == len(text.encode("utf-16-le", "surrogatepass")) // 2


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_PLAIN)
def test_any_plain_value_is_written_within_its_bounds(value: Any) -> None:
    """Whatever comes, the file parses, and what was not cut short is there whole."""
    kept, is_cut = annotate(value, Bounds(6, 3, 30))

    def count(part: Any) -> tuple[int, int]:
        if isinstance(part, dict):
            inner = [count(value) for value in part.values()]
            return sum(row[0] for row in inner), sum(map(compute_units, part)) + sum(row[1] for row in inner)
        if isinstance(part, list):
            inner = [count(value) for value in part]
            return sum(row[0] for row in inner), sum(row[1] for row in inner)
        return int(part is not None), compute_units(part) if isinstance(part, str) else 0

    values, units = count(kept)
    assert values <= 6
    assert units <= 30
    if not is_cut and "\ufffd" not in repr(kept):
        assert kept == value


def test_ids_are_the_same_in_every_process() -> None:
    """A uuid and a machine id are of their words, and never 0."""
    program = (
        "from omn_export.perfetto.identity import *; print(compute_uuid('capture', 1), compute_machine_id('boot'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(compute_uuid("capture", 1)), str(compute_machine_id("boot"))]
    assert compute_uuid("a", "b") != compute_uuid("ab")
    assert 1 <= compute_machine_id("boot") < 1 << 32
    assert compute_machine_id("") == 0x84222325
