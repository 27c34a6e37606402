"""Graphics devices: what there are, in which order they are numbered, and the one that `--gpu` names."""

from __future__ import annotations

import re
from typing import Any

import attrs

from omn_core.api import BoundTarget, MachineRefused, Probe, ProbeContext, Target
from omn_gpu.drm import DRIVERS, list_cards
from omn_gpu.nvml import Library, NvmlError, ask_library

NVIDIA = "nvidia"

_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)


@attrs.frozen(eq=False)
class Device:
    """A graphics device: its number, its driver, its address on the bus as the kernel writes it (`0000:65:00.0`).

    `uuid` and `handle` are NVML's, None for a device of another driver.
    """

    index: int
    driver: str
    pci: str
    name: str
    uuid: str | None = None
    handle: Any = None

    def __str__(self) -> str:
        return f"gpu {self.index} ({self.name})"

    def describe(self) -> dict[str, Any]:
        """Return what a result says of it."""
        described = {"gpu": self.index, "name": self.name, "driver": self.driver, "pci": self.pci, "uuid": self.uuid}
        return {name: value for name, value in described.items() if value is not None}


def find_pci(text: str) -> str | None:
    """Find the kernel's spelling of a PCI address (`65:00.0`, `00000000:65:00.0`); None for any other text."""
    found = _PCI.fullmatch(text)
    if found is None:
        return None
    domain, bus, slot, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus.lower()}:{slot.lower()}.{function}"


def list_nvml_devices(library: Library) -> list[Device]:
    """List NVIDIA's devices in the library's order, which is that of their addresses. Raises NvmlError."""
    return [_make_device(library, index) for index in range(library.call("nvmlDeviceGetCount"))]


def _make_device(library: Library, index: int) -> Device:
    handle = library.call("nvmlDeviceGetHandleByIndex", index)
    bus = library.call("nvmlDeviceGetPciInfo", handle).busId
    written = bus.decode() if isinstance(bus, bytes) else bus
    name = library.call("nvmlDeviceGetName", handle)
    uuid = library.call("nvmlDeviceGetUUID", handle)
    return Device(index, NVIDIA, find_pci(written) or written, name, uuid, handle)


def list_drm_devices(sysroot: str, first: int) -> list[Device]:
    """List the devices of the drivers of the kernel that are read through DRM, numbered from `first` on."""
    cards = [card for card in list_cards(sysroot) if card.driver in DRIVERS]
    return [
        Device(first + place, card.driver, card.pci, f"{card.driver} {card.name}") for place, card in enumerate(cards)
    ]


def list_devices(sysroot: str) -> tuple[list[Device], Probe | None]:
    """List every device, NVIDIA's first, and say why there are none of NVIDIA's where the library does not answer."""
    found = ask_library()
    if isinstance(found, Probe):
        return list_drm_devices(sysroot, 0), found
    devices = list_nvml_devices(found)
    return devices + list_drm_devices(sysroot, len(devices)), None


def bind_gpu(target: Target, context: ProbeContext) -> BoundTarget:
    """Find a graphics device by its number, its UUID or its PCI address; its `place` is a `Device`.

    Raises MachineRefused where there is none of that name, naming those that there are.
    """
    try:
        devices, unanswered = list_devices(context.sysroot)
    except NvmlError as error:
        raise MachineRefused(f"the graphics devices of this machine cannot be listed ({error})") from None
    wanted = target.value.strip()
    device = next((device for device in devices if _is_named(device, wanted)), None)
    if device is None:
        raise MachineRefused(f"there is no graphics device {wanted!r}", _list_remedy(devices, unanswered))
    return BoundTarget(target, target.scope, place=device, described=device.describe())


def _is_named(device: Device, wanted: str) -> bool:
    if wanted.isdigit():
        return device.index == int(wanted)
    return wanted in (device.uuid, device.pci) or find_pci(wanted) == device.pci


def _list_remedy(devices: list[Device], unanswered: Probe | None) -> str:
    if devices:
        return "the machine's are " + ", ".join(f"{device.index} ({device.name}, {device.pci})" for device in devices)
    missing = "NVML names none" if unanswered is None else unanswered.reason
    return f"{missing}, and no device of {', '.join(DRIVERS)} is in /sys/class/drm"
