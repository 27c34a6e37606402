"""Sensor chips in sysfs: what each is called and whose it is (Documentation/hwmon/sysfs-interface.rst)."""

from __future__ import annotations

import os

import attrs

from omn_kernel.polled import place, read_file

HWMON = "/sys/class/hwmon"


@attrs.frozen
class Chip:
    """A chip: its driver's name for it, its folder, and the device it belongs to, None where sysfs names none.

    Folders are numbered as drivers were loaded, so that only the name and the device mean anything to a reader.
    """

    name: str
    folder: str
    device: str | None


def list_chips(sysroot: str) -> list[Chip]:
    """List the chips in the order of their numbers. Empty where the kernel has no sensors."""
    chips: list[Chip] = []
    for folder in list_numbered(sysroot, HWMON, "hwmon"):
        try:
            name = read_text(sysroot, f"{folder}/name")
        except OSError:
            continue  # it went, or is one of the few that have no name
        link = place(sysroot, f"{folder}/device")
        chips.append(Chip(name, folder, os.path.basename(os.path.realpath(link)) if os.path.exists(link) else None))
    return chips


def list_numbered(sysroot: str, folder: str, prefix: str) -> list[str]:
    """List what a folder holds under a name and a number (`hwmon3`), as paths in the order of the numbers."""
    try:
        names = [name for name in os.listdir(place(sysroot, folder)) if name.removeprefix(prefix).isdigit()]
    except OSError:
        return []
    return [f"{folder}/{name}" for name in sorted(names, key=lambda name: int(name.removeprefix(prefix)))]


def read_text(sysroot: str, path: str) -> str:
    """Read a file of one line. Raises OSError as the kernel does."""
    return read_file(sysroot, path).decode("utf-8", "backslashreplace").strip()
