"""The perfetto format: a trace of track events, which Perfetto's interface and its trace processor read.

Each request is a group of tracks and each series a track of it. A timeline is a counter, a raw event an instant with
its stack, and any other answer an instant at the window's close with the whole answer as its annotations. Stacks with
weights are instants at the close too, each with its callstack and its weight: an area selected around them is drawn as
a flame graph. Times are CLOCK_MONOTONIC, which is the trace's clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO

from omn_core.api import (
    Document,
    Encoder,
    RequestError,
    Result,
    SeriesResult,
    StackSeries,
    TextStyle,
    escape_bytes,
    escape_tree,
    iter_reservations,
    iter_rows,
    iter_stack_series,
    render_asked,
    render_series,
)
from omn_export.perfetto.callstacks import StackFrame
from omn_export.perfetto.identity import compute_uuid
from omn_export.perfetto.publish import publish
from omn_export.perfetto.sequence import Sequence
from omn_export.perfetto.tracks import Clock, ClockSnapshot, Counter, CounterUnit, Group, Merge

_UNITS = {"ns": CounterUnit.TIME_NS, "bytes": CounterUnit.SIZE_BYTES, "count": CounterUnit.COUNT}
_LEAST_INT64, _MOST_INT64 = -(1 << 63), (1 << 63) - 1


class PerfettoEncoder:
    """A run as a trace. Its packets are held until the last is made: Perfetto wants them by time."""

    def write(self, document: Document, stream: BinaryIO, style: TextStyle) -> None:
        """Write a run."""
        sequence = Sequence(clock=Clock.MONOTONIC)
        stacks = list(iter_stack_series(document))
        for place, result in enumerate(document.results):
            tracks = _Tracks(sequence, place, result)
            for series in result.series:
                _add_answers(tracks, series)
            for one in stacks:
                if one.place == place:
                    _add_stacks(tracks, one)
            _add_raw(tracks)
        _add_reservations(sequence, document)
        snapshot = ClockSnapshot({Clock.MONOTONIC: document.window.opened_ns})
        publish(stream, [sequence], [snapshot], primary=Clock.MONOTONIC)

    def write_plain(self, value: Any, stream: BinaryIO, style: TextStyle) -> None:
        """Refuse: the format's row says that it carries runs alone."""
        raise RequestError("the format perfetto holds runs alone")


class _Tracks:
    """The tracks of one request, declared when they are first asked for."""

    def __init__(self, sequence: Sequence, place: int, result: Result) -> None:
        self.sequence, self.place, self.result = sequence, place, result
        self.source = result.resolved.entry.id
        name = escape_bytes(render_asked(result))
        self.root = sequence.declare(Group(compute_uuid("omn", place), name, merge=Merge.NONE, rank=place))
        self._known: set[int] = set()

    def find_series(self, name: str) -> int:
        """Return the track of a series by its text, the request's own where it has none."""
        if not name:
            return self.root
        return self._declare(Group(compute_uuid("omn", self.place, "series", name), name, self.root, Merge.NONE))

    def find_counter(self, label: str) -> int:
        """Return the counter of a series."""
        unit = self.result.resolved.unit
        known = _UNITS.get(unit)
        uuid = compute_uuid("omn", self.place, "counter", label)
        name = " ".join(filter(None, (self.source, label)))
        return self._declare(Counter(uuid, name, self.root, known, None if known else escape_bytes(unit), unit))

    def _declare(self, track: Group | Counter) -> int:
        if track.uuid not in self._known:
            self._known.add(track.uuid)
            self.sequence.declare(track)
        return track.uuid


def _add_answers(tracks: _Tracks, series: SeriesResult) -> None:
    label = render_series(series.key, series.labels)
    for emit, answer in series.emits.items():
        name = emit.partition("@")[0].partition(":")[0]
        if name == "timeline":
            counter = tracks.find_counter(label)
            for when, value in answer["points"]:
                if value is not None:
                    tracks.sequence.count(counter, when, _fit(value))
        elif name not in ("stack", "raw"):
            closed = tracks.result.window.closed_ns
            track = tracks.find_series(label)
            tracks.sequence.instant(track, closed, emit, categories=[tracks.source], annotations=escape_tree(answer))


def _fit(value: float) -> float:
    """Return a number as Perfetto's counters hold it: an integer of 64 bits with a sign, else a double."""
    if isinstance(value, int) and not _LEAST_INT64 <= value <= _MOST_INT64:
        return float(value)
    return value


def _add_stacks(tracks: _Tracks, series: StackSeries) -> None:
    track = tracks.find_series(series.label)
    closed = series.result.window.closed_ns
    frames = {frame: StackFrame(frame.label, frame.object) for stack in series.stacks for frame in stack.frames}
    for stack in series.stacks:
        tracks.sequence.instant(
            track,
            closed,
            stack.frames[-1].label if stack.frames else "[no stack]",
            categories=[series.source, "stack"],
            annotations={escape_bytes(series.unit): stack.weight, "events": stack.count},
            callstack=[frames[frame] for frame in stack.frames],
            weight=min(max(round(stack.weight), _LEAST_INT64), _MOST_INT64),
        )


def _add_raw(tracks: _Tracks) -> None:
    for rows in iter_rows(tracks.result):
        for row in rows:
            said: dict[str, Any] = {
                name: row[name] for name in ("key", "weight", "ts_err_ns", "backend") if name in row
            }
            tracks.sequence.instant(
                tracks.find_series(render_series(row["key"], {})),
                row["ts_ns"],
                row["source"],
                categories=[row["source"]],
                annotations={**said, "attrs": row["attrs"]},
                callstack=_make_frames(row.get("stack", ())),
            )


def _make_frames(labels: Iterable[str]) -> list[StackFrame]:
    return [StackFrame(label) for label in labels][::-1]


def _add_reservations(sequence: Sequence, document: Document) -> None:
    sentences = list(map(escape_bytes, iter_reservations(document)))
    if sentences:
        track = sequence.declare(Group(compute_uuid("omn", "reservations"), "what to know of this trace"))
        closed = document.window.closed_ns
        sequence.instant(track, closed, "reservations", categories=["omn"], annotations={"reservations": sentences})


PERFETTO: Encoder = PerfettoEncoder()
