"""power.temp on trees of sensors: a laptop's chips and zones, and those that are at fault, silent or gone.

The layouts are those of Documentation/hwmon/sysfs-interface.rst and Documentation/ABI/testing/sysfs-class-thermal.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest
from omn_kernel.hwmon import HWMON
from omn_kernel.polled import PolledFile
from omn_power.probes import probe_temperature
from omn_power.sensors import THERMAL, list_sensors
from omn_power.temperatures import Temperatures

from omn_core.api import MachineRefused, Need, ProbeContext, State, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, resolve_onto
from omn_core.testing.sysroot import Sysroot

Drive = Callable[..., Driver]


@pytest.fixture
def drive(catalog: Catalog, sysroot: Sysroot) -> Drive:
    """Make a driver on the tree."""

    def make(*keys: str, says: str | None = None) -> Driver:
        resolved = resolve_onto(
            catalog.entries["power.temp"], "fs:sys:sensors", Target("system"), keys=keys, predicate=says
        )
        return Driver(Temperatures(), resolved, bind_machine(), sysroot=str(sysroot))

    return make


def write_chip(sysroot: Sysroot, number: int, name: str, device: str, **files: int | str) -> None:
    """Lay a chip out below its device."""
    folder = f"{HWMON}/hwmon{number}"
    sysroot.write(f"{folder}/name", f"{name}\n")
    sysroot.path(f"sys/devices/{device}").mkdir(parents=True, exist_ok=True)
    sysroot.link(f"{folder}/device", f"../../../devices/{device}")
    for file, content in files.items():
        sysroot.write(f"{folder}/{file}", f"{content}\n")


def write_zone(sysroot: Sysroot, number: int, kind: str, temp: int | str, **trips: int | str) -> None:
    """Lay a thermal zone out."""
    folder = f"{THERMAL}/thermal_zone{number}"
    for file, content in {"type": kind, "temp": temp, "mode": "enabled", **trips}.items():
        sysroot.write(f"{folder}/{file}", f"{content}\n")


def lay_out_laptop(sysroot: Sysroot) -> None:
    """Lay out what a laptop of one package, two drives and a wireless card shows."""
    write_zone(
        *(sysroot, 0, "acpitz", 27_800),
        trip_point_0_type="passive",
        trip_point_0_temp=90_000,
        trip_point_1_type="critical",
        trip_point_1_temp=119_000,
    )
    write_zone(sysroot, 2, "x86_pkg_temp", 61_000)
    write_chip(sysroot, 0, "acpitz", "thermal_zone0", temp1_input=27_800)
    write_chip(
        *(sysroot, 1, "nvme", "nvme0"),
        temp1_input=38_850,
        temp1_label="Composite",
        temp1_crit=84_850,
        temp2_input=52_850,
    )
    write_chip(sysroot, 2, "nvme", "nvme1", temp1_input=41_850, temp1_label="Composite")
    write_chip(
        *(sysroot, 7, "coretemp", "coretemp.0"),
        temp1_input=61_000,
        temp1_label="Package id 0",
        temp1_crit=100_000,
        temp10_input=59_000,
        temp10_label="Core 8",
        temp2_input=60_000,
        temp2_label="Core 0",
    )
    write_chip(sysroot, 8, "BAT0", "PNP0C0A:00", in0_input=12_000)


LAPTOP = {
    "thermal/acpitz": 27.8,
    "thermal/x86_pkg_temp": 61.0,
    "nvme@nvme0/Composite": 38.85,
    "nvme/temp2": 52.85,
    "nvme@nvme1/Composite": 41.85,
    "coretemp/Package id 0": 61.0,
    "coretemp/Core 0": 60.0,
    "coretemp/Core 8": 59.0,
}


@pytest.mark.spec("PWR-1")
def test_every_sensor_is_read_once_and_named_by_what_it_is_of(sysroot: Sysroot, drive: Drive) -> None:
    """By chip and label, by the device where two drives have both in common; a zone's second showing is left out."""
    lay_out_laptop(sysroot)
    with drive("power.sensor") as driver:
        rows = driver.sample()
        assert driver.collector.reads_at_open
    assert {row["power.sensor"]: row["celsius"] for row in rows} == LAPTOP
    assert list(list_sensors(str(sysroot))) == list(LAPTOP)
    assert driver.collector.losses().is_empty


@pytest.mark.spec("EVT-5")
def test_a_limit_is_there_where_the_sensor_states_one(sysroot: Sysroot, drive: Drive) -> None:
    """Of a chip its critical one, of a zone its critical trip point; of the others none, and no zero."""
    lay_out_laptop(sysroot)
    with drive("power.sensor") as driver:
        limits = {row["power.sensor"]: row["critical_celsius"] for row in driver.sample() if "critical_celsius" in row}
    assert limits == {"thermal/acpitz": 119.0, "nvme@nvme0/Composite": 84.85, "coretemp/Package id 0": 100.0}


@pytest.mark.spec("PWR-1")
def test_undivided_it_is_the_hottest_at_each_reading(sysroot: Sysroot, drive: Drive) -> None:
    """With its name: temperatures of different things make no mean."""
    lay_out_laptop(sysroot)
    with drive() as driver:
        driver.sample()
        sysroot.write(f"{HWMON}/hwmon2/temp1_input", "93850\n")
        driver.sample()
        assert [(row["power.sensor"], row["celsius"]) for row in driver.rows] == [
            ("thermal/x86_pkg_temp", 61.0),
            ("nvme@nvme1/Composite", 93.85),
        ]


def test_a_filter_of_a_chip_finds_its_sensors(sysroot: Sysroot, drive: Drive) -> None:
    """Each has its row to be chosen among."""
    lay_out_laptop(sysroot)
    with drive(says="chip == 'coretemp'") as driver:
        assert len(driver.sample()) == len(LAPTOP)


@pytest.mark.spec("EVT-5")
def test_a_sensor_that_tells_nothing_is_absent_and_counted(sysroot: Sysroot, drive: Drive) -> None:
    """At fault, below the absolute zero (the kernel's word for none), below freezing (which is a temperature)."""
    write_chip(sysroot, 0, "lm75", "0-0048", temp1_input=21_000, temp1_fault=0, temp2_input=-40_000)
    write_zone(sysroot, 0, "soc", 30_000)
    with drive("power.sensor") as driver:
        sysroot.write(f"{HWMON}/hwmon0/temp1_fault", "1\n").write(f"{THERMAL}/thermal_zone0/temp", "-274000\n")
        assert [(row["power.sensor"], row["celsius"]) for row in driver.sample()] == [("lm75/temp2", -40.0)]
        losses = driver.collector.losses()
    assert losses.failed_reads == 2
    assert losses.reasons == ("thermal/soc gave no temperature", "lm75/temp1 says that it is at fault")


def test_a_sensor_that_goes_away_is_said_and_the_last_one_is_the_end(
    sysroot: Sysroot, drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its driver was unloaded: the kernel answers ENODEV for what is open. One that is busy is a failed read."""
    write_zone(sysroot, 0, "soc", 30_000)
    write_zone(sysroot, 1, "gpu", 31_000)
    answers = {"thermal_zone0": errno.ENODEV, "thermal_zone1": errno.EAGAIN}
    read = PolledFile.read

    def answer(file: PolledFile) -> bytes:
        for zone, code in answers.items():
            if zone in file.path:
                raise OSError(code, os.strerror(code))
        return read(file)

    with drive("power.sensor") as driver:
        monkeypatch.setattr(PolledFile, "read", answer)
        assert driver.sample() == []
        assert driver.collector.losses().reasons == ("thermal/gpu: Resource temporarily unavailable",)
        assert driver.collector.facts() == ("the sensor thermal/soc went away in the window",)
        answers["thermal_zone1"] = errno.ENODEV
        with pytest.raises(TargetGone):
            driver.sample()


def test_a_machine_without_sensors_names_the_files(sysroot: Sysroot, drive: Drive) -> None:
    """A chip of voltages alone is none either."""
    write_chip(sysroot, 0, "BAT0", "PNP0C0A:00", in0_input=12_000)
    answer = probe_temperature(Need("temperature", "temperature"), ProbeContext(sysroot=str(sysroot)))
    assert answer.state is State.MISSING
    absent = "/sys/class/thermal/thermal_zone0 and /sys/class/hwmon/hwmon0/temp1_input are not there"
    assert answer.reason == f"no sensor of this machine shows a temperature ({absent})"
    with pytest.raises(MachineRefused, match="no sensor of /sys/class/thermal and /sys/class/hwmon can be read here"):
        drive().__enter__()


@pytest.mark.spec("CAT-12")
def test_from_the_command_line_each_sensor_has_its_series(omn: Command, sysroot: Sysroot) -> None:
    """Over a tree, and said to be no real hardware."""
    lay_out_laptop(sysroot)
    asked = ("power.temp", "-m", "snapshot", "-e", "summary", "--keys", "power.sensor", "--system", "--format", "json")
    ran = omn(*asked, OMN_SYSROOT=str(sysroot))
    assert ran.code == 0, ran.stderr
    found = {series["key"]["power.sensor"]: series["emits"]["summary"]["max"] for series in ran.result["series"]}
    assert found == LAPTOP
    assert "was never run on its hardware: trees of hwmon" in ran.result["unverified"][0]
