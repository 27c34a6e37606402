"""mem.oom from the kernel's own counts: how many processes it killed for want of memory."""

from __future__ import annotations

from collections.abc import Mapping

from omn_kernel.cgroup import UNIFIED
from omn_kernel.cgroup_files import CgroupCollector
from omn_kernel.counters import Account
from omn_kernel.polling import MachineFileCollector, Rows
from omn_kernel.procfs.machine import parse_flat_keyed

from omn_core.api import BoundTarget, MachineRefused

_COUNTER = b"oom_kill"


class MachineKills(MachineFileCollector):
    """Of the machine, every cgroup's among them: `oom_kill` of /proc/vmstat (Linux 4.13)."""

    path = "/proc/vmstat"

    def open_files(self, target: BoundTarget) -> None:
        """Open the file."""
        super().open_files(target)
        self._account = Account("the machine", self.misses)

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return the kills since the last reading. Raises MachineRefused where the kernel does not count them."""
        counters = parse_flat_keyed(content)
        if _COUNTER not in counters:
            raise MachineRefused("this kernel does not count its kills: /proc/vmstat has no oom_kill")
        growth = self._account.advance({"oom_kill": counters[_COUNTER]}, at_ns)
        return Rows() if growth is None else Rows.of_one({"kills": growth.by["oom_kill"]})


class CgroupKills(CgroupCollector):
    """Of a cgroup2 cgroup and all below it: `oom_kill` of memory.events, whose limit ever it was."""

    hierarchy = UNIFIED
    files: tuple[str, ...] = ("memory.events",)
    without = "its memory is not accounted on this hierarchy"

    def open_files(self, target: BoundTarget) -> None:
        """Open the file."""
        super().open_files(target)
        self._account = Account(f"cgroup {self.place.path}", self.misses)

    def make_rows(self, content: Mapping[str, bytes], at_ns: int) -> Rows:
        """Return the kills since the last reading. Raises MachineRefused where the kernel does not count them."""
        counters = parse_flat_keyed(content.get(self.files[0], b""))
        if _COUNTER not in counters:
            raise MachineRefused(f"cgroup {self.place.path!r} does not count kills: {self.files[0]} has no oom_kill")
        growth = self._account.advance({"oom_kill": counters[_COUNTER]}, at_ns)
        return Rows() if growth is None else Rows.of_one({"kills": growth.by["oom_kill"]}, self.keys)


class LegacyKills(CgroupKills):
    """Of a cgroup v1 cgroup alone, without those below it: `oom_kill` of memory.oom_control (Linux 4.17)."""

    hierarchy = "memory"
    files = ("memory.oom_control",)
