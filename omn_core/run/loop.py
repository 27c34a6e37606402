"""The window: waiting, reading what is due, opening and ending requests, until the run is over."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from omn_core.model.batch import Batch
from omn_core.model.collector import BoundTarget
from omn_core.model.target import Target
from omn_core.model.watched import Window
from omn_core.run.announce import Announcer
from omn_core.run.events import Moment
from omn_core.run.measurement import Measurement
from omn_core.run.tree import Tree
from omn_core.run.watch import Watch

if TYPE_CHECKING:
    from omn_core.run.budget import Budget

TARGET_ENDED_BEFORE = "its target ended before its window opened"
_AT_ONCE = 0
_REAP_INTERVAL_NS = 1_000_000_000


@attrs.define(eq=False, repr=False)
class Loop:
    """One window over every request of a run. `tree` is the launched program's; where there is one it is the window.

    `budget` is held at its checks, None where nobody asked for one.
    """

    measurements: list[Measurement]
    bound: dict[Target, BoundTarget]
    watch: Watch
    announcer: Announcer
    tree: Tree | None
    duration_ns: int | None
    budget: Budget | None = None
    opened_ns: int = 0
    _reaped_ns: int = 0

    def open(self) -> None:
        """Open the window of every request that has none of its own, all at one instant."""
        self.opened_ns = self._reaped_ns = time.monotonic_ns()
        for measurement in self.measurements:
            if measurement.bound is not None:
                measurement.open(self.opened_ns)
        if self.budget is not None:
            self.budget.open(self.opened_ns)

    def read_at_open(self) -> None:
        """Read gauges, and snapshots that end with their reading, as the window opens."""
        self._read_at_open([measurement for measurement in self.measurements if measurement.is_open])

    def watch_over(self) -> str:
        """Wait and read until the run is over. Returns what ended it.

        That is a signal's name, `program`, `target` (every process that was attached to has ended), `duration`,
        `served` (no request is left that waits for anything), or `budget` where that stopped the last of them.
        """
        while True:
            self.watch.wait(min(self._instants(), default=None))
            self._open_late()
            over = self.watch.find_end() or self._find_end()
            if over is not None:
                return over
            self._retire()
            self._read_due()
            if self.budget is not None:
                self._tell(self.budget.hold(time.monotonic_ns()))
            self._reap()

    def close(self) -> Window:
        """Make the closing reads, close every window at one instant, then stop every collector."""
        remaining = [measurement for measurement in self.measurements if measurement.is_open]
        self._tell([(measurement.index, measurement.read_at_close()) for measurement in remaining])
        window = Window(self.opened_ns, time.monotonic_ns())
        for measurement in remaining:
            measurement.close(window.closed_ns)
        return window

    def _instants(self) -> Iterator[int]:
        """Iterate over the instants at which something is to be done; a past one makes the wait return at once."""
        if self.duration_ns is not None:
            yield self.opened_ns + self.duration_ns
        if self.tree is None and not self._is_awaited():
            yield _AT_ONCE
        if self.tree is not None and self.tree.adopts:
            yield self._reaped_ns + _REAP_INTERVAL_NS
        if self.budget is not None and self._is_awaited():
            yield self.budget.due_ns
        for measurement in self.measurements:
            asked = measurement.asked_window
            if measurement.is_waiting and asked.start_ns:
                yield self.opened_ns + asked.start_ns
            if not measurement.is_open:
                continue
            if measurement.grid is not None and measurement.gone_ns is None:
                yield measurement.grid.due_ns
            if asked.stop_ns is not None:
                yield self.opened_ns + asked.stop_ns
            if self._is_gone(measurement):
                yield _AT_ONCE

    def _is_awaited(self) -> bool:
        return any(measurement.is_awaited for measurement in self.measurements)

    def _find_end(self) -> str | None:
        if self.duration_ns is not None and time.monotonic_ns() >= self.opened_ns + self.duration_ns:
            return "duration"
        if self.tree is not None or self._is_awaited():
            return None
        return "served" if self.budget is None or not self.budget.stops else "budget"

    def _is_gone(self, measurement: Measurement) -> bool:
        """Tell whether a request has ended by itself, inside a run that goes on.

        Where a collector says its target is gone and the run holds that target's processes, their end is awaited: it
        ends the run too when there is nothing else, and all windows close together then.
        """
        bound = measurement.bound
        if measurement.failure is not None or bound is None:
            return measurement.failure is not None
        if self.watch.has_ended(bound):
            return True
        is_held = bound.tid is None and (bound.launched or bound.target.kind == "pid")
        return measurement.gone_ns is not None and not is_held

    def _open_late(self) -> None:
        now_ns = time.monotonic_ns()
        for measurement in self.measurements:
            start_ns = measurement.asked_window.start_ns
            if measurement.is_waiting and start_ns and self.opened_ns + start_ns <= now_ns:
                bound = self.bound[measurement.resolved.asked_target]
                if self.watch.has_ended(bound):
                    measurement.give_up(TARGET_ENDED_BEFORE, time.monotonic_ns())
                    continue
                measurement.attach_late(bound)
                if measurement.failure is None:
                    measurement.open(time.monotonic_ns())
                    self._read_at_open([measurement])

    def _retire(self) -> None:
        """End the requests whose own window is over, whose target has ended, or whose collector failed."""
        for measurement in self.measurements:
            if not measurement.is_open:
                continue
            stop_ns = measurement.asked_window.stop_ns
            has_stopped = stop_ns is not None and self.opened_ns + stop_ns <= time.monotonic_ns()
            if not has_stopped and not self._is_gone(measurement):
                continue
            self._tell([(measurement.index, measurement.read_at_close())])
            if measurement.stopped_because is None:
                measurement.stopped_because = "its window ended" if has_stopped else "its target ended"
            measurement.close(time.monotonic_ns() if measurement.gone_ns is None else measurement.gone_ns)
            measurement.stop()

    def _reap(self) -> None:
        now_ns = time.monotonic_ns()
        if self.tree is not None and self.tree.adopts and now_ns >= self._reaped_ns + _REAP_INTERVAL_NS:
            self.tree.reap_orphans(min((each.read_ns for each in self._list_read()), default=now_ns))
            self._reaped_ns = now_ns

    def _list_read(self) -> list[Measurement]:
        """List the requests that are read at ticks, each of which may want another reading of what ended."""
        return [each for each in self.measurements if each.is_open and each.grid is not None and each.gone_ns is None]

    def _read_at_open(self, measurements: list[Measurement]) -> None:
        """Read what is read there: a snapshot, where no end is set at which it would be taken.

        A window of its own that starts is where its snapshot is asked for, however long the run may be.
        """

        def read(each: Measurement) -> Batch | None:
            asked = each.asked_window
            is_ending = asked.stop_ns is not None or (asked.start_ns is None and self.duration_ns is not None)
            return each.read_at_open(is_snapshot_due=not is_ending)

        self._tell([(each.index, read(each)) for each in measurements])

    def _read_due(self) -> None:
        now_ns = time.monotonic_ns()
        due = [(each, each.grid) for each in self._list_read() if each.grid is not None]
        due = [(measurement, grid) for measurement, grid in due if grid.take(now_ns)]
        read = [(measurement.index, measurement.read()) for measurement, _ in due]
        ended_ns = time.monotonic_ns()
        for _, grid in due:
            grid.settle(ended_ns)
        self._tell(read)

    def _tell(self, read: Sequence[tuple[int, Batch | None]]) -> None:
        batches = [(index, batch) for index, batch in read if batch is not None]
        if batches:
            self.announcer.tell(Moment.TICK, batches, sum(measurement.lost for measurement in self.measurements))
