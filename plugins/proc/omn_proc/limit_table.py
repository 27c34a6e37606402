"""A process's resource limits (/proc/<pid>/limits, see proc(5) and getrlimit(2)), and how much of each is in use."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from omn_kernel.procfs.task import TICK_NS, find_status_field, parse_stat

OPEN_FILES = "open files"

_NAME, _SOFT, _HARD = 26, 47, 68
"""The columns at which the kernel ends the name, the soft and the hard limit of each line."""

_IN_STATUS = {
    "address space": "VmSize",
    "data size": "VmData",
    "stack size": "VmStk",
    "locked memory": "VmLck",
    "resident set": "VmRSS",
}
"""The resources whose use is a line of /proc/<pid>/status, kB there, and the line's name."""


@attrs.frozen
class Limit:
    """A soft and a hard limit, None where there is none, in the unit that the kernel names."""

    soft: int | None
    hard: int | None
    unit: str | None


def parse_limits(content: bytes) -> dict[str, Limit]:
    """Parse the limits by the kernel's names without their `Max` (`open files`, `cpu time`)."""
    limits: dict[str, Limit] = {}
    for line in content.decode("ascii", "replace").split("\n")[1:]:
        name = line[:_NAME].strip().removeprefix("Max ")
        if name:
            unit = line[_HARD:].strip() or None
            limits[name] = Limit(_parse_bound(line[_NAME:_SOFT]), _parse_bound(line[_SOFT:_HARD]), unit)
    return limits


def _parse_bound(text: str) -> int | None:
    text = text.strip()
    return None if text == "unlimited" else int(text)


def parse_uses(status: bytes, stat: bytes) -> dict[str, int]:
    """Parse what a process uses of its limited resources, in the limits' units, as far as the kernel tells.

    Memory in bytes and pending signals (of its user) from status, whole seconds of cpu time from stat. What is not
    written, as memory is not of a kernel thread, is left out. How many processes a user has, how much is in message
    queues and how many locks are held the kernel tells nobody.
    """
    uses: dict[str, int] = {}
    for resource, name in _IN_STATUS.items():
        field = find_status_field(status, name)
        if field is not None:
            uses[resource] = int(field.removesuffix(" kB")) * 1024
    queued = find_status_field(status, "SigQ")
    if queued is not None:
        uses["pending signals"] = int(queued.partition("/")[0])
    task = parse_stat(stat)
    uses["cpu time"] = (task.user_ticks + task.system_ticks) * TICK_NS // 1_000_000_000
    return uses


def compute_used(limit: Limit, in_use: int | None) -> float | None:
    """Compute the share of a soft limit that is in use, None where there is no limit, one of 0, or no known use."""
    return None if in_use is None or not limit.soft else in_use / limit.soft


def find_nearest(limits: Mapping[str, Limit], uses: Mapping[str, int]) -> str | None:
    """Find the resource of whose soft limit the greatest share is in use, None where none is known."""
    known = {name: compute_used(limit, uses.get(name)) for name, limit in limits.items()}
    shares = {name: used for name, used in known.items() if used is not None}
    return max(shares, key=shares.__getitem__) if shares else None
