"""Events on tracks: one packet sequence, gathered in any order and published by time.

Names, categories and the names of annotations are interned: each stands in the file once for a sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as Listed
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from omn_export.perfetto.annotations import UNBOUNDED, Bounds, clean_text, fill_annotation
from omn_export.perfetto.callstacks import Callstacks, StackFrame
from omn_export.perfetto.tracks import Clock, Counter, Group, Process, Thread, Track

_CLEARED = protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
_NEEDS = protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
_BEGIN = protos.TrackEvent.TYPE_SLICE_BEGIN
_END = protos.TrackEvent.TYPE_SLICE_END
_INSTANT = protos.TrackEvent.TYPE_INSTANT
_COUNTER = protos.TrackEvent.TYPE_COUNTER


class Sequence:
    """Packets of one writer: their timestamps are of `clock`, their machine is `machine_id` (None: this one).

    Nothing is checked that only the whole shows: an end closes the innermost open slice of its track.
    """

    def __init__(self, clock: Clock = Clock.MONOTONIC, machine_id: int | None = None) -> None:
        self.clock = clock
        self.machine_id = machine_id
        self._tracks: dict[int, Track] = {}
        self._events: list[tuple[int, bytes]] = []
        self._names: dict[str, int] = {}
        self._categories: dict[str, int] = {}
        self._annotations: dict[str, int] = {}
        self._callstacks = Callstacks()

    def declare(self, track: Track) -> int:
        """Declare a track and return its uuid. A second declaration of the uuid takes the first one's place."""
        self._tracks[track.uuid] = track
        return track.uuid

    def begin(
        self,
        track: int,
        ts_ns: int,
        name: str,
        *,
        categories: Iterable[str] = (),
        annotations: Mapping[str, Any] | None = None,
        flows: Iterable[int] = (),
        bounds: Mapping[str, Bounds] | None = None,
    ) -> None:
        """Open a slice. Annotations that are None are left out, those that `bounds` names are kept within them."""
        self._add(track, ts_ns, _BEGIN, name, categories, annotations, flows, bounds)

    def end(
        self, track: int, ts_ns: int, *, annotations: Mapping[str, Any] | None = None, flows: Iterable[int] = ()
    ) -> None:
        """Close the innermost open slice of a track; the annotations join those of its beginning."""
        self._add(track, ts_ns, _END, None, (), annotations, flows, None)

    def instant(
        self,
        track: int,
        ts_ns: int,
        name: str,
        *,
        categories: Iterable[str] = (),
        annotations: Mapping[str, Any] | None = None,
        flows: Iterable[int] = (),
        bounds: Mapping[str, Bounds] | None = None,
        callstack: Listed[StackFrame] = (),
        weight: int | None = None,
    ) -> None:
        """Add what happened at one moment.

        `callstack` is where in the code, its outermost frame first, and `weight` what that stack stands for.
        """
        stack = (self._callstacks.intern(callstack), weight) if callstack else None
        self._add(track, ts_ns, _INSTANT, name, categories, annotations, flows, bounds, stack)

    def count(self, track: int, ts_ns: int, value: float) -> None:
        """Add a counter's absolute value from this moment on, an integer as one."""
        packet = self._make_event(track, ts_ns, _COUNTER)
        if isinstance(value, int):
            packet.track_event.counter_value = value
        else:
            packet.track_event.double_counter_value = value
        self._events.append((ts_ns, packet.SerializeToString()))

    def iter_packets(self, sequence_id: int) -> Iterator[tuple[int | None, bytes]]:
        """Yield (timestamp, packet): what the sequence begins with (None), then every event by its time.

        Events of one moment stay in the order they were added.
        """
        # Parsing one message more than once merges it: what only publishing knows is appended to what was serialised.
        suffix = protos.TracePacket(trusted_packet_sequence_id=sequence_id, sequence_flags=_NEEDS)
        if self.machine_id is not None:
            suffix.machine_id = self.machine_id
        appended = suffix.SerializeToString()
        yield None, self._make_first(sequence_id).SerializeToString()
        for track in self._tracks.values():
            packet = protos.TracePacket(track_descriptor=make_descriptor(track))
            yield None, packet.SerializeToString() + appended
        for ts_ns, event in sorted(self._events, key=lambda pair: pair[0]):
            yield ts_ns, event + appended

    def _make_first(self, sequence_id: int) -> Any:
        packet = protos.TracePacket(
            trusted_packet_sequence_id=sequence_id, sequence_flags=_CLEARED, first_packet_on_sequence=True
        )
        if self.machine_id is not None:
            packet.machine_id = self.machine_id
        interned = packet.interned_data
        for field, names in (
            (interned.event_names, self._names),
            (interned.event_categories, self._categories),
            (interned.debug_annotation_names, self._annotations),
        ):
            for name, iid in names.items():
                field.add(iid=iid, name=name)
        self._callstacks.fill(interned)
        return packet

    def _make_event(self, track: int, ts_ns: int, kind: int) -> Any:
        packet = protos.TracePacket(timestamp=ts_ns, timestamp_clock_id=self.clock)
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        return packet

    def _add(
        self,
        track: int,
        ts_ns: int,
        kind: int,
        name: str | None,
        categories: Iterable[str],
        annotations: Mapping[str, Any] | None,
        flows: Iterable[int],
        bounds: Mapping[str, Bounds] | None,
        stack: tuple[int, int | None] | None = None,
    ) -> None:
        packet = self._make_event(track, ts_ns, kind)
        event = packet.track_event
        if name is not None:
            event.name_iid = _intern(self._names, name)
        event.category_iids.extend(_intern(self._categories, category) for category in categories)
        event.flow_ids.extend(flows)
        if stack is not None:
            event.callstack_iid, weight = stack
            if weight is not None:
                event.callstack_weight = weight
        for key, value in (annotations or {}).items():
            if value is not None:
                self._annotate(event, key, value, (bounds or {}).get(key, UNBOUNDED))
        self._events.append((ts_ns, packet.SerializeToString()))

    def _annotate(self, event: Any, key: str, value: Any, bounds: Bounds) -> None:
        annotation = event.debug_annotations.add()
        annotation.name_iid = _intern(self._annotations, key)
        is_written, is_whole = fill_annotation(annotation, value, bounds)
        if not is_written:
            del event.debug_annotations[-1]
        if not is_whole and bounds.flag is not None:
            event.debug_annotations.add(name_iid=_intern(self._annotations, bounds.flag), bool_value=True)


def make_descriptor(track: Track) -> Any:
    """Return a track's TrackDescriptor."""
    descriptor = protos.TrackDescriptor(uuid=track.uuid)
    match track:
        case Process():
            descriptor.process.pid = track.pid
            descriptor.process.process_name = clean_text(track.name)
            descriptor.process.process_labels.extend(map(clean_text, track.labels))
            if track.start_ns is not None:
                descriptor.process.start_timestamp_ns = track.start_ns
        case Thread():
            descriptor.thread.pid, descriptor.thread.tid = track.pid, track.tid
            descriptor.thread.thread_name = clean_text(track.name)
        case Group() | Counter():
            _describe_named(descriptor, track)
    return descriptor


def _describe_named(descriptor: Any, track: Group | Counter) -> None:
    descriptor.name = clean_text(track.name)
    optional: Listed[tuple[str, Any]] = (
        ("parent_uuid", track.parent),
        ("sibling_order_rank", track.rank),
        ("description", track.description),
    )
    if isinstance(track, Group):
        optional = (
            *optional,
            ("sibling_merge_behavior", track.merge),
            ("sibling_merge_key", track.merge_key),
            ("child_ordering", track.ordering),
        )
    for name, value in optional:
        if value is not None:
            setattr(descriptor, name, value)
    if isinstance(track, Counter):
        descriptor.counter.SetInParent()
        for name, value in (
            ("unit", track.unit),
            ("unit_name", track.unit_name),
            ("y_axis_share_key", track.share_key),
        ):
            if value is not None:
                setattr(descriptor.counter, name, value)


def _intern(table: dict[str, int], name: str) -> int:
    name = clean_text(name)
    return table.setdefault(name, len(table) + 1)
