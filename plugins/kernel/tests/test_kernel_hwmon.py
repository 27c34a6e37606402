"""Sensor chips as sysfs lists them, and the requirement that names one."""

from __future__ import annotations

import pytest
from omn_kernel.hwmon import HWMON, Chip, list_chips, list_numbered
from omn_kernel.probes.sensors import probe_hwmon

from omn_core.api import AVAILABLE, Need, ProbeContext, State
from omn_core.testing.sysroot import Sysroot


def write_chip(sysroot: Sysroot, number: int, name: str | None, device: str | None = None) -> None:
    """Lay a chip out below its device, as Documentation/hwmon/sysfs-interface.rst has it, or without one."""
    folder = f"{HWMON}/hwmon{number}"
    sysroot.path(folder).mkdir(parents=True)
    if name is not None:
        sysroot.write(f"{folder}/name", f"{name}\n")
    if device is not None:
        sysroot.path(f"sys/devices/{device}").mkdir(parents=True, exist_ok=True)
        sysroot.link(f"{folder}/device", f"../../../devices/{device}")


def test_chips_have_a_name_and_a_device(sysroot: Sysroot) -> None:
    """In the order of their numbers, ten after nine; one without a name is passed over."""
    write_chip(sysroot, 10, "nvme", "nvme0")
    write_chip(sysroot, 9, "coretemp", "coretemp.0")
    write_chip(sysroot, 2, "virtual")
    write_chip(sysroot, 1, None)
    assert list_chips(str(sysroot)) == [
        Chip("virtual", f"{HWMON}/hwmon2", None),
        Chip("coretemp", f"{HWMON}/hwmon9", "coretemp.0"),
        Chip("nvme", f"{HWMON}/hwmon10", "nvme0"),
    ]


def test_what_is_not_numbered_is_not_listed(sysroot: Sysroot) -> None:
    """Nor is anything of a folder that is not there."""
    sysroot.write("/sys/class/thermal/thermal_zone3/type", "x\n").write(
        "/sys/class/thermal/cooling_device0/type", "y\n"
    )
    assert list_numbered(str(sysroot), "/sys/class/thermal", "thermal_zone") == ["/sys/class/thermal/thermal_zone3"]
    assert list_numbered(str(sysroot), "/sys/class/none", "thermal_zone") == []


@pytest.mark.spec("PRB-3")
def test_a_chip_is_asked_for_by_name(sysroot: Sysroot) -> None:
    """What is missing is named, with what there is in its place."""
    need, context = Need("hwmon:coretemp", "hwmon", "coretemp"), ProbeContext(sysroot=str(sysroot))
    absent = probe_hwmon(need, context)
    assert (absent.state, absent.reason) == (
        State.MISSING,
        "this machine shows no sensor chips (/sys/class/hwmon/hwmon0 is not there)",
    )
    write_chip(sysroot, 0, "nvme")
    write_chip(sysroot, 1, "nvme")
    assert probe_hwmon(need, context).reason == "no chip here is called coretemp; there are nvme"
    write_chip(sysroot, 2, "coretemp")
    assert probe_hwmon(need, context) == AVAILABLE
