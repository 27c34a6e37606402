"""What a cgroup's files say: memory it is charged, and how often it was held back on the cpu."""

from __future__ import annotations

import attrs

UNLIMITED = 1 << 60
"""From here a v1 limit is none: the kernel writes the largest number of pages it counts in, whose size differs."""


@attrs.frozen
class Throttling:
    """Enforcement periods of a cpu limit since the cgroup was made, those in which it ran out, nanoseconds held back.

    All are absent (None) where the file lacks them: cgroup2 writes them only where the cpu controller is on.
    """

    periods: int | None
    throttled: int | None
    throttled_ns: int | None


def compute_throttling(cpu_stat: dict[bytes, int]) -> Throttling:
    """Make the account of a cpu.stat file: v1 counts nanoseconds (`throttled_time`), v2 microseconds."""
    microseconds = cpu_stat.get(b"throttled_usec")
    nanoseconds = cpu_stat.get(b"throttled_time") if microseconds is None else microseconds * 1000
    return Throttling(cpu_stat.get(b"nr_periods"), cpu_stat.get(b"nr_throttled"), nanoseconds)


def parse_limit(content: bytes) -> int | None:
    """Parse memory.max or memory.limit_in_bytes, None where nothing limits the cgroup."""
    text = content.strip()
    if text == b"max":
        return None
    limit = int(text)
    return None if limit >= UNLIMITED else limit
