"""Which processes hold a part of a device: NVML's lists of computing, drawing and multi-process service clients."""

from __future__ import annotations

from typing import Any

import attrs

from omn_gpu.device import Device
from omn_gpu.nvml import Library, NvmlError

_LISTS = {
    "compute": "nvmlDeviceGetComputeRunningProcesses",
    "graphics": "nvmlDeviceGetGraphicsRunningProcesses",
    "mps": "nvmlDeviceGetMPSComputeRunningProcesses",
}


@attrs.frozen
class Holder:
    """A process on a device: its bytes of the device's memory, None where the driver does not tell; what it does."""

    pid: int
    held_bytes: int | None
    use: str


def list_holders(library: Library, device: Device) -> dict[int, Holder]:
    """List a device's processes by their numbers. Raises NvmlError where it lists none of any kind.

    One that computes and draws is in two lists with the same amount, which counts once; on a device that is divided
    (MIG) it has an amount in each part, which add up.
    """
    parts: dict[int, dict[tuple[int, int], int | None]] = {}
    uses: dict[int, list[str]] = {}
    refusal: NvmlError | None = None
    answered = False
    for use, function in _LISTS.items():
        try:
            listed = _list(library, function, device)
        except NvmlError as error:
            if not error.is_unsupported:
                raise
            refusal = refusal or error
            continue
        answered = True
        for process in listed:
            part = (process.gpuInstanceId, process.computeInstanceId)
            parts.setdefault(process.pid, {})[part] = process.usedGpuMemory
            uses.setdefault(process.pid, []).append(use)
    if refusal is not None and not answered:
        raise refusal
    return {
        pid: Holder(pid, _add(list(amounts.values())), "+".join(dict.fromkeys(uses[pid])))
        for pid, amounts in parts.items()
    }


def _list(library: Library, function: str, device: Device) -> list[Any]:
    """List by the newest form of a call, or by the one before it (drivers before 510)."""
    try:
        return list(library.call(f"{function}_v3", device.handle))
    except NvmlError as error:
        if not error.is_unsupported:
            raise
    return list(library.call(f"{function}_v2", device.handle))


def _add(amounts: list[int | None]) -> int | None:
    return None if None in amounts else sum(amount for amount in amounts if amount is not None)
