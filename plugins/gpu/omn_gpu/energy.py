"""gpu.power: joules by the energy counter that a device keeps; the power that it shows at an instant is no energy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from omn_kernel.counters import Accounts, Misses
from omn_kernel.polling import Rows

from omn_core.api import BoundTarget
from omn_gpu.asking import Answer, DeviceCollector, key_by_device
from omn_gpu.device import Device
from omn_gpu.nvml import NvmlError

_COUNTER = "energy counter"
_PER_JOULE = 1_000_000


@attrs.frozen
class Energy:
    """A reading of the counter, millijoules since the driver was loaded, and the draw beside it, watts."""

    millijoules: int
    drawn_watts: float | None


@attrs.define
class Draw:
    """What a device's counter grew by in all, and what the driver's own figure of its draw came to in that time."""

    joules: float = 0.0
    drawn_joules: float = 0.0
    length_ns: int = 0

    def note(self, joules: float, drawn_watts: float, length_ns: int) -> None:
        """Add an interval."""
        self.joules += joules
        self.drawn_joules += drawn_watts * length_ns / 1e9
        self.length_ns += length_ns

    def explain(self, device: Device) -> str | None:
        """Say so where the counter implies less than half of the draw beside it, with both figures."""
        if not self.length_ns or self.joules * 2 >= self.drawn_joules:
            return None
        seconds = self.length_ns / 1e9
        return (
            f"polling the energy counter of {device} implied {self.joules / seconds:.3g} W where the driver's own "
            f"reading beside it was {self.drawn_joules / seconds:.3g} W: read so often, the counter falls short; "
            "-m count reads it at the ends alone"
        )


class EnergyAccount:
    """The counters of some devices, microjoules, and what they grew by; one that did not move says nothing yet."""

    def __init__(self, misses: Misses) -> None:
        self._accounts: Accounts[Device] = Accounts(misses, str)
        self._last: dict[Device, int] = {}
        self.draws: dict[Device, Draw] = {}

    def has_moved(self, device: Device, microjoules: int) -> bool:
        """Tell whether a counter moved since it was last asked, or is read for the first time."""
        moved = self._last.get(device) != microjoules
        self._last[device] = microjoules
        return moved

    def forget(self) -> None:
        """Take the next reading for a first one."""
        self._last.clear()

    def make_rows(
        self, readings: Sequence[tuple[Answer[Any], int]], at_ns: int, drawn: Sequence[float | None] = ()
    ) -> Rows:
        """Make the rows of counters that moved, beside the draws in watts where the driver told them."""
        grown = [
            (answer, self._accounts.advance_one(answer.device, {_COUNTER: microjoules}, at_ns), draw)
            for (answer, microjoules), draw in zip(readings, drawn or [None] * len(readings), strict=True)
        ]
        rows = [
            (answer, growth.by[_COUNTER] / _PER_JOULE, growth.length_ns, draw)
            for answer, growth, draw in grown
            if growth is not None
        ]
        if not rows:
            return Rows()
        for answer, joules, length_ns, draw in rows:
            if draw is not None:
                self.draws.setdefault(answer.device, Draw()).note(joules, draw, length_ns)
        columns: dict[str, list[float | None]] = {
            "joules": [joules for _, joules, _, _ in rows],
            "watts": [joules * 1e9 / length_ns for _, joules, length_ns, _ in rows],
            "interval_ns": [length_ns for _, _, length_ns, _ in rows],
        }
        if any(draw is not None for _, _, _, draw in rows):
            columns["drawn_watts"] = [draw for _, _, _, draw in rows]
        answers = [answer for answer, _, _, _ in rows]
        return Rows(key_by_device(answers), columns, [answer.began_ns for answer in answers])


class DeviceEnergy(DeviceCollector[Energy]):
    """A row for each device in each interval in which its counter moved; one that did not joins the next."""

    topic = _COUNTER

    def open_files(self, target: BoundTarget) -> None:
        """Find the devices. Raises MachineRefused where none keeps a counter."""
        self._account = EnergyAccount(self.misses)
        super().open_files(target)
        self._account.forget()

    def ask(self, device: Device) -> Energy | None:
        """Ask for the counter, and in a poll for the draw; None where the counter did not move."""
        millijoules = self.library.call("nvmlDeviceGetTotalEnergyConsumption", device.handle)
        if not self._account.has_moved(device, millijoules * 1000):
            return None
        return Energy(millijoules, self._ask_draw(device) if self.resolved.mode == "poll" else None)

    def _ask_draw(self, device: Device) -> float | None:
        try:
            return float(self.library.call("nvmlDeviceGetPowerUsage", device.handle)) / 1000
        except NvmlError:
            return None

    def make_device_rows(self, answers: list[Answer[Energy]], at_ns: int) -> Rows:
        """Return what each device's counter grew by."""
        readings = [(answer, answer.told.millijoules * 1000) for answer in answers]
        return self._account.make_rows(readings, at_ns, [answer.told.drawn_watts for answer in answers])

    def facts(self) -> tuple[str, ...]:
        """Say where polling made a counter fall short."""
        short = [draw.explain(device) for device, draw in self._account.draws.items()]
        return (*super().facts(), *(sentence for sentence in short if sentence is not None))
