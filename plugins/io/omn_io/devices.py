"""Which devices of /proc/diskstats a request is about, and what their counters grew by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TypeVar

import attrs
from omn_kernel.block import BlockDevice, has_block_device, list_block_devices, read_block_device
from omn_kernel.counters import Accounts, Growth, Misses
from omn_kernel.polling import PolledCollector, Rows
from omn_kernel.procfs.disks import WRAPS, Disk, parse_diskstats

from omn_core.api import BoundTarget, MachineRefused, ResolvedRequest, RunContext, TargetGone

Content = TypeVar("Content")


class Devices:
    """The devices of a target: the one that it names, or every whole device of the machine.

    Of the machine, partitions are left out, because their device's line holds what they did; so are the hidden paths
    of a multipath disk, and devices whose accounting is switched off. Where no figure is divided by device, those that
    stand on other devices (md, dm, loop) are left out too: what they do is done again by those below. Each choice that
    left out or counted twice something that moved is said in `facts`.
    """

    def __init__(self, target: BoundTarget, resolved: ResolvedRequest, context: RunContext, misses: Misses) -> None:
        self._sysroot = context.sysroot
        self._misses = misses
        self._named = target.place if isinstance(target.place, BlockDevice) else None
        self.is_divided = self._named is not None or resolved.is_divided_by("dev")
        self._known: dict[str, BlockDevice] = {}
        self._last: Mapping[str, Disk] = {}
        self._stacked: dict[str, Disk] = {}
        self._facts: dict[str, None] = {}
        self.came: frozenset[str] = frozenset()
        self._present = set(list_block_devices(self._sysroot))
        if self._named is not None and not self._named.is_counted:
            raise MachineRefused(*_refuse_accounts(self._named))

    def choose(self, lines: Mapping[str, Disk]) -> dict[str, Disk]:
        """Return the lines that a reading is about; `came` names those that were made since the one before.

        Raises TargetGone when the device that the target names is no more.
        """
        chosen = {name: disk for name, disk in lines.items() if self._is_wanted(disk)}
        for name in self._last.keys() - chosen.keys():
            self._note_missing(self._last[name])
        self.came = frozenset(chosen.keys() - self._present)
        for name in self.came:
            self._facts[f"{name} came in the window"] = None
        self._present |= chosen.keys()
        self._last = chosen
        if self._named is not None and not chosen and not has_block_device(self._sysroot, self._named.name):
            raise TargetGone
        return chosen

    def has_row(self, disk: Disk) -> bool:
        """Tell whether a device has rows: all but those of the machine that did nothing since the kernel made them."""
        return self._named is not None or disk.has_moved

    def facts(self) -> tuple[str, ...]:
        """Say what came, what went, and what was left out or stands in two figures."""
        return tuple(self._facts)

    def _is_wanted(self, disk: Disk) -> bool:
        if self._named is not None:
            return disk.name == self._named.name and disk.number == self._named.number
        device = self._find(disk)
        if device is None or device.whole is not None or device.is_hidden:
            return False
        if not device.is_counted:
            self._facts[f"{_refuse_accounts(device)[0]}: it is in no figure"] = None
            return False
        if device.stands_on:
            self._note_stacked(disk, device)
        return self.is_divided or not device.stands_on

    def _find(self, disk: Disk) -> BlockDevice | None:
        """Find what sysfs says of a line's device, read once; None where it went away meanwhile."""
        known = self._known.get(disk.name)
        if known is None or known.number != disk.number:
            try:
                known = read_block_device(self._sysroot, disk.name)
            except OSError:
                return None
            self._known[disk.name] = known
        return known

    def _note_stacked(self, disk: Disk, device: BlockDevice) -> None:
        if self._stacked.setdefault(disk.name, disk).counters == disk.counters:
            return
        below = " and ".join(device.stands_on)
        if self.is_divided:
            self._facts[f"{disk.name} stands on {below}: what it moved is in the figures of both"] = None
        else:
            self._facts[f"{disk.name} is left out of the figure: it stands on {below}"] = None

    def _note_missing(self, disk: Disk) -> None:
        """Count what a device did before it went, or a line that the kernel left out while devices came and went."""
        name = disk.name
        if has_block_device(self._sysroot, name):
            self._misses.note(f"the kernel left {name} out of a reading of /proc/diskstats")
            return
        self._present.discard(name)
        self._known.pop(name, None)
        self._facts[f"{name} went away in the window"] = None
        if disk.has_moved:
            self._misses.note(f"{name} went away, and what it did since its last reading is in no row")


def _refuse_accounts(device: BlockDevice) -> tuple[str, str]:
    owner = device.whole or device.name
    return (
        f"the kernel's accounting of {owner} is switched off (/sys/block/{owner.replace('/', '!')}/queue/iostats is 0)",
        "write 1 there as root",
    )


class DeviceCollector(PolledCollector[Content], ABC):
    """A collector of the lines of /proc/diskstats that its target is about."""

    def open_files(self, target: BoundTarget) -> None:
        """Open the file. Raises MachineRefused for a device whose accounting is switched off."""
        self.devices = Devices(target, self.resolved, self.context, self.misses)
        self._file = self.open_file("/proc/diskstats", many_records=True)

    def read_lines(self) -> dict[str, Disk]:
        """Read the file and choose. Raises TargetGone when the target's device is no more."""
        return self.devices.choose(parse_diskstats(self._file.read()))

    def facts(self) -> tuple[str, ...]:
        """Say what the choice of devices says."""
        return self.devices.facts()


@attrs.frozen
class Moved:
    """What a device's counters grew by in an interval."""

    name: str
    growth: Growth


class DeviceCounterCollector(DeviceCollector[dict[str, Disk]], ABC):
    """A collector of what devices did in each interval. One that the kernel made in it counts from its making."""

    def open_files(self, target: BoundTarget) -> None:
        """Open the file, and an account for each device."""
        super().open_files(target)
        self._accounts: Accounts[str] = Accounts(self.misses, lambda name: name, WRAPS)
        self._read_ns: int | None = None

    def read(self) -> dict[str, Disk]:
        """Read the devices' lines."""
        return self.read_lines()

    def make_rows(self, content: dict[str, Disk], at_ns: int) -> Rows:
        """Return the rows of every device that has an interval."""
        if self._read_ns is not None:
            for name in self.devices.came:
                self._accounts.advance_one(name, dict.fromkeys(content[name].counters, 0), self._read_ns)
        self._read_ns = at_ns
        grown = self._accounts.advance({name: disk.counters for name, disk in content.items()}, at_ns)
        moved = [Moved(name, growth) for name, growth in grown.items() if self.devices.has_row(content[name])]
        return self.make_moved_rows(moved) if moved else Rows()

    @abstractmethod
    def make_moved_rows(self, moved: list[Moved]) -> Rows:
        """Make rows of what each device did, never of nothing."""
