"""io.bytes, io.iops, io.merges: what block devices moved, from the counters of /proc/diskstats."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

import attrs
from omn_kernel.polling import Rows
from omn_kernel.procfs.disks import SECTOR_BYTES

from omn_core.api import BoundTarget
from omn_io.devices import DeviceCounterCollector, Moved


@attrs.frozen
class Direction:
    """One way of requests: its key, the kernel's counter of it, and what it is called in the undivided row."""

    way: str
    counter: str
    part: str


@attrs.frozen
class Account:
    """What a source is made of: its value, the directions that the kernel counts, and how much one count is.

    Reads and writes come first: the undivided value holds those two, as the kernel's own totals do, and discards and
    flushes stand beside it.
    """

    value: str
    directions: tuple[Direction, ...]
    scale: int = 1

    def make_rows(self, moved: Sequence[Moved], *, by_direction: bool) -> Rows:
        """Make a row for each device, or for each direction of each; what this kernel does not count is absent."""
        if by_direction:
            return self._make_directed_rows(moved)
        amounts = {one.part: [self._find_amount(row, one) for row in moved] for one in self.directions}
        read, write, *_ = amounts.values()
        whole = [(reads or 0) + (writes or 0) for reads, writes in zip(read, write, strict=True)]
        known = {part: column for part, column in amounts.items() if any(amount is not None for amount in column)}
        return Rows({"dev": [row.name for row in moved]}, {self.value: whole, **known})

    def _make_directed_rows(self, moved: Sequence[Moved]) -> Rows:
        rows = [(row.name, one.way, self._find_amount(row, one)) for row in moved for one in self.directions]
        names, ways, amounts = zip(*(row for row in rows if row[2] is not None), strict=True)
        return Rows({"dev": names, "dir": ways}, {self.value: amounts})

    def _find_amount(self, moved: Moved, direction: Direction) -> int | None:
        count = moved.growth.by.get(direction.counter)
        return None if count is None else count * self.scale


class Transfers(DeviceCounterCollector, ABC):
    """A row for each device in each interval, or for each direction of each device where `dir` is asked for."""

    account: Account

    def open_files(self, target: BoundTarget) -> None:
        """Open the file."""
        super().open_files(target)
        self._by_direction = self.resolved.is_divided_by("dir")

    def make_moved_rows(self, moved: list[Moved]) -> Rows:
        """Return the rows."""
        return self.account.make_rows(moved, by_direction=self._by_direction)


class Bytes(Transfers):
    """io.bytes: sectors of 512 bytes, of requests that completed."""

    account = Account(
        "bytes",
        (
            Direction("read", "read_sectors", "read_bytes"),
            Direction("write", "write_sectors", "write_bytes"),
            Direction("discard", "discard_sectors", "discard_bytes"),
        ),
        SECTOR_BYTES,
    )


class Requests(Transfers):
    """io.iops: requests that completed."""

    account = Account(
        "requests",
        (
            Direction("read", "reads", "reads"),
            Direction("write", "writes", "writes"),
            Direction("discard", "discards", "discards"),
            Direction("flush", "flushes", "flushes"),
        ),
    )


class Merges(Transfers):
    """io.merges: requests that were joined to one that waited already, and so were never sent by themselves."""

    account = Account(
        "merges",
        (
            Direction("read", "read_merges", "read_merges"),
            Direction("write", "write_merges", "write_merges"),
            Direction("discard", "discard_merges", "discard_merges"),
        ),
    )
