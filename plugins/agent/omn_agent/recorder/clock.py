"""The clocks of a recording: what they said every few seconds, and times carried from one to another."""

from __future__ import annotations

import bisect
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
from omn_export.perfetto.tracks import Clock, ClockSnapshot

_TRIES = 5
_REALTIME_COARSE = 5
"""CLOCK_REALTIME_COARSE of <linux/time.h>, which Python has no name for."""


@attrs.frozen
class Reading:
    """What three clocks said within `uncertainty_ns` of one another."""

    monotonic_ns: int
    boottime_ns: int
    realtime_ns: int
    uncertainty_ns: int

    def make_snapshot(self) -> ClockSnapshot:
        """Return it as a trace has it."""
        return ClockSnapshot(
            {
                Clock.MONOTONIC: self.monotonic_ns,
                Clock.BOOTTIME: self.boottime_ns,
                Clock.REALTIME: self.realtime_ns,
            }
        )


def read_clocks() -> Reading:
    """Read the clocks: of a few tries the one that took least, its middle standing for CLOCK_MONOTONIC."""
    return min((_read_once() for _ in range(_TRIES)), key=lambda reading: reading.uncertainty_ns)


def _read_once() -> Reading:
    before_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    boottime_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    realtime_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
    after_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return Reading((before_ns + after_ns) // 2, boottime_ns, realtime_ns, after_ns - before_ns)


def read_file_clock() -> int:
    """Read the clock that file systems stamp with, which steps some milliseconds at a time and so is behind the other.

    A file that is written from now on is never stamped earlier.
    """
    return time.clock_gettime_ns(_REALTIME_COARSE)


def find_boot() -> str | None:
    """Return the id of this boot, None where the kernel does not tell it: /proc/sys/kernel/random/boot_id."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() or None
    except OSError:
        return None


@attrs.frozen
class Timeline:
    """Readings of the clocks in their order, at least one."""

    readings: Sequence[Reading]

    def compute_monotonic(self, realtime_ns: int) -> int:
        """Return CLOCK_MONOTONIC at a wall-clock time, by the latest reading before it, else by the first."""
        place = bisect.bisect_right(self.readings, realtime_ns, key=lambda reading: reading.realtime_ns) - 1
        near = self.readings[max(place, 0)]
        return near.monotonic_ns + realtime_ns - near.realtime_ns

    def compute_from_boottime(self, boottime_ns: int) -> int:
        """Return CLOCK_MONOTONIC at a time since the boot, suspension included."""
        first = self.readings[0]
        return first.monotonic_ns + boottime_ns - first.boottime_ns

    @property
    def uncertainty_ns(self) -> int:
        """How far apart the clocks of one reading can have been read."""
        return max(reading.uncertainty_ns for reading in self.readings)
