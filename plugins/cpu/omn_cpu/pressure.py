"""cpu.pressure: time in which runnable tasks waited for a cpu (Documentation/accounting/psi)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from omn_kernel.polled import PolledFile, place
from omn_kernel.psi import Pressure, parse_pressure

from omn_core.api import Batch, BoundTarget
from omn_cpu.accounts import Account, AccountCollector, Growth
from omn_cpu.cgroup_file import CgroupFile, get_place

_RATIOS = {"some": "stall_ratio", "full": "full_ratio"}


class PressureReading(AccountCollector, ABC):
    """One row a reading: the waiting since the last, and the kernel's own averages as they stand."""

    def attach(self, target: BoundTarget) -> None:
        """Open the file and read the baseline. Raises MachineRefused where it cannot be opened."""
        self._cgroup, self._read = self.open_account(target)
        lines = self.parse(self._read())
        self._account = Account("this pressure", _read_totals(lines), self.context.clock())

    def sample(self, now_ns: int) -> Batch:  # the contract's signature
        """Return the shares of the interval in which tasks waited."""
        before = self.context.clock()
        lines = self.parse(self._read())
        growth = self._account.advance(_read_totals(lines), self.context.clock(), self.misses)
        if growth is None:
            return Batch.empty()
        keys = {} if self._cgroup is None else {"cgroup": [self._cgroup]}
        attributes = {**_compute_ratios(growth), **_list_averages(lines), "interval_ns": [growth.length_ns]}
        return Batch.of_reading((before, self.context.clock()), self.context.names, keys, attributes)

    def parse(self, content: bytes) -> Mapping[str, Pressure]:
        """Return the lines that mean something."""
        return parse_pressure(content)

    @abstractmethod
    def open_account(self, target: BoundTarget) -> tuple[str | None, Callable[[], bytes]]:
        """Open the file; return the cgroup's name if it is one, and what reads it."""


class MachinePressure(PressureReading):
    """/proc/pressure/cpu.

    A task that waits for a cpu means that another runs on it, so that the machine is never stalled in full: since
    5.13 the kernel writes zeros there (before, nothing), and no figure is made of them.
    """

    def parse(self, content: bytes) -> Mapping[str, Pressure]:
        """Return the line `some` alone."""
        return {name: line for name, line in parse_pressure(content).items() if name == "some"}

    def open_account(self, target: BoundTarget) -> tuple[str | None, Callable[[], bytes]]:  # as declared
        """Open the machine's file."""
        file = PolledFile(place(self.context.sysroot, "/proc/pressure/cpu"))
        self.files.callback(file.close)
        return None, file.read


class CgroupPressure(PressureReading):
    """cpu.pressure of a cgroup and everything below it (cgroup2)."""

    def open_account(self, target: BoundTarget) -> tuple[str | None, Callable[[], bytes]]:
        """Open the cgroup's file."""
        found = get_place(target)
        file = CgroupFile(found.find_unified_file("cpu.pressure"), found.path)
        self.files.callback(file.close)
        return found.path, file.read


def _read_totals(lines: Mapping[str, Pressure]) -> dict[str, int]:
    return {f"{name}_ns": line.total_ns for name, line in lines.items()}


def _compute_ratios(growth: Growth) -> dict[str, list[float] | list[int]]:
    """Return each line's waiting and its share of the interval, at most 1.

    The kernel adds a wait up when it ends or when somebody looks, so that a reading may hold a little of the time
    before its interval.
    """
    ratios: dict[str, list[float] | list[int]] = {}
    for name, ratio in _RATIOS.items():
        waited = growth.by.get(f"{name}_ns")
        if waited is not None:
            ratios[ratio] = [min(waited / growth.length_ns, 1.0)]
            ratios[f"{name}_ns"] = [waited]
    return ratios


def _list_averages(lines: Mapping[str, Pressure]) -> dict[str, list[float]]:
    return {
        f"{name}_avg{seconds}": [average]
        for name, line in lines.items()
        for seconds, average in ((10, line.avg10), (60, line.avg60), (300, line.avg300))
    }
