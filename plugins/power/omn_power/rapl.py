"""RAPL's meters in sysfs: zones of energy that powercap lists, each a counter that starts over at its range.

/sys/class/powercap/intel-rapl:<N>[:<M>]/{name,energy_uj,max_energy_range_uj}: Documentation/power/powercap/powercap.rst
and Documentation/ABI/testing/sysfs-class-powercap. AMD's processors have zones of the same names.
"""

from __future__ import annotations

import os
import re

import attrs
from omn_kernel.polled import place, read_file

POWERCAP = "/sys/class/powercap"
_ZONE = re.compile(r"intel-rapl:\d+(:\d+)*")
"""A zone of the registers. `intel-rapl-mmio` shows a package's same meter once more, and is left out."""

MOST_WATTS = 2000
"""More than any zone draws: a growth that would take more is none."""


@attrs.frozen
class Zone:
    """A meter: its domain (`package-0`, `package-0/core`, `psys`), its folder, and where its counter starts over.

    `modulus_uj` is 0 where the kernel states no range. `is_package` tells a processor's whole package.
    """

    domain: str
    folder: str
    modulus_uj: int
    is_package: bool


def list_zones(sysroot: str) -> list[Zone]:
    """List the machine's meters in the order of their numbers; a domain below another is named after it.

    Empty where the kernel has no power capping, or no meters in it.
    """
    try:
        names = [name for name in os.listdir(place(sysroot, POWERCAP)) if _ZONE.fullmatch(name)]
    except OSError:
        return []
    domains: dict[str, str] = {}
    zones: list[Zone] = []
    for name in sorted(names, key=lambda name: [int(part) for part in name.split(":")[1:]]):
        folder = f"{POWERCAP}/{name}"
        try:
            called = read_file(sysroot, f"{folder}/name").decode().strip()
        except OSError:
            called = name
        above = domains.get(name.rpartition(":")[0])
        domains[name] = called if above is None else f"{above}/{called}"
        is_package = above is None and called.startswith("package-")
        zones.append(Zone(domains[name], folder, _read_modulus(sysroot, folder), is_package))
    return zones


def _read_modulus(sysroot: str, folder: str) -> int:
    """Read where a counter starts over: it has 32 bits, and the range is what the highest of them stands for."""
    try:
        largest = int(read_file(sysroot, f"{folder}/max_energy_range_uj"))
    except (OSError, ValueError):
        return 0
    return largest * (1 << 32) // ((1 << 32) - 1)


def compute_growth(then_uj: int, now_uj: int, modulus_uj: int, length_ns: int) -> int | None:
    """Compute what a meter counted between two readings, microjoules: across its end, where it started over.

    None where it stepped back and no power that a zone draws explains it: the account began anew, as after a suspend.
    """
    grown = now_uj - then_uj
    if grown >= 0:
        return grown
    across = grown + modulus_uj
    return across if 0 <= across <= MOST_WATTS * length_ns // 1000 else None


def find_doubt(grown_uj: int, modulus_uj: int, length_ns: int) -> float | None:
    """Find the watts below which a growth is sure: a meter that drew more would have started over once more, unseen.

    None where a zone cannot draw as much, so that nothing is in doubt.
    """
    watts = (grown_uj + modulus_uj) * 1000 / length_ns
    return watts if modulus_uj and watts < MOST_WATTS else None
