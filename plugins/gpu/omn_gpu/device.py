"""A graphics device, as everything of this family means it."""

from __future__ import annotations

import re
from typing import Any

import attrs

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
