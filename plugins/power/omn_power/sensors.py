"""Which temperatures this machine shows, and what each is called.

Of chips /sys/class/hwmon/hwmon<N>/temp<M>_{input,label,fault,crit}: Documentation/hwmon/sysfs-interface.rst. Of thermal
zones /sys/class/thermal/thermal_zone<N>/{type,temp,trip_point_<K>_{type,temp}}:
Documentation/ABI/testing/sysfs-class-thermal. All in thousandths of a degree Celsius.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator

import attrs
from omn_kernel.hwmon import HWMON, Chip, list_chips, list_numbered, read_text
from omn_kernel.polled import place

THERMAL = "/sys/class/thermal"
_INPUT = re.compile(r"temp(\d+)_input")


@attrs.frozen
class Sensor:
    """A temperature: the chip or zone it is of, its label there, the device that tells it from another of both names.

    `path` is where it is read, `fault` the file that says that what is read means nothing, None without one;
    `critical` the limit at which the machine saves itself, thousandths of a degree, None where none is stated.
    """

    chip: str
    label: str
    device: str
    path: str
    fault: str | None = None
    critical: int | None = None


def list_sensors(sysroot: str) -> dict[str, Sensor]:
    """List every temperature by a name that stays from one start of the machine to the next.

    `chip/label`, and `chip@device/label` where several have both in common. Empty where there is none.
    """
    sensors = [*_iter_zones(sysroot), *_iter_chips(sysroot)]
    alike = Counter((sensor.chip, sensor.label) for sensor in sensors)
    return {
        f"{sensor.chip}{f'@{sensor.device}' if alike[sensor.chip, sensor.label] > 1 else ''}/{sensor.label}": sensor
        for sensor in sensors
    }


def _iter_zones(sysroot: str) -> Iterator[Sensor]:
    for folder in list_numbered(sysroot, THERMAL, "thermal_zone"):
        label = _find_text(sysroot, f"{folder}/type")
        if label is not None and os.path.exists(place(sysroot, f"{folder}/temp")):
            critical = _find_critical_trip(sysroot, folder)
            yield Sensor("thermal", label, os.path.basename(folder), f"{folder}/temp", critical=critical)


def _iter_chips(sysroot: str) -> Iterator[Sensor]:
    for chip in list_chips(sysroot):
        if (chip.device or "").startswith("thermal_zone"):
            continue  # the kernel shows a zone once more as a chip
        for name in _list_inputs(sysroot, chip):
            fault = f"{chip.folder}/{name}_fault"
            yield Sensor(
                chip.name,
                _find_text(sysroot, f"{chip.folder}/{name}_label") or name,
                chip.device or chip.folder.removeprefix(f"{HWMON}/"),
                f"{chip.folder}/{name}_input",
                fault if os.path.exists(place(sysroot, fault)) else None,
                _find_number(sysroot, f"{chip.folder}/{name}_crit"),
            )


def _list_inputs(sysroot: str, chip: Chip) -> list[str]:
    found = [_INPUT.fullmatch(name) for name in os.listdir(place(sysroot, chip.folder))]
    return [f"temp{number}" for number in sorted(int(match[1]) for match in found if match is not None)]


def _find_critical_trip(sysroot: str, folder: str) -> int | None:
    for trip in _list_trips(sysroot, folder):
        if _find_text(sysroot, f"{folder}/{trip}_type") == "critical":
            return _find_number(sysroot, f"{folder}/{trip}_temp")
    return None


def _list_trips(sysroot: str, folder: str) -> list[str]:
    """List the trip points of a zone by the front of their files' names."""
    names = os.listdir(place(sysroot, folder))
    return sorted(name.removesuffix("_type") for name in names if re.fullmatch(r"trip_point_\d+_type", name))


def _find_text(sysroot: str, path: str) -> str | None:
    try:
        return read_text(sysroot, path) or None
    except OSError:
        return None


def _find_number(sysroot: str, path: str) -> int | None:
    text = _find_text(sysroot, path)
    return int(text) if text is not None and text.lstrip("-").isdigit() else None
