"""cpu.util of a cgroup and everything below it: cpu time over time, in cpus."""

from __future__ import annotations

from abc import ABC, abstractmethod

from omn_kernel.cgroup import CgroupPlace
from omn_kernel.procfs.machine import parse_flat_keyed

from omn_core.api import Batch, BoundTarget
from omn_cpu.accounts import Account, AccountCollector
from omn_cpu.cgroup_file import CgroupFile, get_place

_USEC = {b"usage_usec": "oncpu_ns", b"user_usec": "user_ns", b"system_usec": "system_ns"}


class CgroupUtil(AccountCollector, ABC):
    """One row a reading. The kernel adds up what is below a cgroup, and what has left it stays counted."""

    def attach(self, target: BoundTarget) -> None:
        """Open the account and read its baseline. Raises MachineRefused where the cgroup has none."""
        place = get_place(target)
        self._name = place.path
        self._file = CgroupFile(self.find_file(place), place.path)
        self.files.callback(self._file.close)
        self._account = Account(f"cgroup {place.path}", self.parse(self._file.read()), self.context.clock())

    def sample(self, now_ns: int) -> Batch:  # the contract's signature
        """Return what the cgroup ran since the last reading. Raises TargetGone when it was removed."""
        before = self.context.clock()
        growth = self._account.advance(self.parse(self._file.read()), self.context.clock(), self.misses)
        if growth is None:
            return Batch.empty()
        shares = {name.removesuffix("_ns"): [part / growth.length_ns] for name, part in growth.by.items()}
        shares["util"] = shares.pop("oncpu")
        return Batch.of_reading(
            (before, self.context.clock()),
            self.context.names,
            {"cgroup": [self._name]},
            {**shares, "oncpu_ns": [growth.by["oncpu_ns"]], "interval_ns": [growth.length_ns]},
        )

    @abstractmethod
    def find_file(self, place: CgroupPlace) -> str | None:
        """Find the file that holds the account, None where the cgroup has none."""

    @abstractmethod
    def parse(self, content: bytes) -> dict[str, int]:
        """Return `oncpu_ns` and what else the file divides it into, nanoseconds."""


class Cgroup2Util(CgroupUtil):
    """cpu.stat of cgroup2, in microseconds: it is there whether or not the cpu controller is on."""

    def find_file(self, place: CgroupPlace) -> str | None:
        """Find cpu.stat."""
        return place.find_unified_file("cpu.stat")

    def parse(self, content: bytes) -> dict[str, int]:
        """Return the usage, and its user and system parts."""
        counters = parse_flat_keyed(content)
        return {name: counters[field] * 1000 for field, name in _USEC.items() if field in counters}


class Cgroup1Util(CgroupUtil):
    """cpuacct.usage of version 1, in nanoseconds."""

    def find_file(self, place: CgroupPlace) -> str | None:
        """Find cpuacct.usage."""
        folder = place.find_legacy_folder("cpuacct")
        return None if folder is None else f"{folder}/cpuacct.usage"

    def parse(self, content: bytes) -> dict[str, int]:
        """Return the usage."""
        return {"oncpu_ns": int(content)}
