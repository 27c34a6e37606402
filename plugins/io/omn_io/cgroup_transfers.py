"""io.bytes and io.iops of a cgroup and everything below it, device by device, on either version."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from omn_kernel.block import BlockDevice, find_name, read_block_device
from omn_kernel.cgroup import UNIFIED
from omn_kernel.cgroup_files import CgroupCollector
from omn_kernel.cgroup_io import Counters, parse_blkio, parse_io_stat
from omn_kernel.counters import Accounts, Growth
from omn_kernel.polling import Rows

from omn_core.api import BoundTarget
from omn_io.devices import Moved
from omn_io.transfers import Account, Direction


class CgroupTransfers(CgroupCollector, ABC):
    """A row for each device that the file has a line of, or for each direction of each where `dir` is asked for.

    The kernel adds up what is below a cgroup. A device that gets its line in the window counts from zero. Devices that
    stand on others or on a file are left out where no figure is divided by device: what they do is done again below.
    """

    account: Account
    silence_is_zero: bool
    """Whether a device without a line did nothing; else nobody knows."""

    def open_files(self, target: BoundTarget) -> None:
        """Open the file. Raises MachineRefused where the cgroup has none."""
        super().open_files(target)
        self._is_divided = self.resolved.is_divided_by("dev")
        self._by_direction = self.resolved.is_divided_by("dir")
        self._accounts: Accounts[str] = Accounts(self.misses, self._name)
        self._devices: dict[str, BlockDevice | None] = {}
        self._read_ns: int | None = None
        self._has_lines = False
        self._facts: dict[str, None] = {}

    @abstractmethod
    def parse(self, content: bytes) -> Counters:
        """Return the counters that the file holds of each device."""

    def make_rows(self, content: Mapping[str, bytes], at_ns: int) -> Rows:
        """Return what the cgroup moved since the last reading."""
        lines = self.parse(content[self.files[0]])
        self._has_lines = self._has_lines or bool(lines)
        since_ns, self._read_ns = self._read_ns, at_ns
        if since_ns is not None:
            for number in [number for number in lines if number not in self._accounts]:
                self._accounts.advance_one(number, dict.fromkeys(lines[number], 0), since_ns)
        moved = [
            Moved(self._name(number), growth)
            for number, growth in self._accounts.advance(lines, at_ns).items()
            if self._is_wanted(number, growth)
        ]
        if moved:
            return self.account.make_rows(moved, by_direction=self._by_direction)
        if since_ns is None:
            return Rows()
        if lines or self.silence_is_zero:
            is_divided = self._is_divided or self._by_direction
            return Rows() if is_divided else Rows.of_one({self.account.value: 0}, self.keys)
        # No row at all would be a measured nothing: this one says that it was read, and that there is no figure.
        return Rows() if {"dev", "dir"} & {*self.resolved.keys} else Rows(self.keys, {self.account.value: [None]})

    def _find(self, number: str) -> BlockDevice | None:
        """Find what sysfs says of a device, once; None for one that is not there."""
        if number not in self._devices:
            name = find_name(self.context.sysroot, number)
            try:
                self._devices[number] = None if name is None else read_block_device(self.context.sysroot, name)
            except OSError:
                self._devices[number] = None
        return self._devices[number]

    def _name(self, number: str) -> str:
        device = self._find(number)
        return number if device is None else device.name

    def _is_wanted(self, number: str, growth: Growth) -> bool:
        device = self._find(number)
        if device is None or not device.stands_on:
            return True
        if any(growth.by.values()):
            below = " and ".join(device.stands_on)
            if self._is_divided:
                self._facts[f"{device.name} stands on {below}: what it moved may be in the figures of both"] = None
            else:
                self._facts[f"{device.name} is left out of the figure: it stands on {below}"] = None
        return self._is_divided

    def facts(self) -> tuple[str, ...]:
        """Say what was left out, and that an account without any device tells nothing."""
        if self._has_lines or self.silence_is_zero:
            return tuple(self._facts)
        return (*self._facts, f"{self.files[0]} has no device in it: nothing is known, which is no zero")


class UnifiedTransfers(CgroupTransfers, ABC):
    """io.stat of cgroup2."""

    hierarchy = UNIFIED
    files = ("io.stat",)
    without = "the io controller is not on for it"
    silence_is_zero = True

    def parse(self, content: bytes) -> Counters:
        """Return the counters."""
        return parse_io_stat(content)


class LegacyTransfers(CgroupTransfers, ABC):
    """A blkio.throttle file of version 1, with what is below (Linux 4.19)."""

    hierarchy = "blkio"
    silence_is_zero = False

    def parse(self, content: bytes) -> Counters:
        """Return the counters."""
        return parse_blkio(content)


class UnifiedBytes(UnifiedTransfers):
    """io.bytes from cgroup2."""

    account = Account(
        "bytes",
        (
            Direction("read", "rbytes", "read_bytes"),
            Direction("write", "wbytes", "write_bytes"),
            Direction("discard", "dbytes", "discard_bytes"),
        ),
    )


class UnifiedRequests(UnifiedTransfers):
    """io.iops from cgroup2."""

    account = Account(
        "requests",
        (
            Direction("read", "rios", "reads"),
            Direction("write", "wios", "writes"),
            Direction("discard", "dios", "discards"),
        ),
    )


class LegacyBytes(LegacyTransfers):
    """io.bytes from version 1."""

    files = ("blkio.throttle.io_service_bytes_recursive",)
    account = Account(
        "bytes",
        (
            Direction("read", "Read", "read_bytes"),
            Direction("write", "Write", "write_bytes"),
            Direction("discard", "Discard", "discard_bytes"),
        ),
    )


class LegacyRequests(LegacyTransfers):
    """io.iops from version 1."""

    files = ("blkio.throttle.io_serviced_recursive",)
    account = Account(
        "requests",
        (
            Direction("read", "Read", "reads"),
            Direction("write", "Write", "writes"),
            Direction("discard", "Discard", "discards"),
        ),
    )
