"""Graphics devices: what there are, in which order they are numbered, and the one that `--gpu` names."""

from __future__ import annotations

from omn_core.api import BoundTarget, MachineRefused, Probe, ProbeContext, Target
from omn_gpu.device import NVIDIA, Device, find_pci
from omn_gpu.drm import DRIVERS, list_cards
from omn_gpu.nvml import Library, NvmlError, ask_library


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
