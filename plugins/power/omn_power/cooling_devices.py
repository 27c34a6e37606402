"""The kernel's cooling devices that slow processors, and the state of each.

/sys/class/thermal/cooling_device<N>/{type,cur_state}: Documentation/driver-api/thermal/sysfs-api.rst. A state of 0 is
no cooling. Fans and what slows graphics are cooling devices too, and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from omn_kernel.hwmon import list_numbered, read_text

from omn_power.sensors import THERMAL

_SLOWING = ("Processor", "cpufreq-", "thermal-cpufreq-", "idle-", "thermal-idle-", "intel_powerclamp")
"""What kinds begin with that slow a processor, as their drivers name them: ACPI's processors, cpufreq's policies, and
what has cpus idle."""


@attrs.frozen
class CoolingDevice:
    """What slows a processor: its number, its kind, and the state that it was in."""

    number: int
    kind: str
    state: int


def iter_cooling(sysroot: str) -> Iterator[CoolingDevice]:
    """Yield the cooling devices that slow processors, in the order of their numbers."""
    for folder in list_numbered(sysroot, THERMAL, "cooling_device"):
        try:
            kind, state = read_text(sysroot, f"{folder}/type"), int(read_text(sysroot, f"{folder}/cur_state"))
        except (OSError, ValueError):
            continue  # it went, or its driver could not say
        if kind.startswith(_SLOWING):
            yield CoolingDevice(int(folder.rpartition("cooling_device")[2]), kind, state)
