"""One clock for everything that is shown: the wall clock, by the snapshots that a file holds."""

from __future__ import annotations

import bisect
from typing import Any

import attrs
from omn_export.perfetto.tracks import Clock


@attrs.define
class ClockTable:
    """The snapshots of one file, by machine and clock: what a clock said, and what the wall clock said then."""

    _points: dict[tuple[int, int], list[tuple[int, int]]] = attrs.field(factory=dict)

    def add(self, machine: int, snapshot: Any) -> None:
        """Take in a ClockSnapshot."""
        said = {clock.clock_id: clock.timestamp for clock in snapshot.clocks}
        wall = said.get(Clock.REALTIME)
        if wall is not None:
            for clock, value in said.items():
                self._points.setdefault((machine, clock), []).append((value, wall))

    def find_wall(self, machine: int, clock: int, ts_ns: int) -> int | None:
        """Return a time on the wall clock, None where no snapshot relates its clock to it."""
        if clock == Clock.REALTIME:
            return ts_ns
        points = self._points.get((machine, clock))
        if not points:
            return None
        points.sort()
        place = max(bisect.bisect_right(points, (ts_ns, 1 << 63)) - 1, 0)
        value, wall = points[place]
        return ts_ns - value + wall
