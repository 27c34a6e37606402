"""What a process's open descriptors of a graphics card say (Documentation/gpu/drm-usage-stats.rst, Linux 5.19)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

import attrs
from omn_kernel.polled import place, read_file
from omn_kernel.procfs.process import ProcessGone, refuse_reading

_NODES = "/dev/dri/"
_UNITS = {b"KiB": 1 << 10, b"MiB": 1 << 20}
_OWN = re.compile(r"vram|local|stolen-local")
"""Regions of the device's own memory: `vram` (amdgpu), `vram0` (xe), `local0` and `stolen-local0` (i915)."""


@attrs.frozen
class Client:
    """An open file of a card, which descriptors may share: its driver, its card's address, its number there.

    `busy` is what each engine worked for it (nanoseconds, or cycles beside `total_cycles`), `capacity` how many alike
    an engine's name stands for. `regions` is what it has resident in each region of memory, bytes.
    """

    driver: str
    pci: str
    number: int
    busy: Mapping[str, int]
    total_cycles: Mapping[str, int]
    capacity: Mapping[str, int]
    regions: Mapping[str, int]

    @property
    def own_bytes(self) -> int:
        """Bytes in the device's own memory, 0 on a device that has none."""
        return sum(size for region, size in self.regions.items() if _OWN.match(region))

    @property
    def system_bytes(self) -> int:
        """Bytes in the machine's main memory, for the device to use."""
        return sum(size for region, size in self.regions.items() if not _OWN.match(region))


def parse_fdinfo(content: bytes) -> Client | None:
    """Parse /proc/<pid>/fdinfo/<fd>; None for what is no client of a card on a bus, or has no number to tell it by.

    A region's amount is `drm-resident-`, or what kernels had before it under `drm-memory-`.
    """
    texts: dict[str, bytes] = {}
    groups: dict[str, dict[str, int]] = {}
    for line in content.split(b"\n"):
        key, colon, value = line.partition(b":")
        if not colon or not key.startswith(b"drm-"):
            continue
        name = key[4:].decode("ascii", "replace")
        texts[name] = value.strip()
        for group in ("engine-capacity-", "engine-", "total-cycles-", "cycles-", "resident-", "memory-"):
            if name.startswith(group):
                groups.setdefault(group, {})[name.removeprefix(group)] = _parse_amount(value)
                break
    if not {"driver", "pdev", "client-id"} <= texts.keys():
        return None
    return Client(
        texts["driver"].decode("ascii", "replace"),
        texts["pdev"].decode("ascii", "replace"),
        int(texts["client-id"]),
        {**groups.get("engine-", {}), **groups.get("cycles-", {})},
        groups.get("total-cycles-", {}),
        groups.get("engine-capacity-", {}),
        {**groups.get("memory-", {}), **groups.get("resident-", {})},
    )


def _parse_amount(value: bytes) -> int:
    number, _, unit = value.strip().partition(b" ")
    return int(number) * _UNITS.get(unit.strip(), 1)


def read_clients(sysroot: str, pid: int) -> list[Client]:
    """Read the clients that a process has open, one for each descriptor.

    Raises ProcessGone at its end, MachineRefused where its descriptors are closed to this user.
    """
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(place(sysroot, folder))
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessGone(f"process {pid} is not there") from None
    except PermissionError:
        raise refuse_reading(pid, "descriptors") from None
    found = (_find_client(sysroot, pid, name) for name in names)
    return [client for client in found if client is not None]


def _find_client(sysroot: str, pid: int, name: str) -> Client | None:
    try:
        if not os.readlink(place(sysroot, f"/proc/{pid}/fd/{name}")).startswith(_NODES):
            return None
        return parse_fdinfo(read_file(sysroot, f"/proc/{pid}/fdinfo/{name}"))
    except OSError:
        # The descriptor was closed since the listing.
        return None


def merge_clients(clients: Iterable[Client]) -> dict[tuple[str, int], Client]:
    """Take each client once, by its card and its number: descriptors that were copied or inherited share one."""
    return {(client.pci, client.number): client for client in clients}
