"""What /proc/diskstats says of each block device (Documentation/ABI/testing/procfs-diskstats). Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

SECTOR_BYTES = 512
"""Bytes of the sectors that the kernel counts, whatever a device's own are."""

COLUMNS = (
    "reads",
    "read_merges",
    "read_sectors",
    "read_ms",
    "writes",
    "write_merges",
    "write_sectors",
    "write_ms",
    "in_flight",
    "busy_ms",
    "request_ms",
    "discards",
    "discard_merges",
    "discard_sectors",
    "discard_ms",
    "flushes",
    "flush_ms",
)
"""What follows a device's name. Kernels before 4.18 end before `discards`, those before 5.5 before `flushes`."""

WRAPS = {name: 1 << 32 for name in COLUMNS if name.endswith("_ms")}
"""The columns that start over at 2^32 on every kernel: it writes milliseconds as an unsigned int."""

_FEWEST = COLUMNS.index("discards")


@attrs.frozen
class Disk:
    """One line: the device's name and `major:minor`, its counters by the names of `COLUMNS`, its requests in flight.

    A counter that this kernel does not write is not there.
    """

    name: str
    number: str
    counters: Mapping[str, int]
    in_flight: int

    @property
    def has_moved(self) -> bool:
        """Whether the device did anything since the kernel made it."""
        return self.in_flight > 0 or any(self.counters.values())


def parse_diskstats(content: bytes) -> dict[str, Disk]:
    """Parse /proc/diskstats: every whole device and partition, by its name, in the kernel's order.

    Columns past those that are known are passed over, and so are the short lines of partitions before 2.6.25.
    """
    disks: dict[str, Disk] = {}
    for line in content.split(b"\n"):
        fields = line.split()
        if len(fields) < 3 + _FEWEST:
            continue
        name = fields[2].decode("utf-8", "surrogateescape")
        counters, in_flight = _parse_counters(fields[3:])
        disks[name] = Disk(name, f"{int(fields[0])}:{int(fields[1])}", counters, in_flight)
    return disks


def parse_disk_stat(content: bytes) -> tuple[Mapping[str, int], int]:
    """Parse a device's `stat` of sysfs: what stands in its line of /proc/diskstats, and its requests in flight."""
    return _parse_counters(content.split())


def _parse_counters(fields: Sequence[bytes]) -> tuple[Mapping[str, int], int]:
    counters = dict(zip(COLUMNS, map(int, fields), strict=False))
    return counters, counters.pop("in_flight")


def parse_inflight(content: bytes) -> tuple[int, int]:
    """Parse a device's `inflight` of sysfs: reads, and everything else, that it has in flight."""
    reads, writes = content.split()
    return int(reads), int(writes)
