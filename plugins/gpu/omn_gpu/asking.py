"""Collectors that ask each of some devices in turn: those that refuse, that are lost, that repeat themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from typing import Generic, TypeVar

import attrs
from omn_kernel.polling import PolledCollector, Rows

from omn_core.api import BoundTarget, MachineRefused, TargetGone
from omn_gpu.device import NVIDIA, Device
from omn_gpu.devices import list_drm_devices, list_nvml_devices
from omn_gpu.nvml import NvmlError, get_library
from omn_gpu.refusal import DeviceRefusal

Told = TypeVar("Told")

HELD_NS = 25_000_000
"""How long a call may take before the answer says that the driver held it."""


@attrs.frozen(eq=False)
class Answer(Generic[Told]):
    """What a device told, and when it was asked."""

    device: Device
    told: Told
    began_ns: int


@attrs.define
class Held:
    """Calls of one device that the driver held: how many, and the longest of them, nanoseconds."""

    count: int = 0
    longest_ns: int = 0

    def note(self, length_ns: int) -> None:
        """Count a call."""
        self.count += 1
        self.longest_ns = max(self.longest_ns, length_ns)


class EachDevice(PolledCollector[list[Answer[Told]]], ABC):
    """A collector that asks devices one by one: the one that its target names, or all that its mechanism knows.

    A value is uncertain from the moment of its call to the end of the reading. A device that does not report what is
    asked is refused where it is named, and left out and said of the machine; one that is lost ends the request when
    it was the last. An answer that the driver gave before is counted in `repeated_samples`, and makes no row.
    """

    topic: str
    """What is asked, as a sentence names it."""

    def open_files(self, target: BoundTarget) -> None:
        """Find the devices and ask each once. Raises MachineRefused where none of them reports it."""
        self.repeats: Counter[Device] = Counter()
        self._slow: dict[Device, Held] = {}
        self._facts: dict[str, None] = {}
        if isinstance(target.place, Device):
            self._refuse_stranger(target.place)
            chosen = [target.place]
        else:
            chosen = self.list_devices()
        self.devices = self._begin_all(chosen)

    @abstractmethod
    def list_devices(self) -> list[Device]:
        """List the devices of the machine that the mechanism knows. Raises MachineRefused where it cannot."""

    @abstractmethod
    def knows(self, driver: str) -> bool:
        """Tell whether the mechanism knows devices of a driver."""

    def _refuse_stranger(self, device: Device) -> None:
        if not self.knows(device.driver):
            raise MachineRefused(
                f"{device} is of the driver {device.driver}, which {self.resolved.backend.id} does not read"
            )

    def note_fact(self, sentence: str) -> None:
        """Have the answer say something, once."""
        self._facts[sentence] = None

    def _begin_all(self, devices: list[Device]) -> list[Device]:
        refused: dict[Device, MachineRefused] = {}
        for device in devices:
            try:
                self.begin(device)
            except DeviceRefusal as error:
                refused[device] = self._refuse(device, error)
        if refused and len(refused) == len(devices):
            raise next(iter(refused.values()))
        for device, refusal in refused.items():
            self.note_fact(f"{refusal.reason}: {device} is in no figure")
        return [device for device in devices if device not in refused]

    def _refuse(self, device: Device, error: DeviceRefusal) -> MachineRefused:
        if error.is_forbidden:
            return MachineRefused(f"{device} does not tell this user its {self.topic} ({error})", "run omn as root")
        if error.is_unsupported:
            condition = self.explain_absence(device)
            return MachineRefused(f"{device} does not report its {self.topic}{condition} ({error})")
        return MachineRefused(f"{device} does not answer for its {self.topic} ({error})")

    def explain_absence(self, _device: Device) -> str:
        """Return what in a device's state may be why it reports nothing, to follow `does not report its ...`."""
        return ""

    def begin(self, device: Device) -> None:
        """Ask a device for the first time. Raises DeviceRefusal where it cannot be asked."""
        self.ask(device)

    @abstractmethod
    def ask(self, device: Device) -> Told | None:
        """Ask a device; None where the driver has told nothing new. Raises DeviceRefusal."""

    def read(self) -> list[Answer[Told]]:
        """Ask every device. Raises TargetGone when the last one is lost."""
        answers: list[Answer[Told]] = []
        for device in tuple(self.devices):
            began_ns = self.context.clock()
            try:
                told = self.ask(device)
            except DeviceRefusal as error:
                self._note_failure(device, error)
            else:
                if told is None:
                    self.repeats[device] += 1
                else:
                    answers.append(Answer(device, told, began_ns))
            length_ns = self.context.clock() - began_ns
            if length_ns > HELD_NS:
                self._slow.setdefault(device, Held()).note(length_ns)
        if not self.devices:
            raise TargetGone
        return answers

    def _note_failure(self, device: Device, error: DeviceRefusal) -> None:
        if not error.is_loss_of_device:
            self.misses.note(f"{device}: {error}")
            return
        self.misses.note(f"{device} was lost ({error}), and what it did since its last reading is in no row")
        self.devices.remove(device)

    def make_rows(self, content: list[Answer[Told]], at_ns: int) -> Rows:
        """Return the rows of what was told, each uncertain from its own call on."""
        rows = self.make_device_rows(content, at_ns) if content else Rows()
        if rows.began_ns is None and rows.attributes:
            count = len(next(iter(rows.attributes.values())))
            told = [answer.began_ns for answer in content]
            return attrs.evolve(rows, began_ns=told if count == len(told) else [min(told)] * count)
        return rows

    @abstractmethod
    def make_device_rows(self, answers: list[Answer[Told]], at_ns: int) -> Rows:
        """Make rows of what devices told, never of nothing."""

    def fields(self) -> Mapping[str, int]:
        """Return how many answers were repetitions, and how many calls the driver held."""
        counts = {
            "repeated_samples": self.repeats.total(),
            "held_calls": sum(held.count for held in self._slow.values()),
        }
        return {name: count for name, count in counts.items() if count}

    def facts(self) -> tuple[str, ...]:
        """Say which devices are left out, which repeated themselves, and which the driver held."""
        repeated = [
            f"{device} had nothing new at {count} readings, which made no row" for device, count in self.repeats.items()
        ]
        held = [
            f"the driver held {held.count} readings of {device} for over {HELD_NS // 1_000_000} ms, the longest "
            f"{held.longest_ns / 1e6:.0f} ms: a value is from somewhere in its call"
            for device, held in self._slow.items()
        ]
        return (*self._facts, *repeated, *held)


class DeviceCollector(EachDevice[Told], ABC):
    """A collector that asks NVIDIA's devices, through NVML."""

    def open_files(self, target: BoundTarget) -> None:
        """Start the library, and find the devices."""
        self.library = get_library()
        super().open_files(target)
        if target.target.kind == "system":
            for other in list_drm_devices(self.context.sysroot, 0):
                self.note_fact(f"{other.name} ({other.pci}) is in no figure: NVML knows NVIDIA's devices alone")

    def list_devices(self) -> list[Device]:
        """List NVIDIA's devices."""
        try:
            return list_nvml_devices(self.library)
        except NvmlError as error:
            raise MachineRefused(f"NVIDIA's devices cannot be listed ({error})") from None

    def knows(self, driver: str) -> bool:
        """Tell whether it is NVIDIA's."""
        return driver == NVIDIA

    def explain_absence(self, device: Device) -> str:
        """Name the division of a device, which keeps it from reporting some figures."""
        try:
            mode, _ = self.library.call("nvmlDeviceGetMigMode", device.handle)
        except NvmlError:
            return ""
        return " while it is divided (MIG)" if mode else ""


def key_by_device(answers: list[Answer[Told]]) -> dict[str, list[int]]:
    """Return the key column of a row for each answer."""
    return {"gpu": [answer.device.index for answer in answers]}
