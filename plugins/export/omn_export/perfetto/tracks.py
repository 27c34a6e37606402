"""What a trace is drawn on: processes, threads, groups and counters, and the clocks that time it."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import attrs


class Clock(enum.IntEnum):
    """Perfetto's builtin clocks, by their ids."""

    REALTIME = 1
    MONOTONIC = 3
    BOOTTIME = 6


class Merge(enum.IntEnum):
    """Which siblings are drawn as one track: `TrackDescriptor.SiblingMergeBehavior`.

    Merging needs the same parent, the same behaviour and the same name or key, and takes the subtree along.
    """

    BY_NAME = 1
    NONE = 2
    BY_KEY = 3


class Ordering(enum.IntEnum):
    """How a group's children are ordered: `TrackDescriptor.ChildTracksOrdering`."""

    LEXICOGRAPHIC = 1
    CHRONOLOGICAL = 2
    EXPLICIT = 3


class CounterUnit(enum.IntEnum):
    """Units that Perfetto scales: `CounterDescriptor.Unit`. A unit of another name leaves this out."""

    TIME_NS = 1
    COUNT = 2
    SIZE_BYTES = 3


@attrs.frozen
class Process:
    """A process of the system. One uuid for each pid: a second reads as the pid's reuse."""

    uuid: int
    pid: int
    name: str
    labels: tuple[str, ...] = ()
    start_ns: int | None = None


@attrs.frozen
class Thread:
    """A thread of the system. One uuid for each tid."""

    uuid: int
    pid: int
    tid: int
    name: str


@attrs.frozen
class Group:
    """A track that holds events, other tracks or both. `parent` is a uuid; a child of a process stands beside it."""

    uuid: int
    name: str
    parent: int | None = None
    merge: Merge | None = None
    merge_key: str | None = None
    ordering: Ordering | None = None
    rank: int | None = None
    description: str | None = None


@attrs.frozen
class Counter:
    """A track of absolute values. Counters with one `share_key` and one parent share their y axis."""

    uuid: int
    name: str
    parent: int | None = None
    unit: CounterUnit | None = None
    unit_name: str | None = None
    share_key: str | None = None
    rank: int | None = None
    description: str | None = None


Track = Process | Thread | Group | Counter


@attrs.frozen
class ClockSnapshot:
    """What several clocks said at one moment, in nanoseconds."""

    clocks: Mapping[Clock, int]
