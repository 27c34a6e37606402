"""Cards of amdgpu, i915 and xe on folders laid out as the kernel documents them: values, absences, going away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from drm_tree import write_card

from omn_core.api import BoundTarget, MachineRefused
from omn_core.model.catalog import Catalog
from omn_core.testing.harness import Driver, bind_machine
from omn_core.testing.sysroot import Sysroot

Bind = Callable[..., BoundTarget]
Drive = Callable[..., Driver]

AMD, XE, I915 = "0000:0b:00.0", "0000:0c:00.0", "0000:00:02.0"


@pytest.fixture
def cards(sysroot: Sysroot) -> Sysroot:
    """A card of each driver, an amdgpu one with every sensor."""
    write_card(
        sysroot,
        "card1",
        "amdgpu",
        AMD,
        {
            "device/gpu_busy_percent": "37\n",
            "device/mem_busy_percent": "12\n",
            "device/mem_info_vram_used": "1048576\n",
            "device/mem_info_vram_total": "8589934592\n",
            "device/hwmon/hwmon3/name": "amdgpu\n",
            "device/hwmon/hwmon3/temp1_input": "45000\n",
            "device/hwmon/hwmon3/temp1_label": "edge\n",
            "device/hwmon/hwmon3/temp2_input": "52000\n",
            "device/hwmon/hwmon3/temp2_label": "junction\n",
            "device/hwmon/hwmon3/temp3_input": "48500\n",
            "device/hwmon/hwmon3/temp3_label": "mem\n",
            "device/hwmon/hwmon3/freq1_input": "1500000000\n",
            "device/hwmon/hwmon3/freq2_input": "875000000\n",
        },
    )
    write_card(
        sysroot,
        "card0",
        "xe",
        XE,
        {
            "device/tile0/gt0/freq0/act_freq": "2400\n",
            "device/hwmon/hwmon4/name": "xe\n",
            "device/hwmon/hwmon4/energy1_input": "5000000\n",
            "device/hwmon/hwmon4/temp2_input": "61000\n",
            "device/hwmon/hwmon4/temp3_input": "64000\n",
        },
    )
    write_card(
        sysroot,
        "card2",
        "i915",
        I915,
        {
            "gt/gt0/rps_act_freq_mhz": "1100\n",
            "device/hwmon/hwmon1/name": "i915_gt0\n",
            "device/hwmon/hwmon1/energy1_input": "999\n",
            "device/hwmon/hwmon2/name": "i915\n",
            "device/hwmon/hwmon2/energy1_input": "7000000\n",
        },
    )
    return sysroot


def strip(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in ("ts_ns", "gpu")} for row in rows]


@pytest.mark.spec("GPU-1")
@pytest.mark.parametrize(
    ("source", "backend", "pci", "row"),
    [
        ("gpu.util", "fs:sys:amdgpu", AMD, {"util": 0.37, "mem_util": 0.12}),
        (
            "gpu.mem",
            "fs:sys:amdgpu",
            AMD,
            {"bytes": 1048576, "total_bytes": 8589934592, "free_bytes": 8589934592 - 1048576},
        ),
        ("gpu.temp", "fs:hwmon", AMD, {"celsius": 45.0, "junction_celsius": 52.0, "mem_celsius": 48.5}),
        ("gpu.temp", "fs:hwmon", XE, {"celsius": 61.0, "mem_celsius": 64.0}),
        ("gpu.clocks", "fs:sys:drm", AMD, {"sm_hz": 1_500_000_000, "mem_hz": 875_000_000}),
        ("gpu.clocks", "fs:sys:drm", XE, {"sm_hz": 2_400_000_000}),
        ("gpu.clocks", "fs:sys:drm", I915, {"sm_hz": 1_100_000_000}),
    ],
)
def test_each_file_is_the_attribute_it_is_documented_as(
    cards: Sysroot, drive: Drive, bind: Bind, source: str, backend: str, pci: str, row: dict[str, Any]
) -> None:
    """Percent, bytes, thousandths of a degree, hertz and megahertz, each in the unit of its attribute."""
    with drive(source, bind(pci, cards), backend=backend, sysroot=cards) as driver:
        assert strip(driver.sample()) == [row]


@pytest.mark.spec("GPU-1")
@pytest.mark.parametrize(("pci", "path"), [(XE, "hwmon4"), (I915, "hwmon2")])
def test_energy_is_the_cards_and_not_one_engines(cards: Sysroot, drive: Drive, bind: Bind, pci: str, path: str) -> None:
    """Microjoules make joules; i915 has sensors of its parts beside that of the whole."""
    counter = f"sys/devices/pci0000:00/{pci}/hwmon/{path}/energy1_input"
    before = int(cards.path(counter).read_text())
    with drive("gpu.power", bind(pci, cards), backend="fs:hwmon", sysroot=cards) as driver:
        assert driver.sample() == []
        cards.write(counter, f"{before + 2_500_000}\n")
        (row,) = driver.sample()
        assert row["joules"] == 2.5
        assert row["watts"] == pytest.approx(2.5e9 / row["interval_ns"])
        assert driver.collector.fields()["repeated_samples"] == 1


def test_what_a_card_has_no_file_of_is_refused_by_the_file(cards: Sysroot, drive: Drive, bind: Bind) -> None:
    """Older firmware keeps no account of how busy it is."""
    cards.remove(f"sys/devices/pci0000:00/{AMD}/gpu_busy_percent")
    with pytest.raises(MachineRefused) as refused:
        drive("gpu.util", bind(AMD, cards), backend="fs:sys:amdgpu", sysroot=cards).__enter__()
    assert "(amdgpu card1) does not report its utilization" in str(refused.value)
    assert "/sys/class/drm/card1/device/gpu_busy_percent: No such file or directory" in str(refused.value)


def test_a_card_of_another_driver_is_refused_by_its_driver(cards: Sysroot, drive: Drive, bind: Bind) -> None:
    """Whoever made the request, and whatever its chain was."""
    with pytest.raises(MachineRefused, match="is of the driver xe, which fs:sys:amdgpu does not read"):
        drive("gpu.mem", bind(XE, cards), backend="fs:sys:amdgpu", sysroot=cards).__enter__()


@pytest.mark.spec("EVT-3")
def test_of_the_machine_what_another_driver_has_is_said(cards: Sysroot, drive: Drive) -> None:
    """And a card that cannot be read is left out by name."""
    with drive("gpu.mem", bind_machine(), "gpu", backend="fs:sys:amdgpu", sysroot=cards) as driver:
        assert len(driver.sample()) == 1
        facts = driver.collector.facts()
    assert sum("is in no figure: fs:sys:amdgpu does not read" in fact for fact in facts) == 2


def test_a_file_that_stops_answering_is_a_failed_reading(cards: Sysroot, drive: Drive, bind: Bind) -> None:
    """With the path and the kernel's word; one beside the value is merely absent."""
    with drive("gpu.util", bind(AMD, cards), backend="fs:sys:amdgpu", sysroot=cards) as driver:
        files = driver.collector._files  # type: ignore[attr-defined]  # files of sysfs fail as regular ones cannot
        ((value, beside),) = files.values()
        beside[1].close()
        assert strip(driver.sample()) == [{"util": 0.37}]
        value[1].close()
        assert driver.sample() == []
        (reason,) = driver.collector.losses().reasons
    assert reason.endswith("/device/gpu_busy_percent: Bad file descriptor")


@pytest.mark.spec("CAT-12")
def test_what_was_never_run_on_its_hardware_says_so(catalog: Catalog) -> None:
    """Every backend that is collected names on what alone it was tested."""
    backends = [b for entry in catalog.entries.values() if entry.family == "gpu" for b in entry.chain]
    assert all((backend.unseen is None) == (backend.uncollected is not None) for backend in backends)
