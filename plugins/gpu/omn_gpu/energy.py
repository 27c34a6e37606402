"""gpu.power: joules by the energy counter that a device keeps; the power that it shows at an instant is no energy."""

from __future__ import annotations

import attrs
from omn_kernel.counters import Accounts
from omn_kernel.polling import Rows

from omn_core.api import BoundTarget
from omn_gpu.asking import Answer, DeviceCollector
from omn_gpu.devices import Device
from omn_gpu.nvml import NvmlError

_COUNTER = "energy counter"


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


class DeviceEnergy(DeviceCollector[Energy]):
    """A row for each device in each interval in which its counter moved; one that did not joins the next."""

    topic = _COUNTER

    def open_files(self, target: BoundTarget) -> None:
        """Find the devices. Raises MachineRefused where none keeps a counter."""
        self._accounts: Accounts[Device] = Accounts(self.misses, str)
        self._last: dict[Device, int] = {}
        self._draws: dict[Device, Draw] = {}
        super().open_files(target)
        self._last.clear()

    def ask(self, device: Device) -> Energy | None:
        """Ask for the counter, and in a poll for the draw; None where the counter did not move."""
        millijoules = self.library.call("nvmlDeviceGetTotalEnergyConsumption", device.handle)
        if self._last.get(device) == millijoules:
            return None
        self._last[device] = millijoules
        return Energy(millijoules, self._ask_draw(device) if self.resolved.mode == "poll" else None)

    def _ask_draw(self, device: Device) -> float | None:
        try:
            return float(self.library.call("nvmlDeviceGetPowerUsage", device.handle)) / 1000
        except NvmlError:
            return None

    def make_device_rows(self, answers: list[Answer[Energy]], at_ns: int) -> Rows:
        """Return what each device's counter grew by."""
        grown = [
            (answer, self._accounts.advance_one(answer.device, {_COUNTER: answer.told.millijoules}, at_ns))
            for answer in answers
        ]
        rows = [
            (answer, growth.by[_COUNTER] / 1000, growth.length_ns) for answer, growth in grown if growth is not None
        ]
        if not rows:
            return Rows()
        draws = [answer.told.drawn_watts for answer, _, _ in rows]
        for (answer, joules, length_ns), drawn in zip(rows, draws, strict=True):
            if drawn is not None:
                self._draws.setdefault(answer.device, Draw()).note(joules, drawn, length_ns)
        columns: dict[str, list[float | None]] = {
            "joules": [joules for _, joules, _ in rows],
            "watts": [joules * 1e9 / length_ns for _, joules, length_ns in rows],
            "interval_ns": [length_ns for _, _, length_ns in rows],
        }
        if any(drawn is not None for drawn in draws):
            columns["drawn_watts"] = draws
        return Rows(
            {"gpu": [answer.device.index for answer, _, _ in rows]}, columns, [answer.began_ns for answer, _, _ in rows]
        )

    def facts(self) -> tuple[str, ...]:
        """Say where polling made a counter fall short."""
        short = [draw.explain(device) for device, draw in self._draws.items()]
        return (*super().facts(), *(sentence for sentence in short if sentence is not None))
