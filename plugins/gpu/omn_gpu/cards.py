"""Cards of amdgpu, i915 and xe, asked through their files in sysfs (Documentation/gpu/amdgpu, sysfs-driver-intel-*)."""

from __future__ import annotations

import glob
from abc import ABC
from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs
from omn_kernel.polled import PolledFile, place, read_file
from omn_kernel.polling import Rows

from omn_core.api import BoundTarget
from omn_gpu.asking import Answer, EachDevice, key_by_device
from omn_gpu.device import NVIDIA, Device
from omn_gpu.devices import list_devices
from omn_gpu.drm import list_cards
from omn_gpu.energy import EnergyAccount
from omn_gpu.refusal import FileRefusal

_ENOENT = FileNotFoundError(2, "No such file or directory")


@attrs.frozen
class Gauge:
    """A file of a card that holds one number: the attribute it is, where it may be below the card's folder, its scale.

    The first of `paths` that is there is read; `multiply` and then `divide` make the attribute's unit of its number.
    `label` is what the sensor's own label file must say, None where there is no choice of sensors.
    """

    attribute: str
    paths: Sequence[str]
    multiply: int = 1
    divide: int = 1
    label: str | None = None

    def compute(self, number: int) -> int | float:
        """Compute the attribute's value, a whole number where its unit is that of the file or smaller."""
        scaled = number * self.multiply
        return scaled if self.divide == 1 else scaled / self.divide


Gauges = Mapping[str, Sequence[Gauge]]
"""What is read of a card, by its driver."""


class CardCollector(EachDevice[Mapping[str, int | float]], ABC):
    """A collector of numbers that cards show in files of their own, by driver.

    `gauges` names each driver's; the attribute that is the source's value must be there, and the others are absent
    where a card has no such file.
    """

    gauges: ClassVar[Gauges]

    def open_files(self, target: BoundTarget) -> None:
        """Find the cards and open their files."""
        self._files: dict[Device, list[tuple[Gauge, PolledFile, str]]] = {}
        super().open_files(target)

    def list_devices(self) -> list[Device]:
        """List the cards of the drivers that are read, by their numbers on the machine."""
        devices, _ = list_devices(self.context.sysroot)
        found = [device for device in devices if self.knows(device.driver)]
        for other in devices:
            if not self.knows(other.driver):
                self.note_fact(f"{other} is in no figure: {self.resolved.backend.id} does not read {other.driver}")
        return found

    def knows(self, driver: str) -> bool:
        """Tell whether a driver's files are among those that are read."""
        return driver != NVIDIA and driver in self.gauges

    def begin(self, device: Device) -> None:
        """Open the card's files, and read them once."""
        folder = next(card.folder for card in list_cards(self.context.sysroot) if card.pci == device.pci)
        value = self.resolved.entry.value
        opened: list[tuple[Gauge, PolledFile, str]] = []
        for gauge in self.gauges[device.driver]:
            path = self._find(folder, device.driver, gauge)
            if path is None:
                if gauge.attribute == value:
                    raise FileRefusal.of(f"{folder}/{gauge.paths[0]}", _ENOENT)
                continue
            try:
                opened.append((gauge, self.hold(PolledFile(place(self.context.sysroot, path), size=64)), path))
            except OSError as error:
                if gauge.attribute == value:
                    raise FileRefusal.of(path, error) from None
        self._files[device] = opened
        self.ask(device)

    def _find(self, folder: str, driver: str, gauge: Gauge) -> str | None:
        """Find the gauge's file: on a sensor of its label, of the card as a whole and not of one of its engines."""
        root = place(self.context.sysroot, "")
        for pattern in gauge.paths:
            for found in sorted(glob.glob(place(self.context.sysroot, f"{folder}/{pattern}"))):
                path = found.removeprefix(root)
                if gauge.label is not None and self._find_text(f"{path.rpartition('_')[0]}_label") != gauge.label:
                    continue
                if "/hwmon/" not in path or self._find_text(f"{path.rpartition('/')[0]}/name") in (None, driver):
                    return path
        return None

    def _find_text(self, path: str) -> str | None:
        try:
            return read_file(self.context.sysroot, path).decode().strip()
        except OSError:
            return None

    def ask(self, device: Device) -> Mapping[str, int | float] | None:
        """Read the card's files; one beside the value that cannot be read now is absent."""
        told: dict[str, int | float] = {}
        for gauge, file, path in self._files[device]:
            try:
                told[gauge.attribute] = gauge.compute(int(file.read()))
            except OSError as error:
                if gauge.attribute == self.resolved.entry.value:
                    raise FileRefusal.of(path, error) from None
        return told

    def make_device_rows(self, answers: list[Answer[Mapping[str, int | float]]], at_ns: int) -> Rows:
        """Return a row for each card."""
        names = dict.fromkeys(name for answer in answers for name in answer.told)
        return Rows(key_by_device(answers), {name: [answer.told.get(name) for answer in answers] for name in names})


class CardUse(CardCollector):
    """gpu.util of amdgpu: what the firmware says when it is read, percent; of the machine the busiest card's."""

    reads_at_open = True
    topic = "utilization"
    gauges: ClassVar[Gauges] = {
        "amdgpu": (
            Gauge("util", ("device/gpu_busy_percent",), divide=100),
            Gauge("mem_util", ("device/mem_busy_percent",), divide=100),
        )
    }

    def make_device_rows(self, answers: list[Answer[Mapping[str, int | float]]], at_ns: int) -> Rows:
        """Return the rows."""
        if not self.resolved.is_divided_by("gpu"):
            answers = [max(answers, key=lambda answer: answer.told["util"])]
        return super().make_device_rows(answers, at_ns)


class CardMemory(CardCollector):
    """gpu.mem of amdgpu: its own memory, bytes; without a division by device the sum of the machine's cards."""

    reads_at_open = True
    topic = "memory"
    gauges: ClassVar[Gauges] = {
        "amdgpu": (
            Gauge("bytes", ("device/mem_info_vram_used",)),
            Gauge("total_bytes", ("device/mem_info_vram_total",)),
        )
    }

    def make_device_rows(self, answers: list[Answer[Mapping[str, int | float]]], at_ns: int) -> Rows:
        """Return the rows, with what is free where the whole is known."""
        rows = [dict(answer.told) for answer in answers]
        for row in rows:
            if "total_bytes" in row:
                row["free_bytes"] = row["total_bytes"] - row["bytes"]
        names = [name for name in rows[0] if all(name in row for row in rows)]
        columns = {name: [row[name] for row in rows] for name in names}
        if len(answers) > 1 and not self.resolved.is_divided_by("gpu"):
            return Rows.of_one({name: sum(column) for name, column in columns.items()})
        return Rows(key_by_device(answers), columns)


_MILLI = 1000


class CardTemperature(CardCollector):
    """gpu.temp: the sensor that a card labels as its edge (amdgpu) or package (xe), or its only one (i915)."""

    reads_at_open = True
    topic = "temperature"
    gauges: ClassVar[Gauges] = {
        "amdgpu": tuple(
            Gauge(attribute, ("device/hwmon/hwmon*/temp*_input",), divide=_MILLI, label=label)
            for attribute, label in (("celsius", "edge"), ("junction_celsius", "junction"), ("mem_celsius", "mem"))
        ),
        "xe": (
            Gauge("celsius", ("device/hwmon/hwmon*/temp2_input",), divide=_MILLI),
            Gauge("mem_celsius", ("device/hwmon/hwmon*/temp3_input",), divide=_MILLI),
        ),
        "i915": (Gauge("celsius", ("device/hwmon/hwmon*/temp1_input",), divide=_MILLI),),
    }


_MEGA = 1_000_000


class CardClocks(CardCollector):
    """gpu.clocks: what the card's first engines run at now, and on amdgpu its memory."""

    reads_at_open = True
    topic = "clocks"
    gauges: ClassVar[Gauges] = {
        "amdgpu": (
            Gauge("sm_hz", ("device/hwmon/hwmon*/freq1_input",)),
            Gauge("mem_hz", ("device/hwmon/hwmon*/freq2_input",)),
        ),
        "xe": (Gauge("sm_hz", ("device/tile0/gt0/freq0/act_freq",), multiply=_MEGA),),
        "i915": (Gauge("sm_hz", ("gt/gt0/rps_act_freq_mhz", "gt_act_freq_mhz"), multiply=_MEGA),),
    }


class CardEnergy(CardCollector):
    """gpu.power of i915 and xe: the card's counter, microjoules; one that did not move joins the next interval."""

    topic = "energy counter"
    gauges: ClassVar[Gauges] = {
        driver: (Gauge("joules", ("device/hwmon/hwmon*/energy1_input",)),) for driver in ("i915", "xe")
    }

    def open_files(self, target: BoundTarget) -> None:
        """Find the cards. Raises MachineRefused where none keeps a counter."""
        self._account = EnergyAccount(self.misses)
        super().open_files(target)
        self._account.forget()

    def ask(self, device: Device) -> Mapping[str, int | float] | None:
        """Read the counter; None where it did not move."""
        told = super().ask(device)
        return told if told is not None and self._account.has_moved(device, int(told["joules"])) else None

    def make_device_rows(self, answers: list[Answer[Mapping[str, int | float]]], at_ns: int) -> Rows:
        """Return what each card's counter grew by."""
        return self._account.make_rows([(answer, int(answer.told["joules"])) for answer in answers], at_ns)
