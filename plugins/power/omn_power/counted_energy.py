"""power.energy by the power unit's counters of perf events: RAPL's meters, as the kernel reads them for it.

/sys/bus/event_source/devices/power/events/energy-{pkg,cores,gpu,ram,psys}, with what a count is worth in joules. Each
is counted on one cpu of its package. The kernel extends the meters' 32 bits, so that nothing starts over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omn_kernel.cpus import FOLDER
from omn_kernel.perf.counters import CounterCollector, Row
from omn_kernel.perf.events import PerfEvent
from omn_kernel.perf.units import UnitEvent, find_unit_cpus, list_unit_events, read_unit_event
from omn_kernel.polled import read_file
from omn_kernel.polling import Rows

from omn_core.api import BoundTarget, MachineRefused
from omn_power.energy import Energy

_UNIT = "power"
_PACKAGE = "energy-pkg"
_BELOW = {_PACKAGE: "", "energy-cores": "/core", "energy-gpu": "/uncore", "energy-ram": "/dram"}
"""What each event's domain is called after its package's name, as powercap calls it."""
_PLATFORM = "energy-psys"


class CountedEnergy(CounterCollector):
    """One row of the packages together, or a row for each domain where domains are told apart."""

    def find_events(self) -> Mapping[str, PerfEvent]:
        """Return the counters that are asked for. Raises MachineRefused where one is not there."""
        sysroot = self.context.sysroot
        self._by_domain = self.resolved.is_divided_by("domain")
        listed = [name for name in list_unit_events(sysroot, _UNIT) if name in _BELOW or name == _PLATFORM]
        wanted = listed if self._by_domain else [_PACKAGE]
        try:
            self._events: dict[str, UnitEvent] = {name: read_unit_event(sysroot, _UNIT, name) for name in wanted}
        except (OSError, ValueError, KeyError) as error:
            raise MachineRefused(f"the counters of the {_UNIT} unit cannot be read: {error}") from None
        return {name: one.event for name, one in self._events.items()}

    def find_cpus(self, target: BoundTarget) -> Sequence[int]:
        """Return the cpus that stand for their packages."""
        return find_unit_cpus(self.context.sysroot, _UNIT) or ()

    def make_rows(self, content: Sequence[Row], at_ns: int) -> Rows:
        """Return what was counted since the last reading; nothing of the whole where a package's is unknown."""
        self.note(content)
        counted: dict[str, Energy | None] = {}
        for row in content:
            package = find_package(self.context.sysroot, row.keys["cpu"])
            for name, one in row.counted.items():
                domain = "psys" if name == _PLATFORM else f"{package}{_BELOW[name]}"
                value = None if one.value is None else one.value * self._events[name].scale
                counted.setdefault(domain, None if value is None else Energy(value, max(one.enabled_ns, 1)))
        known = {domain: energy for domain, energy in counted.items() if energy is not None}
        if self._by_domain:
            return Rows.of_each([energy.to_attributes() for energy in known.values()], {"domain": list(known)})
        if not known or len(known) < len(counted):
            return Rows()
        parts = known.values()
        whole = Energy(sum(part.joules for part in parts), max(part.length_ns for part in parts))
        return Rows.of_one(whole.to_attributes())


def find_package(sysroot: str, cpu: int) -> str:
    """Name the package that a cpu is of by its number, `package-0`, or by the cpu where the kernel does not say."""
    try:
        number = read_file(sysroot, f"{FOLDER}/cpu{cpu}/topology/physical_package_id").decode().strip()
    except OSError:
        return f"package of cpu {cpu}"
    return f"package-{number}"
