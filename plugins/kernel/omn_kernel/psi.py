"""Pressure stall information: /proc/pressure/* and the *.pressure files of cgroup2 (Documentation/accounting/psi)."""

from __future__ import annotations

import attrs


@attrs.frozen
class Pressure:
    """One line: shares of the last 10, 60 and 300 seconds in which tasks waited (0..1), and nanoseconds in all."""

    avg10: float
    avg60: float
    avg300: float
    total_ns: int


def parse_pressure(content: bytes) -> dict[str, Pressure]:
    """Parse the `some` and `full` lines. Kernels before 5.13 write no `full` line for the cpu: then it is absent."""
    lines: dict[str, Pressure] = {}
    for line in content.split(b"\n"):
        name, *fields = line.split(b" ")
        if fields:
            values = dict(field.split(b"=") for field in fields)
            lines[name.decode()] = Pressure(
                float(values[b"avg10"]) / 100,
                float(values[b"avg60"]) / 100,
                float(values[b"avg300"]) / 100,
                int(values[b"total"]) * 1000,
            )
    return lines


@attrs.frozen
class Stall:
    """Waiting between two readings: nanoseconds, and their share of the time between the readings."""

    stalled_ns: int
    ratio: float


def compute_stall(before: Pressure, after: Pressure, elapsed_ns: int) -> Stall:
    """Compute what was waited between two readings `elapsed_ns` apart. A total that steps back reads as nothing.

    The kernel adds up lazily, so that a reading may hold waiting from just before the interval: a share over one is
    cut to one.
    """
    stalled = max(after.total_ns - before.total_ns, 0)
    return Stall(stalled, min(stalled / elapsed_ns, 1.0) if elapsed_ns > 0 else 0.0)
