"""Folders of graphics cards as the kernel lays them out, for the sysroot of a test."""

from __future__ import annotations

from collections.abc import Mapping

from omn_core.testing.sysroot import Sysroot


def write_card(sysroot: Sysroot, name: str, driver: str, pci: str, files: Mapping[str, str] | None = None) -> None:
    """Lay a card out: its device's folder below the bus, its own below that, and the link of the class.

    `files` are named as they are below the card's folder, those of its device behind `device/`.
    """
    device = f"sys/devices/pci0000:00/{pci}"
    sysroot.path(f"{device}/drm/{name}").mkdir(parents=True, exist_ok=True)
    for path, content in (files or {}).items():
        inner = path.removeprefix("device/")
        sysroot.write(f"{device}/{inner}" if inner != path else f"{device}/drm/{name}/{path}", content)
    sysroot.path(f"sys/bus/pci/drivers/{driver}").mkdir(parents=True, exist_ok=True)
    sysroot.link(f"{device}/driver", f"../../../bus/pci/drivers/{driver}")
    sysroot.link(f"{device}/drm/{name}/device", "../..")
    sysroot.link(f"sys/class/drm/{name}", f"../../devices/pci0000:00/{pci}/drm/{name}")
