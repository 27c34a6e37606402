"""A run as Chrome's trace events, plain values in the format's own names. Times are microseconds there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from omn_core.format.events import iter_rows
from omn_core.format.sentences import render_asked
from omn_core.format.stacks import EMIT, Node, StackSeries, compute_tree, iter_stack_series, render_series
from omn_core.model.request import parse_emit
from omn_core.model.result import Document, Result, SeriesResult
from omn_core.model.stacks import Frame
from omn_core.names import escape_bytes, escape_tree

Event = dict[str, Any]

NANOSECONDS = 1000
"""How many of them a microsecond has."""


class StackFrames:
    """The file's `stackFrames`: each frame below its caller, once, by an id that is a number's text."""

    def __init__(self) -> None:
        self.rows: dict[str, Event] = {}
        self._ids: dict[tuple[str | None, str], str] = {}

    def add(self, labels: Sequence[str]) -> str | None:
        """Return the id of the innermost frame of a stack, innermost label first; None for an empty one."""
        parent: str | None = None
        for label in reversed(labels):
            known = self._ids.get((parent, label))
            if known is None:
                known = self._ids[(parent, label)] = str(len(self.rows))
                row = {"name": label, "category": "stack"}
                self.rows[known] = row if parent is None else {**row, "parent": parent}
            parent = known
        return parent


def iter_trace_events(document: Document, frames: StackFrames) -> Iterator[Event]:
    """Iterate over the events of every result; the stacks of raw events are added to `frames`.

    Process and thread ids are places in the document, counted from 1: of the request, of the series in it.
    """
    stacks: dict[int, list[StackSeries]] = {}
    for series in iter_stack_series(document):
        stacks.setdefault(series.place, []).append(series)
    for place, result in enumerate(document.results):
        tracks = _Tracks(place + 1)
        yield tracks.describe("process_name", 0, escape_bytes(render_asked(result)))
        for one in result.series:
            yield from _iter_answers(result, one, tracks)
        for series in stacks.get(place, ()):
            yield from _iter_stacks(series, tracks)
        yield from _iter_raw(result, tracks, frames)


@attrs.define
class _Tracks:
    """The threads of one process of the trace, each by what it is about."""

    pid: int
    known: dict[str, int] = attrs.field(factory=dict)

    def find(self, name: str) -> tuple[int, list[Event]]:
        """Return a thread's id, and the event that names it where it is new."""
        known = self.known.get(name)
        if known is not None:
            return known, []
        tid = self.known[name] = len(self.known) + 1
        return tid, [self.describe("thread_name", tid, name)]

    def describe(self, what: str, tid: int, name: str) -> Event:
        """Return the metadata event that names a process or a thread."""
        return {"ph": "M", "name": what, "pid": self.pid, "tid": tid, "args": {"name": name}}


def _iter_answers(result: Result, series: SeriesResult, tracks: _Tracks) -> Iterator[Event]:
    source = result.resolved.entry.id
    label = render_series(series.key, series.labels)
    for emit, answer in series.emits.items():
        name = parse_emit(emit).name
        if name in (EMIT, "raw"):
            continue
        tid, named = tracks.find(label or source)
        yield from named
        where = {"pid": tracks.pid, "tid": tid}
        if name == "timeline":
            counter = " ".join(filter(None, (source, label)))
            for when, value in answer["points"]:
                if value is not None:
                    head = {"ph": "C", "name": counter, "ts": when / NANOSECONDS}
                    yield {**head, **where, "args": {escape_bytes(result.resolved.unit): escape_tree(value)}}
        else:
            instant = {"ph": "i", "s": "t", "name": emit, "cat": source, "ts": result.window.closed_ns / NANOSECONDS}
            yield {**instant, **where, "args": escape_tree(answer)}


def _iter_raw(result: Result, tracks: _Tracks, frames: StackFrames) -> Iterator[Event]:
    for rows in iter_rows(result):
        for row in rows:
            tid, named = tracks.find(render_series(row["key"], {}) or f"{row['source']} events")
            yield from named
            event = {
                "ph": "i",
                "s": "t",
                "name": row["source"],
                "cat": row["backend"],
                "ts": row["ts_ns"] / NANOSECONDS,
            }
            args = {name: row[name] for name in ("key", "attrs", "weight", "ts_err_ns") if name in row}
            event |= {"ts": row["ts_ns"] / NANOSECONDS, "pid": tracks.pid, "tid": tid, "args": args}
            innermost = frames.add(row.get("stack", ()))
            if innermost is not None:
                event["sf"] = innermost
            yield event


def _iter_stacks(series: StackSeries, tracks: _Tracks) -> Iterator[Event]:
    """Draw a series' tree from the window's opening, the heaviest first: a beginning and an end for each frame."""
    unit = series.unit
    heading = " ".join(filter(None, ("stacks by weight, not by time", f"({unit})", series.label)))
    tid, named = tracks.find(heading)
    yield from named
    # A time keeps its length; of any other unit one is drawn as a microsecond.
    scale = 1 if unit == "ns" else NANOSECONDS
    opened = series.result.window.opened_ns
    tree = compute_tree(series.stacks, Frame(series.source))
    waiting: list[tuple[Node, float, bool]] = [(tree, 0, True)]
    while waiting:
        node, start, is_beginning = waiting.pop()
        at = start if is_beginning else start + node.weight
        # Without arguments: speedscope makes them a part of the name, and then no two slices are of one function.
        head = {"ph": "B" if is_beginning else "E", "name": node.frame.label, "cat": node.frame.object or series.source}
        yield {**head, "ts": (opened + at * scale) / NANOSECONDS, "pid": tracks.pid, "tid": tid}
        if not is_beginning:
            continue
        waiting.append((node, start, False))
        end = start + sum(child.weight for child in node.children.values())
        for child in sorted(node.children.values(), key=lambda one: one.weight):
            end -= child.weight
            waiting.append((child, end, True))
