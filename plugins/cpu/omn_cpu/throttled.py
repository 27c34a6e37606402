"""cpu.throttled: what a cgroup's own cpu limit took from it (cpu.stat of the cpu controller)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from omn_kernel.cgroup import CgroupPlace
from omn_kernel.cgroup_accounts import compute_throttling
from omn_kernel.procfs.machine import parse_flat_keyed

from omn_core.api import Batch, BoundTarget, MachineRefused
from omn_cpu.accounts import Account, AccountCollector
from omn_cpu.cgroup_file import CgroupFile, get_place


class Throttled(AccountCollector, ABC):
    """One row a reading: what was counted since the last, a zero included.

    The kernel adds a cpu's held-back time up when that cpu is let go again, at the next period: what is being held
    back at the reading is in the next one. Without a limit every count is zero, and that is a measurement.
    """

    def attach(self, target: BoundTarget) -> None:
        """Open the account and read its baseline. Raises MachineRefused where the cgroup keeps none."""
        place = get_place(target)
        self._name = place.path
        self._file = CgroupFile(self.find_file(place), place.path)
        self.files.callback(self._file.close)
        self._account = Account(f"cgroup {place.path}", self._read(), self.context.clock())

    def sample(self, now_ns: int) -> Batch:  # the contract's signature
        """Return what the limit took since the last reading. Raises TargetGone when the cgroup was removed."""
        before = self.context.clock()
        growth = self._account.advance(self._read(), self.context.clock(), self.misses)
        if growth is None:
            return Batch.empty()
        return Batch.of_reading(
            (before, self.context.clock()),
            self.context.names,
            {"cgroup": [self._name]},
            {name: [value] for name, value in growth.by.items()},
        )

    @abstractmethod
    def find_file(self, place: CgroupPlace) -> str | None:
        """Find cpu.stat, None where the cgroup has none."""

    def _read(self) -> dict[str, int]:
        account = compute_throttling(parse_flat_keyed(self._file.read()))
        counters = {
            "throttled_ns": account.throttled_ns,
            "periods": account.periods,
            "throttled_periods": account.throttled,
        }
        if account.throttled_ns is None:
            raise MachineRefused(
                f"cgroup {self._name!r} keeps no account of a cpu limit", "the cpu controller must be on for it"
            )
        return {name: value for name, value in counters.items() if value is not None}


class Cgroup2Throttled(Throttled):
    """cpu.stat of cgroup2, in microseconds, where the cpu controller is on."""

    def find_file(self, place: CgroupPlace) -> str | None:
        """Find it in the unified hierarchy."""
        return place.find_unified_file("cpu.stat")


class Cgroup1Throttled(Throttled):
    """cpu.stat of version 1's cpu controller, in nanoseconds."""

    def find_file(self, place: CgroupPlace) -> str | None:
        """Find it in the cpu controller's hierarchy."""
        folder = place.find_legacy_folder("cpu")
        return None if folder is None else f"{folder}/cpu.stat"
