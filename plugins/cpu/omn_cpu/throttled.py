"""cpu.throttled: what a cgroup's own cpu limit took from it (cpu.stat of the cpu controller)."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping

from omn_kernel.cgroup import UNIFIED
from omn_kernel.cgroup_accounts import compute_throttling
from omn_kernel.cgroup_files import CgroupCollector
from omn_kernel.counters import Account
from omn_kernel.polling import Rows
from omn_kernel.procfs.machine import parse_flat_keyed

from omn_core.api import BoundTarget, MachineRefused


class Throttled(CgroupCollector, ABC):
    """One row a reading: what was counted since the last, a zero included.

    The kernel adds a cpu's held-back time up when that cpu is let go again, at the next period: what is being held
    back at the reading is in the next one. Without a limit every count is zero, and that is a measurement.
    """

    files = ("cpu.stat",)

    def open_files(self, target: BoundTarget) -> None:
        """Open the account. Raises MachineRefused where the cgroup keeps none."""
        super().open_files(target)
        self._account = Account(f"cgroup {self.place.path}", self.misses)

    def make_rows(self, content: Mapping[str, bytes], at_ns: int) -> Rows:
        """Return what the limit took since the last reading. Raises MachineRefused for a file without its lines."""
        account = compute_throttling(parse_flat_keyed(content["cpu.stat"]))
        if account.throttled_ns is None:
            raise MachineRefused(
                f"cgroup {self.place.path!r} keeps no account of a cpu limit", "the cpu controller must be on for it"
            )
        counters = {
            "throttled_ns": account.throttled_ns,
            "periods": account.periods,
            "throttled_periods": account.throttled,
        }
        known = {name: value for name, value in counters.items() if value is not None}
        growth = self._account.advance(known, at_ns)
        return Rows() if growth is None else Rows.of_one(growth.by, self.keys)


class Cgroup2Throttled(Throttled):
    """cpu.stat of cgroup2, in microseconds, where the cpu controller is on."""

    hierarchy = UNIFIED


class Cgroup1Throttled(Throttled):
    """cpu.stat of version 1's cpu controller, in nanoseconds."""

    hierarchy = "cpu"
