"""gpu.clocks: the clocks of a device, read and never changed, and what holds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from omn_kernel.polling import Rows

from omn_core.api import Batch
from omn_gpu.asking import Answer, DeviceCollector, key_by_device
from omn_gpu.device import Device
from omn_gpu.nvml import NvmlError

_HZ_PER_MHZ = 1_000_000
_CLOCKS = {"graphics_hz": 0, "sm_hz": 1, "mem_hz": 2, "video_hz": 3}  # nvmlClockType_t
_REASONS = {
    0x1: "idle",
    0x2: "the applications clocks",
    0x4: "the power cap",
    0x8: "a hardware slowdown",
    0x10: "sync boost",
    0x20: "its temperature, by the driver",
    0x40: "its temperature, by the hardware",
    0x80: "the power brake",
    0x100: "the display",
}
"""What holds the clocks below their most (nvmlClocksEventReasons)."""


class DeviceClocks(DeviceCollector[Mapping[str, int]]):
    """A row for each device. What holds its clocks is asked before the window and after it: a call takes 17 to 32 ms.

    NVML has no reading of a lock of the shader clock, so that none is claimed and none denied.
    """

    reads_at_open = True
    topic = "clocks"

    def begin(self, device: Device) -> None:
        """Ask for the clocks and for what holds them."""
        super().begin(device)
        self._at_begin[device] = self._ask_state(device)

    def prepare(self, *arguments: Any) -> None:
        """Begin with no state known."""
        super().prepare(*arguments)
        self._at_begin: dict[Device, str] = {}
        self._at_end: dict[Device, str] = {}

    def ask(self, device: Device) -> Mapping[str, int]:
        """Ask for each clock; one that the device does not have is absent, and all of them is a refusal."""
        clocks: dict[str, int] = {}
        refusal: NvmlError | None = None
        for name, kind in _CLOCKS.items():
            try:
                clocks[name] = self.library.call("nvmlDeviceGetClockInfo", device.handle, kind) * _HZ_PER_MHZ
            except NvmlError as error:
                if not error.is_unsupported:
                    raise
                refusal = error
        if refusal is not None and "sm_hz" not in clocks:
            raise refusal
        return clocks

    def make_device_rows(self, answers: list[Answer[Mapping[str, int]]], at_ns: int) -> Rows:
        """Return the rows."""
        names = [name for name in _CLOCKS if any(name in answer.told for answer in answers)]
        return Rows(key_by_device(answers), {name: [answer.told.get(name) for answer in answers] for name in names})

    def stop(self) -> Batch:
        """Ask once more for what holds the clocks: no measurement, and too slow to be asked in the window."""
        self._at_end = {device: self._ask_state(device) for device in self._at_begin}
        return super().stop()

    def _ask_state(self, device: Device) -> str:
        application = self._describe("nvmlDeviceGetApplicationsClock", device, lambda mhz: f"{mhz} MHz", 1)
        persistence = self._describe("nvmlDeviceGetPersistenceMode", device, lambda on: "on" if on else "off")
        held = self._describe("nvmlDeviceGetCurrentClocksEventReasons", device, _name_reasons)
        return (
            f"shader clock not shown locked, applications clock {application}, persistence mode {persistence}, "
            f"held by {held}"
        )

    def _describe(self, function: str, device: Device, spell: Callable[[int], str], *arguments: int) -> str:
        try:
            return spell(self.library.call(function, device.handle, *arguments))
        except NvmlError:
            return "unknown"

    def facts(self) -> tuple[str, ...]:
        """Say what held the clocks when the request began, and what did at its end where that is another."""
        moved = [
            f"{device}: {state}" + (f"; at the end {self._at_end[device]}" if self._has_moved(device) else "")
            for device, state in self._at_begin.items()
        ]
        return (*super().facts(), *moved)

    def _has_moved(self, device: Device) -> bool:
        return self._at_end.get(device, self._at_begin[device]) != self._at_begin[device]


def _name_reasons(reasons: int) -> str:
    named = [name for bit, name in _REASONS.items() if reasons & bit]
    unnamed = reasons & ~sum(_REASONS)
    if unnamed:
        named.append(f"a reason that has no name here ({unnamed:#x})")
    return " and ".join(named) if named else "nothing"
