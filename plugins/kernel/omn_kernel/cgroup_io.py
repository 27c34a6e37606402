"""What a cgroup's files say of block devices: io.stat of version 2, blkio.throttle of version 1. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

Counters = Mapping[str, Mapping[str, int]]
"""Counters by their names, of each device by its `major:minor`."""


def parse_io_stat(content: bytes) -> Counters:
    """Parse io.stat (Documentation/admin-guide/cgroup-v2.rst): rbytes, wbytes, rios, wios, dbytes, dios and others.

    A device has a line from the first request that the cgroup gave it. What is no whole number (the cost model's
    words) is left out.
    """
    found: dict[str, dict[str, int]] = {}
    for line in content.decode("ascii", "replace").splitlines():
        number, _, rest = line.partition(" ")
        pairs = (word.partition("=") for word in rest.split())
        counters = {name: int(value) for name, _, value in pairs if value.isdigit()}
        if counters:
            found[number] = counters
    return found


def parse_blkio(content: bytes) -> Counters:
    """Parse a blkio.throttle file of counts: `Read`, `Write`, `Discard`, `Sync`, `Async` and `Total` of each device.

    The last line is the total of all. From Linux 6.10 a device has lines once a limit was set on it, in any cgroup,
    and counts from there; before, from the first request that the cgroup gave it.
    """
    found: dict[str, dict[str, int]] = {}
    for line in content.decode("ascii", "replace").splitlines():
        words = line.split()
        if len(words) == 3:
            found.setdefault(words[0], {})[words[1]] = int(words[2])
    return found
