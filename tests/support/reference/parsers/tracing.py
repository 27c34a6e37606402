"""What traces: bpftrace's maps, strace's calls."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from reference.parsing import Figures, ToolLossError, UnreadableError, parse_number

_MIDDLE = 0.5


def parse_bpftrace(text: str) -> Figures:
    """Read what `bpftrace -f json` prints at its end: each map by its name.

    A histogram is the lower bound of the bucket that its median lies in, as `NAME.median`, and `NAME.count`; a map with
    keys each of them as `NAME.KEY`. Raises ToolLossError where it says that it lost events.
    """
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith("{"):
            continue  # its own words
        said = json.loads(line)
        if said["type"] == "lost_events":
            raise ToolLossError(f"bpftrace lost {said['data']['events']} events")
        if said["type"] in ("map", "hist"):
            for name, value in said["data"].items():
                found |= _read_map(name.removeprefix("@"), value)
    if not found:
        raise UnreadableError("no map of bpftrace")
    return found


def _read_map(name: str, value: Any) -> dict[str, float]:
    if isinstance(value, list):
        return read_histogram(name, [(one.get("min", 0), one["count"]) for one in value])
    if isinstance(value, dict):
        return {f"{name}.{key}": one for key, one in value.items()}
    return {name: value}


def read_histogram(name: str, buckets: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Return how many a histogram holds and the lower bound of its median's bucket, from lower bounds and counts."""
    count = sum(counted for _, counted in buckets)
    reached = 0.0
    for low, counted in sorted(buckets):
        reached += counted
        if reached >= count * _MIDDLE:
            return {f"{name}.count": count, f"{name}.median": low}
    return {f"{name}.count": 0}


def parse_strace(text: str) -> Figures:
    """Read `strace -f -o FILE`: how often each call was made, as `NAME.calls`."""
    calls = Counter(re.findall(r"^\d+ +(\w+)\(", text, re.M))
    if not calls:
        raise UnreadableError("no call of strace")
    return {f"{name}.calls": count for name, count in calls.items()}


def parse_strace_summary(text: str) -> Figures:
    """Read `strace -c`: how often each call was made, as `NAME.calls`."""
    rows = [line.split() for line in text.splitlines()]
    counted = {row[-1]: row[3] for row in rows if len(row) in (5, 6) and row[3].isdigit() and row[-1] != "total"}
    if not counted:
        raise UnreadableError("no call of strace -c")
    return {f"{name}.calls": parse_number(count) for name, count in counted.items()}
