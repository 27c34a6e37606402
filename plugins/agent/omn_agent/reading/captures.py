"""Spans and counters given to the captures that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs

from omn_agent.reading.events import COUNTERS, FileEvents, iter_ancestors, read_events
from omn_agent.reading.framing import FileHealth
from omn_agent.reading.spans import Span, join_spans

_ROOT = "agentprof.capture"


@attrs.define(eq=False)
class ReadCapture:
    """One capture as a file tells of it."""

    file: str
    span: Span
    root: int | None = None
    spans: list[Span] = attrs.field(factory=list)
    counters: dict[str, list[tuple[int, float]]] = attrs.field(factory=dict)

    @property
    def args(self) -> dict[str, Any]:
        """What the capture says of itself."""
        return self.span.args

    @property
    def session_id(self) -> str | None:
        """The session, None where an older file does not say."""
        return self.get_text("session_id")

    @property
    def harness(self) -> str | None:
        """The harness, by its name or its category."""
        category = self.span.categories[0].partition(".")[0] if self.span.categories else None
        return self.get_text("harness") or category

    @property
    def window(self) -> tuple[int, int]:
        """From its start to its end, or to the last that was seen of it."""
        if self.span.end_ns is not None and not self.span.is_instant:
            return self.span.start_ns, self.span.end_ns
        seen = [span.end_ns or span.start_ns for span in self.spans]
        seen += [points[-1][0] for points in self.counters.values()]
        return self.span.start_ns, max([self.span.start_ns, *seen])

    def get_text(self, name: str) -> str | None:
        """Return a field of text."""
        value = self.args.get(name)
        return value if isinstance(value, str) else None

    def iter_kind(self, *kinds: str) -> Iterable[Span]:
        """Iterate over the spans of some kinds."""
        return (span for span in self.spans if span.kind in kinds)


@attrs.define
class Reading:
    """Everything that was read, of all files."""

    captures: list[ReadCapture]
    files: list[FileHealth]
    homeless: int = 0
    machines: dict[str, list[Span]] = attrs.field(factory=dict)
    """What each file holds of the machine: the run of omn's sources and the processes that it saw."""


def read_captures(paths: Sequence[Path]) -> Reading:
    """Read files on one clock. Raises RequestError for a file that is no recording."""
    reading = Reading([], [])
    for path in paths:
        found = read_events(path)
        reading.files.append(found.health)
        _divide(found, join_spans(found), reading)
    reading.captures.sort(key=lambda capture: capture.span.start_ns)
    return reading


def _divide(found: FileEvents, spans: list[Span], reading: Reading) -> None:
    """Give a file's spans and counters to its captures."""
    captures = [ReadCapture(found.health.path, span) for span in spans if span.kind == "capture"]
    _find_roots(found, captures, spans)
    by_root = {capture.root: capture for capture in captures if capture.root is not None}
    for span in spans:
        if span.kind == "capture":
            continue
        if span.kind in ("machine", "process"):
            reading.machines.setdefault(found.health.path, []).append(span)
            continue
        owner = _find_owner(found, captures, by_root, span.track, span.start_ns)
        if owner is None:
            reading.homeless += 1
        else:
            owner.spans.append(span)
    for track, points in found.counters.items():
        owner = _find_owner(found, captures, by_root, track, points[0][0])
        if owner is not None:
            owner.counters[COUNTERS[found.tracks[track].name]] = points
    reading.captures += captures


def _find_roots(found: FileEvents, captures: list[ReadCapture], spans: Iterable[Span]) -> None:
    """Find the track that each capture's activity stands below.

    A capture may name it, or its span may stand below it. Of those that remain the file says nothing but when: a root
    goes to the first capture of its process whose window its first event is in.
    """
    roots = {uuid for uuid, track in found.tracks.items() if track.name == _ROOT}
    for capture in captures:
        named = capture.args.get("capture_track")
        above = [uuid for uuid in iter_ancestors(found.tracks, capture.span.track) if uuid in roots]
        capture.root = named if isinstance(named, int) and named in roots else next(iter(above), None)
    taken = {capture.root for capture in captures}
    first: dict[int, int] = {}
    for span in spans:
        for uuid in iter_ancestors(found.tracks, span.track):
            if uuid in roots - taken:
                first.setdefault(uuid, span.start_ns)
    for uuid, start_ns in sorted(first.items(), key=lambda pair: pair[1]):
        process = _find_process(found, uuid)
        for capture in captures:
            is_same = process is None or process == _find_process(found, capture.span.track)
            if capture.root is None and is_same and _is_inside(capture, start_ns):
                capture.root = uuid
                break


def _find_owner(
    found: FileEvents, captures: list[ReadCapture], by_root: dict[int, ReadCapture], track: int, ts_ns: int
) -> ReadCapture | None:
    """Return the capture of a track at a time: by its root, else the latest that holds the time in its process."""
    for uuid in iter_ancestors(found.tracks, track):
        if uuid in by_root:
            return by_root[uuid]
    process = _find_process(found, track)
    holding = [capture for capture in captures if _is_inside(capture, ts_ns)]
    same_track = [capture for capture in holding if capture.span.track == track]
    same_process = [capture for capture in holding if _find_process(found, capture.span.track) == process]
    for some in (same_track, same_process, holding if len(holding) == 1 else []):
        if some:
            return max(some, key=lambda capture: capture.span.start_ns)
    return None


def _find_process(found: FileEvents, track: int) -> int | None:
    for uuid in iter_ancestors(found.tracks, track):
        if uuid in found.tracks and found.tracks[uuid].pid is not None:
            return found.tracks[uuid].pid
    return None


def _is_inside(capture: ReadCapture, ts_ns: int) -> bool:
    end_ns = None if capture.span.is_instant else capture.span.end_ns
    return capture.span.start_ns <= ts_ns and (end_ns is None or ts_ns <= end_ns)
