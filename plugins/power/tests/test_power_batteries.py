"""power.battery on trees of supplies: one that states power, one that states current, and those that are no battery.

The layout is that of Documentation/ABI/testing/sysfs-class-power and Documentation/power/power_supply_class.rst.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping

import pytest
from omn_kernel.polled import PolledFile
from omn_power.batteries import Batteries
from omn_power.probes import probe_battery
from omn_power.supplies import SUPPLIES, compute_battery, list_batteries, parse_supply

from omn_core.api import MachineRefused, Need, ProbeContext, State, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, resolve_onto
from omn_core.testing.sysroot import Sysroot

Drive = Callable[[], Driver]

BY_ENERGY = {
    "NAME": "BAT0",
    "TYPE": "Battery",
    "STATUS": "Discharging",
    "PRESENT": "1",
    "TECHNOLOGY": "Li-ion",
    "CYCLE_COUNT": "0",
    "VOLTAGE_MIN_DESIGN": "11400000",
    "VOLTAGE_NOW": "12690000",
    "POWER_NOW": "9361000",
    "ENERGY_FULL": "41250000",
    "ENERGY_NOW": "20712000",
    "CAPACITY": "50",
    "SERIAL_NUMBER": " 1234",
}
"""A laptop's, by watts and watt-hours."""

BY_CHARGE = {
    "NAME": "sbs-9-000b",
    "STATUS": "Discharging",
    "PRESENT": "1",
    "VOLTAGE_NOW": "11441000",
    "CURRENT_NOW": "-260000",
    "CHARGE_FULL": "3898000",
    "CHARGE_NOW": "2924000",
    "CAPACITY": "76",
}
"""A smart battery's, by amperes, which its driver turns negative when it discharges."""


@pytest.fixture
def drive(catalog: Catalog, sysroot: Sysroot) -> Drive:
    """Make a driver on the tree."""

    def make() -> Driver:
        resolved = resolve_onto(catalog.entries["power.battery"], "fs:sys:power_supply", Target("system"))
        return Driver(Batteries(), resolved, bind_machine(), sysroot=str(sysroot))

    return make


def write_supply(
    sysroot: Sysroot, name: str, properties: Mapping[str, str], kind: str = "Battery", scope: str | None = None
) -> None:
    """Lay a supply out: its type, whose it is, and everything its driver can read."""
    sysroot.write(f"{SUPPLIES}/{name}/type", f"{kind}\n")
    if scope is not None:
        sysroot.write(f"{SUPPLIES}/{name}/scope", f"{scope}\n")
    lines = [f"POWER_SUPPLY_{key}={value}\n" for key, value in properties.items()]
    sysroot.write(f"{SUPPLIES}/{name}/uevent", "DEVTYPE=power_supply\n" + "".join(lines))


@pytest.mark.spec("PWR-1")
def test_a_battery_that_states_power_is_read_as_it_stands(sysroot: Sysroot, drive: Drive) -> None:
    """Watts, volts, what is left and what there is when it is full, in joules; nothing of charge, which it lacks."""
    write_supply(sysroot, "BAT0", BY_ENERGY)
    with drive() as driver:
        (row,) = driver.sample()
        assert driver.collector.reads_at_open
    del row["ts_ns"]
    assert row == {
        "power.supply": "BAT0",
        "watts": 9.361,
        "volts": 12.69,
        "capacity": 0.5,
        "remaining_joules": pytest.approx(20.712 * 3600),
        "full_joules": pytest.approx(41.25 * 3600),
        "status": "Discharging",
    }


@pytest.mark.spec("PWR-1")
def test_a_battery_that_states_current_gives_watts_by_its_voltage(sysroot: Sysroot, drive: Drive) -> None:
    """Without the sign of its driver; charge in ampere-seconds, and no energy made of it."""
    write_supply(sysroot, "sbs-9-000b", BY_CHARGE)
    with drive() as driver:
        (row,) = driver.sample()
    assert row["watts"] == pytest.approx(0.26 * 11.441)
    assert (row["amperes"], row["remaining_coulombs"]) == (0.26, pytest.approx(2.924 * 3600))
    assert "remaining_joules" not in row


@pytest.mark.spec("EVT-5")
@pytest.mark.parametrize("missing", ["CURRENT_NOW", "VOLTAGE_NOW"])
def test_what_a_driver_does_not_state_is_absent(sysroot: Sysroot, drive: Drive, missing: str) -> None:
    """No watts of half a product, and no zero; the rest of the row stands."""
    write_supply(sysroot, "BAT0", {name: value for name, value in BY_CHARGE.items() if name != missing})
    with drive() as driver:
        (row,) = driver.sample()
    assert "watts" not in row
    assert row["capacity"] == 0.76


def test_only_the_machines_own_batteries_are_its_power(sysroot: Sysroot) -> None:
    """Mains, a mouse and a phone's charger are other supplies."""
    write_supply(sysroot, "AC", {"NAME": "AC", "ONLINE": "1"}, kind="Mains")
    write_supply(sysroot, "hidpp_battery_0", BY_ENERGY, scope="Device")
    write_supply(sysroot, "BAT1", BY_ENERGY)
    write_supply(sysroot, "BAT0", BY_ENERGY, scope="System")
    assert list_batteries(str(sysroot)) == ["BAT0", "BAT1"]


@pytest.mark.spec("PWR-1")
def test_a_battery_that_is_taken_out_has_no_row_and_is_said(sysroot: Sysroot, drive: Drive) -> None:
    """Its driver stays and says so; the other's figures go on."""
    write_supply(sysroot, "BAT0", BY_ENERGY)
    write_supply(sysroot, "BAT1", BY_ENERGY | {"NAME": "BAT1"})
    with drive() as driver:
        assert [row["power.supply"] for row in driver.sample()] == ["BAT0", "BAT1"]
        write_supply(sysroot, "BAT1", {"NAME": "BAT1", "STATUS": "Unknown", "PRESENT": "0"})
        assert [row["power.supply"] for row in driver.sample()] == ["BAT0"]
        assert driver.collector.facts() == ("the bay of the battery BAT1 was empty at a reading",)


@pytest.mark.spec("RUN-7")
def test_a_battery_whose_driver_goes_is_said_and_the_last_one_is_the_end(
    sysroot: Sysroot, drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel answers ENODEV for what is open."""
    write_supply(sysroot, "BAT0", BY_ENERGY)

    def refuse(_file: PolledFile) -> bytes:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    with drive() as driver:
        monkeypatch.setattr(PolledFile, "read", refuse)
        with pytest.raises(TargetGone):
            driver.sample()
        assert driver.collector.facts() == ("the battery BAT0 went away in the window",)


def test_properties_are_parsed_by_the_kernels_names() -> None:
    """Lines of other kinds and odd values are no numbers."""
    parsed = parse_supply(b"DEVTYPE=x\nPOWER_SUPPLY_MODEL_NAME=A=B \xff\nPOWER_SUPPLY_CAPACITY=x\nPOWER_SUPPLY_\n")
    assert parsed == {"MODEL_NAME": "A=B \\xff", "CAPACITY": "x"}
    assert set(compute_battery(parsed).values()) == {None}


@pytest.mark.spec("PLG-9")
def test_a_machine_without_a_battery_names_the_file(sysroot: Sysroot, drive: Drive) -> None:
    """A mouse's is none."""
    write_supply(sysroot, "hidpp_battery_0", BY_ENERGY, scope="Device")
    answer = probe_battery(Need("battery", "battery"), ProbeContext(sysroot=str(sysroot)))
    assert (answer.state, answer.reason) == (
        State.MISSING,
        "this machine has no battery (/sys/class/power_supply/BAT0 is not there)",
    )
    with pytest.raises(MachineRefused, match="no battery is among the supplies"):
        drive().__enter__()


@pytest.mark.spec("CAT-12", "EMT-1")
def test_from_the_command_line_two_batteries_are_not_added_up(omn: Command, sysroot: Sysroot) -> None:
    """One that gives and one that takes make no sum: the key divides them, and the answer says so."""
    write_supply(sysroot, "BAT0", BY_ENERGY)
    write_supply(sysroot, "BAT1", BY_CHARGE | {"STATUS": "Charging"})
    asked = ("power.battery", "-m", "snapshot", "-e", "summary", "--system", "--format", "json")
    ran = omn(*asked, OMN_SYSROOT=str(sysroot))
    assert ran.code == 0, ran.stderr
    assert any("--keys power.supply divides them" in fact for fact in ran.result["facts"])
    assert "was never run on its hardware: trees of power_supply" in ran.result["unverified"][0]
    divided = omn(*asked, "--keys", "power.supply", OMN_SYSROOT=str(sysroot)).result
    assert [series["key"]["power.supply"] for series in divided["series"]] == ["BAT0", "BAT1"]
