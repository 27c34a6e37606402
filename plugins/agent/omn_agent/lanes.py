"""Lanes: tracks beside one another, so that intervals that overlap never stand on one track."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

MOST_LANES = 64


class Interval(Protocol):
    """What has a start and perhaps an end."""

    @property
    def start_ns(self) -> int | None:
        """When it began."""

    @property
    def end_ns(self) -> int | None:
        """When it ended; None takes its lane for good."""


Item = TypeVar("Item", bound=Interval)


def assign_lanes(intervals: Iterable[Item], most: int = MOST_LANES) -> tuple[Sequence[tuple[int, Item]], int]:
    """Return (lane, interval) in the order of their starts, and how many found every lane taken.

    The lowest free lane is taken at an interval's start and is free again at its end. What has no start takes no time
    and stands on lane 0.
    """
    ordered = sorted(intervals, key=_get_start)
    free: list[int] = []
    used = 0
    running: list[tuple[float, int]] = []
    placed: list[tuple[int, Item]] = []
    overflows = 0
    for interval in ordered:
        if interval.start_ns is None:
            placed.append((0, interval))
            continue
        while running and running[0][0] <= interval.start_ns:
            heapq.heappush(free, heapq.heappop(running)[1])
        if not free and used == most:
            overflows += 1
            continue
        if free:
            lane = heapq.heappop(free)
        else:
            lane, used = used, used + 1
        heapq.heappush(running, (float("inf") if interval.end_ns is None else interval.end_ns, lane))
        placed.append((lane, interval))
    return placed, overflows


def _get_start(interval: Interval) -> int:
    start = interval.start_ns if interval.start_ns is not None else interval.end_ns
    assert start is not None
    return start
