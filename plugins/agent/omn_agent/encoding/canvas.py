"""What one capture is drawn on: its tracks, declared when first drawn on, and the ways to draw on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from omn_export.perfetto.identity import compute_uuid
from omn_export.perfetto.sequence import Sequence
from omn_export.perfetto.tracks import Counter, CounterUnit, Group, Merge, Process, Thread

from omn_agent.content import BOUNDS
from omn_agent.harness import Area, Harness, get_category
from omn_agent.recording import Capture

ROOT = "agentprof.capture"
_DESCRIPTIONS = {"Requests": "Intervals end at the response headers: streaming the response is not in them."}


@attrs.define
class Canvas:
    """A capture's place in the sequence. `has_thread` says that its main thread's track is its own to draw on."""

    sequence: Sequence
    harness: Harness
    capture: Capture
    index: int
    has_thread: bool
    _declared: set[int] = attrs.field(factory=set)

    def get_root(self) -> int:
        """Return the track that everything asynchronous of the capture stands below; no sibling merges with it."""
        process = self.capture.process
        parent = None
        if process is not None:
            parent = compute_uuid("process", process.pid, process.start_ns)
            self._declare(Process(parent, process.pid, self.harness.value, process.labels, process.start_ns))
        uuid = compute_uuid(ROOT, self.capture.capture_id)
        return self._declare(Group(uuid, ROOT, parent, Merge.NONE))

    def get_main(self) -> int:
        """Return the main thread's track, the same for every capture of its life; or the capture's Session track."""
        process = self.capture.process
        if process is None or process.tid is None or not self.has_thread:
            return self.get_lane("Session")
        uuid = compute_uuid("thread", process.pid, process.start_ns, process.tid)
        return self._declare(Thread(uuid, process.pid, process.tid, self.harness.value))

    def get_lane(self, name: str, lane: int = 0) -> int:
        """Return one of the tracks of a name below the root; they are drawn as one."""
        uuid = compute_uuid(ROOT, self.capture.capture_id, name, lane)
        return self._declare(Group(uuid, name, self.get_root(), Merge.BY_NAME, description=_DESCRIPTIONS.get(name)))

    def get_counter(
        self,
        name: str,
        group: str | None = None,
        unit: CounterUnit | None = None,
        unit_name: str | None = None,
        share_key: str | None = None,
    ) -> int:
        """Return a counter's track, below the root or one of its groups."""
        parent = self.get_root() if group is None else self.get_lane(group)
        uuid = compute_uuid(ROOT, self.capture.capture_id, "counter", group, name)
        return self._declare(Counter(uuid, name, parent, unit, unit_name, share_key))

    def add_span(
        self,
        track: int,
        name: str,
        area: Area,
        start_ns: int,
        end_ns: int | None,
        begin: Mapping[str, Any],
        end: Mapping[str, Any] | None = None,
        *,
        flows: Iterable[int] = (),
    ) -> None:
        """Draw a span. One that nobody saw finish ends with its capture, incomplete, or never where that has no end."""
        self.sequence.begin(
            track,
            start_ns,
            name,
            categories=[get_category(self.harness, area)],
            annotations=begin,
            flows=flows,
            bounds=BOUNDS,
        )
        if end_ns is not None:
            self.sequence.end(track, max(end_ns, start_ns), annotations=end)
        elif self.capture.end_ns is not None:
            closing = {**(end or {}), "incomplete": True}
            self.sequence.end(track, max(self.capture.end_ns, start_ns), annotations=closing)

    def add_instant(
        self,
        track: int,
        name: str,
        area: Area,
        ts_ns: int,
        annotations: Mapping[str, Any],
        flows: Iterable[int] = (),
    ) -> None:
        """Draw what happened at one moment."""
        self.sequence.instant(
            track,
            ts_ns,
            name,
            categories=[get_category(self.harness, area)],
            annotations=annotations,
            flows=flows,
            bounds=BOUNDS,
        )

    def _declare(self, track: Process | Thread | Group | Counter) -> int:
        if track.uuid not in self._declared:
            self._declared.add(track.uuid)
            self.sequence.declare(track)
        return track.uuid
