"""cpu.util of a cgroup and everything below it: cpu time over time, in cpus."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from omn_kernel.cgroup import UNIFIED
from omn_kernel.cgroup_files import CgroupCollector
from omn_kernel.counters import Account
from omn_kernel.polling import Rows
from omn_kernel.procfs.machine import parse_flat_keyed

from omn_core.api import BoundTarget
from omn_cpu.shares import compute_shares

_USEC = {b"usage_usec": "oncpu_ns", b"user_usec": "user_ns", b"system_usec": "system_ns"}


class CgroupUtil(CgroupCollector, ABC):
    """One row a reading. The kernel adds up what is below a cgroup, and what has left it stays counted."""

    def open_files(self, target: BoundTarget) -> None:
        """Open the account. Raises MachineRefused where the cgroup has none."""
        super().open_files(target)
        self._account = Account(f"cgroup {self.place.path}", self.misses)

    def make_rows(self, content: Mapping[str, bytes], at_ns: int) -> Rows:
        """Return what the cgroup ran since the last reading."""
        growth = self._account.advance(self.parse(content[self.files[0]]), at_ns)
        if growth is None:
            return Rows()
        return Rows.of_one(compute_shares(growth), self.keys)

    @abstractmethod
    def parse(self, content: bytes) -> dict[str, int]:
        """Return `oncpu_ns` and what else the file divides it into, nanoseconds."""


class Cgroup2Util(CgroupUtil):
    """cpu.stat of cgroup2, in microseconds: it is there whether or not the cpu controller is on."""

    hierarchy = UNIFIED
    files = ("cpu.stat",)

    def parse(self, content: bytes) -> dict[str, int]:
        """Return the usage, and its user and system parts."""
        counters = parse_flat_keyed(content)
        return {name: counters[field] * 1000 for field, name in _USEC.items() if field in counters}


class Cgroup1Util(CgroupUtil):
    """cpuacct.usage of version 1, in nanoseconds."""

    hierarchy = "cpuacct"
    files = ("cpuacct.usage",)

    def parse(self, content: bytes) -> dict[str, int]:
        """Return the usage."""
        return {"oncpu_ns": int(content)}
