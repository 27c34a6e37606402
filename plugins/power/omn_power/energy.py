"""power.energy: what RAPL's meters counted, of the packages together or of each domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs
from omn_kernel.counters import Misses
from omn_kernel.polled import PolledFile
from omn_kernel.polling import PolledCollector, Rows

from omn_core.api import BoundTarget, MachineRefused
from omn_power.rapl import POWERCAP, Zone, compute_growth, find_doubt, list_zones

_UJ_PER_JOULE = 1_000_000
_NS_PER_SECOND = 1_000_000_000


@attrs.frozen
class Energy:
    """What some meters counted together in one interval."""

    joules: float
    length_ns: int

    def to_attributes(self) -> dict[str, int | float]:
        """Return the attributes of its row, and the mean power among them."""
        return {
            "joules": self.joules,
            "watts": self.joules * _NS_PER_SECOND / self.length_ns,
            "interval_ns": self.length_ns,
        }


class Meters:
    """Some zones, their files held open, and what they counted between two readings.

    A reading that fails, and one that stepped back, gives its zone no figure and is counted in `misses`. An interval
    so long that a meter may have started over unseen is said.
    """

    def __init__(self, zones: Sequence[Zone], open_file: Callable[[str], PolledFile], misses: Misses) -> None:
        self.zones = zones
        self._files = {zone: open_file(f"{zone.folder}/energy_uj") for zone in zones}
        self._misses = misses
        self._last: dict[Zone, tuple[int, int]] = {}
        self._doubts: dict[str, float] = {}

    def read(self) -> dict[Zone, int]:
        """Read every meter, microjoules."""
        reading: dict[Zone, int] = {}
        for zone, file in self._files.items():
            try:
                reading[zone] = int(file.read())
            except OSError as error:
                self._misses.note(f"energy_uj of {zone.domain}: {error.strerror}")
        return reading

    def advance(self, reading: Mapping[Zone, int], at_ns: int) -> dict[Zone, Energy]:
        """Return what each meter counted since its last reading."""
        counted: dict[Zone, Energy] = {}
        for zone, now_uj in reading.items():
            last = self._last.get(zone)
            self._last[zone] = (now_uj, at_ns)
            if last is None:
                continue
            length_ns = max(at_ns - last[1], 1)
            grown = compute_growth(last[0], now_uj, zone.modulus_uj, length_ns)
            if grown is None:
                self._misses.note_step_back("energy_uj", zone.domain)
                continue
            self._note_doubt(zone, find_doubt(grown, zone.modulus_uj, length_ns))
            counted[zone] = Energy(grown / _UJ_PER_JOULE, length_ns)
        return counted

    def advance_together(self, reading: Mapping[Zone, int], at_ns: int) -> Energy | None:
        """Return what all meters counted together; None where that of one is unknown."""
        counted = self.advance(reading, at_ns)
        if len(counted) < len(self.zones):
            return None
        return Energy(
            sum(energy.joules for energy in counted.values()), max(energy.length_ns for energy in counted.values())
        )

    def facts(self) -> tuple[str, ...]:
        """Say of which meters an interval was so long that they may have started over in it unseen."""
        return tuple(
            f"the meter of {domain} may have started over unseen between two readings: its figure is right if it drew "
            f"less than {watts:.4g} W, and a shorter --interval leaves no doubt"
            for domain, watts in self._doubts.items()
        )

    def _note_doubt(self, zone: Zone, watts: float | None) -> None:
        if watts is not None:
            self._doubts[zone.domain] = min(watts, self._doubts.get(zone.domain, watts))


def get_packages(sysroot: str) -> list[Zone]:
    """Return the meters of the processors' packages. Raises MachineRefused where there is none."""
    packages = [zone for zone in list_zones(sysroot) if zone.is_package]
    if not packages:
        raise MachineRefused(f"no meter of a package is among the zones of {POWERCAP}")
    return packages


class PackageEnergy(PolledCollector[dict[Zone, int]]):
    """One row of the packages together, or a row for each domain where domains are told apart.

    What a package holds (its cores, what is beside them) and what stands outside it (memory, the whole platform) is in
    no sum: it has rows of its own alone.
    """

    def open_files(self, target: BoundTarget) -> None:
        """Open the meters. Raises MachineRefused where there is none, or they are closed to this user."""
        sysroot = self.context.sysroot
        self._by_domain = self.resolved.is_divided_by("domain")
        zones = list_zones(sysroot) if self._by_domain else get_packages(sysroot)
        self._meters = Meters(zones, lambda path: self.open_file(path, size=64), self.misses)

    def read(self) -> dict[Zone, int]:
        """Read the meters."""
        return self._meters.read()

    def make_rows(self, content: dict[Zone, int], at_ns: int) -> Rows:
        """Return what was counted since the last reading."""
        if not self._by_domain:
            whole = self._meters.advance_together(content, at_ns)
            return Rows() if whole is None else Rows.of_one(whole.to_attributes())
        counted = self._meters.advance(content, at_ns)
        return Rows.of_each(
            [energy.to_attributes() for energy in counted.values()], {"domain": [zone.domain for zone in counted]}
        )

    def facts(self) -> tuple[str, ...]:
        """Say what is in doubt."""
        return self._meters.facts()
