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


def compute_share(waited_ns: int, length_ns: int) -> float:
    """Compute the share of an interval that was waited, at most one.

    The kernel adds a wait up when it ends or when somebody looks, so that a reading may hold a little of the time
    before its interval.
    """
    return min(waited_ns / length_ns, 1.0)
