"""Graphics devices of the kernel's own drivers, as /sys/class/drm has them."""

from __future__ import annotations

import os
import re

import attrs
from omn_kernel.polled import place

DRIVERS = ("amdgpu", "i915", "xe")
"""The drivers whose files this family reads."""

_CLASS = "/sys/class/drm"
_CARD = re.compile(r"card\d+")


@attrs.frozen
class Card:
    """A card: the kernel's name for it, the driver that has it, and its address on the bus."""

    name: str
    driver: str
    pci: str

    @property
    def folder(self) -> str:
        """The card's folder."""
        return f"{_CLASS}/{self.name}"


def list_cards(sysroot: str) -> list[Card]:
    """List the cards that stand on a bus, by their addresses. Empty where the kernel has no DRM."""
    try:
        names = [name for name in os.listdir(place(sysroot, _CLASS)) if _CARD.fullmatch(name)]
    except OSError:
        return []
    found = [card for card in (_find_card(sysroot, name) for name in names) if card is not None]
    return sorted(found, key=lambda card: (card.pci, card.name))


def _find_card(sysroot: str, name: str) -> Card | None:
    """Find a card's driver and address: the links `driver` and `device`. None for one that stands on no device."""
    device = place(sysroot, f"{_CLASS}/{name}/device")
    try:
        driver = os.path.basename(os.readlink(f"{device}/driver"))
        return Card(name, driver, os.path.basename(os.path.realpath(device)))
    except OSError:
        return None
