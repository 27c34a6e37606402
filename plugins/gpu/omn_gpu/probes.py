"""Whether this machine has the libraries and drivers that the family's backends ask."""

from __future__ import annotations

import ctypes
import glob

from omn_kernel.polled import place

from omn_core.api import AVAILABLE, Need, Probe, ProbeContext, State
from omn_gpu.device import NVIDIA, Device
from omn_gpu.drm import DRIVERS, list_cards
from omn_gpu.nvml import NvmlError, ask_library

_CUPTI = "libcupti.so"


def probe_nvml(_need: Need, context: ProbeContext) -> Probe:
    """Answer whether NVML loads, starts, and knows a device: a library without its driver loads too.

    For a target that is a device, whether it is NVIDIA's.
    """
    if isinstance(context.place, Device) and context.place.driver != NVIDIA:
        return Probe(
            State.MISSING, f"{context.place} is of the driver {context.place.driver}, which NVML does not know"
        )
    found = ask_library()
    if isinstance(found, Probe):
        return found
    try:
        count = found.call("nvmlDeviceGetCount")
    except NvmlError as error:
        return Probe(State.UNKNOWN, f"NVIDIA's driver does not count its devices ({error})")
    if count == 0:
        return Probe(State.MISSING, "NVIDIA's driver is loaded and has no device")
    return AVAILABLE


def probe_cupti(need: Need, context: ProbeContext) -> Probe:
    """Answer whether CUPTI, which a launched CUDA program loads, can be loaded, on a device that is there."""
    try:
        ctypes.CDLL(_CUPTI)
    except OSError:
        return Probe(State.MISSING, f"{_CUPTI} is not here", "it comes with NVIDIA's CUDA toolkit")
    return probe_nvml(need, context)


def probe_drm(need: Need, context: ProbeContext) -> Probe:
    """Answer `drm:amdgpu:gpu_busy_percent`: a card of one of some drivers that has a file in its device's folder.

    `drm:i915|xe` asks for a card alone, `drm:any` for one of any driver that this family reads. A file is named with
    the wildcards that its numbering needs. For a target that is a device, that one alone is looked at.
    """
    named, _, path = need.argument.partition(":")
    drivers = DRIVERS if named == "any" else tuple(named.split("|"))
    cards = [card for card in list_cards(context.sysroot) if card.driver in drivers]
    device = context.place
    if isinstance(device, Device):
        if device.driver not in drivers:
            return Probe(State.MISSING, f"{device} is of the driver {device.driver}, and not of {' or '.join(drivers)}")
        cards = [card for card in cards if card.pci == device.pci]
    if not cards:
        return Probe(State.MISSING, f"no card of the driver {' or '.join(drivers)} is in /sys/class/drm")
    if not path or any(glob.glob(place(context.sysroot, f"{card.folder}/{path}")) for card in cards):
        return AVAILABLE
    return Probe(State.MISSING, f"no card of {' or '.join(drivers)} here has {path}")
