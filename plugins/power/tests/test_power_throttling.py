"""power.throttle on trees of Intel's accounts: each core's and each package's events once, and cpus that go.

The layout is that of Documentation/admin-guide/thermal/intel_thermal_throttle.rst.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from omn_kernel.cpus import FOLDER
from omn_power.probes import probe_thermal_throttle
from omn_power.throttling import Throttling

from omn_core.api import MachineRefused, Need, ProbeContext, State, Target
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, resolve_onto
from omn_core.testing.sysroot import Sysroot

Drive = Callable[..., Driver]
FILES = (
    "core_throttle_count",
    "core_throttle_total_time_ms",
    "package_throttle_count",
    "package_throttle_total_time_ms",
)


@pytest.fixture
def drive(catalog: Catalog, sysroot: Sysroot) -> Drive:
    """Make a driver on the tree."""

    def make(*keys: str, cpus: Sequence[int] = ()) -> Driver:
        target = Target("cpu", tuple(cpus)) if cpus else Target("system")
        resolved = resolve_onto(
            catalog.entries["power.throttle"], "fs:sys:thermal_throttle", target, mode="poll", keys=keys
        )
        return Driver(Throttling(), resolved, bind_machine(*cpus), sysroot=str(sysroot))

    return make


def write_accounts(sysroot: Sysroot, accounts: Mapping[int, Sequence[int]], files: Sequence[str] = FILES) -> None:
    """Write each cpu's account; the cpus are two of each core, two cores of each package."""
    sysroot.write(f"{FOLDER}/online", ",".join(map(str, accounts)) + "\n")
    for cpu, values in accounts.items():
        sysroot.write(f"{FOLDER}/cpu{cpu}/topology/physical_package_id", f"{cpu // 4}\n")
        sysroot.write(f"{FOLDER}/cpu{cpu}/topology/core_id", f"{cpu % 4 // 2}\n")
        for file, value in zip(files, values, strict=True):
            sysroot.write(f"{FOLDER}/cpu{cpu}/thermal_throttle/{file}", f"{value}\n")


def tidy(row: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name != "ts_ns"}


BEFORE = dict.fromkeys(range(8), (10, 100, 50, 900))
AFTER = BEFORE | {
    0: (12, 130, 53, 990),
    1: (13, 130, 53, 990),
    2: (11, 100, 53, 980),
    3: (11, 100, 53, 990),
    7: (10, 100, 51, 900),
}
"""Core 0 of package 0 was slowed three times, core 1 once, the package three times; package 1 once."""


@pytest.mark.spec("PWR-1")
def test_the_machine_counts_each_cores_and_each_packages_events_once(sysroot: Sysroot, drive: Drive) -> None:
    """What siblings saw alike is one event: the fullest account of a core is taken."""
    write_accounts(sysroot, BEFORE)
    with drive() as driver:
        write_accounts(sysroot, AFTER)
        (row,) = driver.sample()
    assert tidy(row) == {
        "throttles": 4,
        "throttled_ns": 30_000_000,
        "package_throttles": 4,
        "package_throttled_ns": 90_000_000,
    }


@pytest.mark.spec("PWR-1")
def test_divided_by_cpu_each_has_its_own_account(sysroot: Sysroot, drive: Drive) -> None:
    """And one that is named is alone."""
    write_accounts(sysroot, BEFORE)
    with drive("cpu") as divided, drive(cpus=[1]) as one:
        write_accounts(sysroot, AFTER)
        rows = {row["cpu"]: row for row in divided.sample()}
        (mine,) = one.sample()
    assert [row["throttles"] for row in rows.values()] == [2, 3, 1, 1, 0, 0, 0, 0]
    assert [row["package_throttles"] for row in rows.values()] == [3, 3, 3, 3, 0, 0, 0, 1]
    assert (mine["cpu"], mine["throttles"], mine["package_throttled_ns"]) == (1, 3, 90_000_000)


@pytest.mark.spec("EVT-5")
def test_what_a_kernel_does_not_count_is_absent(sysroot: Sysroot, drive: Drive) -> None:
    """Before Linux 5.5 there were no times, and some processors have no package account: no zero stands for them."""
    write_accounts(sysroot, {0: (1,)}, FILES[:1])
    with drive() as driver:
        write_accounts(sysroot, {0: (4,)}, FILES[:1])
        (row,) = driver.sample()
    assert tidy(row) == {"throttles": 3}


@pytest.mark.spec("PWR-1")
def test_a_cpu_that_goes_takes_its_account_and_comes_back_without_a_spike(sysroot: Sysroot, drive: Drive) -> None:
    """Its sibling's account of their core stands for both."""
    write_accounts(sysroot, BEFORE)
    with drive() as driver:
        sysroot.remove(f"{FOLDER}/cpu1/thermal_throttle")
        write_accounts(sysroot, {cpu: AFTER[cpu] for cpu in AFTER if cpu != 1})
        throttles = [driver.sample()[0]["throttles"]]
        write_accounts(sysroot, AFTER | {1: (10_000, 0, 0, 0)})
        throttles.append(driver.sample()[0]["throttles"])
        assert throttles == [3, 0]
        assert driver.collector.losses().is_empty
        assert driver.collector.facts() == (
            "cpu 1 went offline in the window",
            "cpu 1 came online in the window, and counts from its first reading",
        )


@pytest.mark.spec("PRB-3", "PLG-9")
def test_a_machine_that_keeps_no_account_is_refused_by_its_file(sysroot: Sysroot, drive: Drive) -> None:
    """AMD's processors and virtual machines have none."""
    sysroot.write(f"{FOLDER}/online", "0-1\n").write(f"{FOLDER}/cpu0/topology/core_id", "0\n")
    need, context = Need("thermal_throttle", "thermal_throttle"), ProbeContext(sysroot=str(sysroot))
    answer = probe_thermal_throttle(need, context)
    assert answer.state is State.MISSING
    assert f"({FOLDER}/cpu0/thermal_throttle/core_throttle_count is not there)" in str(answer.reason)
    with pytest.raises(MachineRefused, match="no cpu here has an account of its heat"):
        drive().__enter__()
    write_accounts(sysroot, BEFORE)
    assert probe_thermal_throttle(need, context).state is State.AVAILABLE


@pytest.mark.spec("CAT-12")
def test_from_the_command_line_a_window_without_heat_counted_zero(omn: Command, sysroot: Sysroot) -> None:
    """A zero is a measurement, over a tree that is said to be no real hardware."""
    write_accounts(sysroot, BEFORE)
    asked = ("power.throttle", "-m", "count", "-e", "count", "--system", "-d", "50ms", "--format", "json")
    ran = omn(*asked, OMN_SYSROOT=str(sysroot))
    assert ran.code == 0, ran.stderr
    (series,) = ran.result["series"]
    assert series["emits"]["count"]["value"] == 0
    assert "was never run on its hardware: trees of thermal_throttle" in ran.result["unverified"][0]
