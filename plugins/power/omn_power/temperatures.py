"""power.temp: what the machine's sensors say at the instant of a reading."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from omn_kernel.polled import PolledFile, place
from omn_kernel.polling import PolledCollector, Rows

from omn_core.api import BoundTarget, MachineRefused, TargetGone
from omn_power.sensors import THERMAL, Sensor, list_sensors

_SCALE = 1000
_ABSOLUTE_ZERO = -273_150
"""Thousandths of a degree: what lies below is a driver's word for no reading (the kernel's own is -274000)."""

_NAMING = ("power.sensor", "chip", "label")


class Temperatures(PolledCollector[Mapping[str, int]]):
    """A row for each sensor; where nothing tells them apart, the row of the hottest at each reading.

    A sensor that does not answer, or says that it is at fault, has no row and is counted; one that goes away is said.
    """

    reads_at_open = True

    def open_files(self, target: BoundTarget) -> None:
        """Open every sensor. Raises MachineRefused where there is none."""
        self._is_divided = any(map(self.resolved.is_divided_by, _NAMING))
        self._sensors = list_sensors(self.context.sysroot)
        self._files: dict[str, tuple[PolledFile, PolledFile | None]] = {}
        self._gone: list[str] = []
        for name, sensor in self._sensors.items():
            try:
                self._files[name] = (
                    self._open(sensor.path),
                    None if sensor.fault is None else self._open(sensor.fault),
                )
            except OSError as error:
                self.misses.note(f"{name}: {error.strerror}")
        if not self._files:
            raise MachineRefused(f"no sensor of {THERMAL} and /sys/class/hwmon can be read here")

    def read(self) -> dict[str, int]:
        """Read every sensor, thousandths of a degree. Raises TargetGone when all are gone."""
        reading = {name: self._read_one(name) for name in list(self._files)}
        if not self._files:
            raise TargetGone
        return {name: value for name, value in reading.items() if value is not None}

    def make_rows(self, content: Mapping[str, int], at_ns: int) -> Rows:
        """Return the rows."""
        if not content:
            return Rows()
        names = list(content) if self._is_divided else [max(content, key=lambda name: content[name])]
        rows = [make_attributes(self._sensors[name], content[name]) for name in names]
        return Rows.of_each(rows, {"power.sensor": names})

    def facts(self) -> tuple[str, ...]:
        """Say which sensors went away."""
        return tuple(f"the sensor {name} went away in the window" for name in self._gone)

    def _open(self, path: str) -> PolledFile:
        return self.hold(PolledFile(place(self.context.sysroot, path), size=64))

    def _read_one(self, name: str) -> int | None:
        file, fault = self._files[name]
        try:
            value = int(file.read())
            if fault is not None and int(fault.read()):
                self.misses.note(f"{name} says that it is at fault")
            elif value <= _ABSOLUTE_ZERO:
                self.misses.note(f"{name} gave no temperature")
            else:
                return value
        except OSError as error:
            if error.errno == errno.ENODEV:
                self._gone.append(name)
                del self._files[name]
            else:
                self.misses.note(f"{name}: {error.strerror}")
        return None


def make_attributes(sensor: Sensor, value: int) -> dict[str, float | str | None]:
    """Make the attributes of a reading: degrees, and what the sensor is."""
    return {
        "celsius": value / _SCALE,
        "critical_celsius": None if sensor.critical is None else sensor.critical / _SCALE,
        "chip": sensor.chip,
        "label": sensor.label,
    }
