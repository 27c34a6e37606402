"""power.throttle: how often and how long Intel's processors slowed themselves for their heat.

/sys/devices/system/cpu/cpu<N>/thermal_throttle/{core,package}_throttle_{count,total_time_ms}:
Documentation/admin-guide/thermal/intel_thermal_throttle.rst. Every cpu keeps an account of its core and of its package,
so that an event of either is in the account of each cpu of it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from omn_kernel.counters import Growth
from omn_kernel.cpus import FOLDER, CpuCounterCollector
from omn_kernel.polled import read_file
from omn_kernel.polling import Rows

from omn_core.api import BoundTarget

_FOLDER = "thermal_throttle"
_NS_PER_MS = 1_000_000
_CORE = {"throttles": ("core_throttle_count", 1), "throttled_ns": ("core_throttle_total_time_ms", _NS_PER_MS)}
_PACKAGE = {
    "package_throttles": ("package_throttle_count", 1),
    "package_throttled_ns": ("package_throttle_total_time_ms", _NS_PER_MS),
}


class Throttling(CpuCounterCollector):
    """One row of the machine in each interval, each core's and each package's events once; or a row for each cpu."""

    counted = "an account of its heat (thermal_throttle/core_throttle_count in its folder of /sys/devices/system/cpu)"

    def open_files(self, target: BoundTarget) -> None:
        """Open each cpu's account."""
        super().open_files(target)
        self._places: dict[int, tuple[str, str]] = {}
        self._by_cpu = bool(target.cpus) or self.resolved.is_divided_by("cpu")

    def list_names(self, cpu: int) -> Sequence[str]:
        """List the four files."""
        return [f"{_FOLDER}/{file}" for file, _ in (*_CORE.values(), *_PACKAGE.values())]

    def make_rows(self, content: Mapping[int, Mapping[str, int]], at_ns: int) -> Rows:
        """Return what was counted since the last reading."""
        grown = self.advance(content, at_ns)
        if not grown:
            return Rows()
        if self._by_cpu:
            return Rows.of_each(
                [compute_throttling({cpu: growth}, self._find_place) for cpu, growth in grown.items()],
                {"cpu": list(grown)},
            )
        return Rows.of_each([compute_throttling(grown, self._find_place)])

    def _find_place(self, cpu: int) -> tuple[str, str]:
        """Find a cpu's package and its core there, each by the kernel's number, or by the cpu's own without one."""
        if cpu not in self._places:
            self._places[cpu] = self._find_number(cpu, "physical_package_id"), self._find_number(cpu, "core_id")
        return self._places[cpu]

    def _find_number(self, cpu: int, name: str) -> str:
        try:
            return read_file(self.context.sysroot, f"{FOLDER}/cpu{cpu}/topology/{name}").decode().strip()
        except OSError:
            return f"of cpu {cpu}"


def compute_throttling(
    grown: Mapping[int, Growth], find_place: Callable[[int], tuple[str, str]]
) -> dict[str, int | None]:
    """Compute the events and the time of some cpus' cores, and of their packages, each of them once.

    Cpus of one core saw the same: the fullest account is taken. What none of them counts is None.
    """
    places = {cpu: find_place(cpu) for cpu in grown}
    cores = {name: _sum_once(grown, *how, places.__getitem__) for name, how in _CORE.items()}
    packages = {name: _sum_once(grown, *how, lambda cpu: places[cpu][0]) for name, how in _PACKAGE.items()}
    return cores | packages


def _sum_once(grown: Mapping[int, Growth], file: str, scale: int, find_group: Callable[[int], Hashable]) -> int | None:
    name = f"{_FOLDER}/{file}"
    fullest: dict[Hashable, int] = {}
    for cpu, growth in grown.items():
        if name in growth.by:
            group = find_group(cpu)
            fullest[group] = max(fullest.get(group, 0), growth.by[name])
    return _scale(fullest.values(), scale)


def _scale(amounts: Iterable[int], scale: int) -> int | None:
    known = list(amounts)
    return sum(known) * scale if known else None
