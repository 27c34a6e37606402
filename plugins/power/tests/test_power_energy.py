"""power.energy and power.process_energy on trees of meters: sums, wraps, doubt, and what is closed.

The layout is that of Documentation/ABI/testing/sysfs-class-powercap and Documentation/power/powercap/powercap.rst, as a
laptop of one package and a server of two show it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from another_user import run_as_another_user
from hypothesis import given
from hypothesis import strategies as st
from omn_power.energy import PackageEnergy
from omn_power.probes import probe_rapl
from omn_power.process_energy import ProcessEnergy, compute_busy_ns, compute_rest_ns
from omn_power.rapl import MOST_WATTS, POWERCAP, compute_growth, find_doubt, list_zones
from step_clock import Steps

from omn_core.api import MachineRefused, Need, ProbeContext, State, Target
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, bind_processes, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import spin

Drive = Callable[..., Driver]
Start = Callable[[Workload], Running]
SECOND = 1_000_000_000
RANGE_UJ = 262_143_328_850
"""What most of Intel's processors state: 2^32 - 1 units of 61 microjoules."""
MODULUS_UJ = RANGE_UJ + 61

LAPTOP = {"0": "package-0", "0:0": "core", "0:1": "uncore", "1": "psys"}
SERVER = {"0": "package-0", "0:0": "dram", "1": "package-1", "1:0": "dram"}


@pytest.fixture
def clock() -> Steps:
    """The clock of the test's drivers."""
    return Steps()


@pytest.fixture
def drive(catalog: Catalog, sysroot: Sysroot, clock: Steps) -> Drive:
    """Make a driver of power.energy on the tree."""

    def make(*keys: str) -> Driver:
        resolved = resolve_onto(
            catalog.entries["power.energy"], "fs:sys:powercap", Target("system"), mode="poll", keys=keys
        )
        return Driver(PackageEnergy(), resolved, bind_machine(), sysroot=str(sysroot), clock=clock)

    return make


def write_zones(sysroot: Sysroot, names: Mapping[str, str], energy_uj: Mapping[str, int]) -> None:
    """Lay zones out: their control type beside them, and the same package once more behind memory-mapped registers."""
    sysroot.write(f"{POWERCAP}/intel-rapl/enabled", "1\n")
    sysroot.write(f"{POWERCAP}/intel-rapl-mmio:0/name", "package-0\n")
    sysroot.write(f"{POWERCAP}/intel-rapl-mmio:0/energy_uj", "77\n")
    for number, name in names.items():
        folder = f"{POWERCAP}/intel-rapl:{number}"
        sysroot.write(f"{folder}/name", f"{name}\n").write(f"{folder}/max_energy_range_uj", f"{RANGE_UJ}\n")
        sysroot.write(f"{folder}/energy_uj", f"{energy_uj[number]}\n")


def write_energy(sysroot: Sysroot, **energy_uj: int) -> None:
    """Move meters on: `z0_1` is the zone 0:1."""
    for number, value in energy_uj.items():
        sysroot.write(f"{POWERCAP}/intel-rapl:{number[1:].replace('_', ':')}/energy_uj", f"{value}\n")


def test_zones_are_named_below_the_package_they_are_in(sysroot: Sysroot) -> None:
    """In the order of their numbers; the second control type shows a package once more and is left out."""
    write_zones(sysroot, SERVER | {"10": "psys"}, dict.fromkeys([*SERVER, "10"], 0))
    zones = list_zones(str(sysroot))
    assert [(zone.domain, zone.is_package) for zone in zones] == [
        ("package-0", True),
        ("package-0/dram", False),
        ("package-1", True),
        ("package-1/dram", False),
        ("psys", False),
    ]
    assert {zone.modulus_uj for zone in zones} == {MODULUS_UJ}


@pytest.mark.spec("PWR-1", "SRC-7")
def test_undivided_it_is_the_packages_and_nothing_else(sysroot: Sysroot, drive: Drive, clock: Steps) -> None:
    """Two packages add up; memory, which has meters of its own, is in no sum."""
    write_zones(sysroot, SERVER, dict.fromkeys(SERVER, 1000))
    with drive() as driver:
        write_energy(sysroot, z0=40_001_000, z1=20_001_000, z0_0=9_001_000, z1_0=9_001_000)
        clock.now_ns += 2 * SECOND
        (row,) = driver.sample()
    del row["ts_ns"]
    assert row == {"joules": 60.0, "watts": 30.0, "interval_ns": 2 * SECOND}
    assert driver.collector.losses().is_empty
    assert driver.collector.facts() == ()


@pytest.mark.spec("PWR-1")
def test_divided_each_domain_has_its_own_meter(sysroot: Sysroot, drive: Drive, clock: Steps) -> None:
    """The platform, the package and what the package holds, each by its name."""
    write_zones(sysroot, LAPTOP, dict.fromkeys(LAPTOP, 0))
    with drive("domain") as driver:
        write_energy(sysroot, z0=15_000_000, z0_0=9_000_000, z0_1=500_000, z1=25_000_000)
        clock.now_ns += SECOND
        rows = {row["domain"]: (row["joules"], row["watts"]) for row in driver.sample()}
    assert rows == {
        "package-0": (15.0, 15.0),
        "package-0/core": (9.0, 9.0),
        "package-0/uncore": (0.5, 0.5),
        "psys": (25.0, 25.0),
    }


@pytest.mark.spec("PWR-1")
def test_a_meter_that_starts_over_goes_on(sysroot: Sysroot, drive: Drive, clock: Steps) -> None:
    """Its growth is what is left to its range and what it counted since; the next interval is an ordinary one."""
    write_zones(sysroot, LAPTOP, dict.fromkeys(LAPTOP, 0) | {"0": RANGE_UJ - 10_000_000})
    with drive() as driver:
        for now_uj in (5_000_000, 12_000_000):
            write_energy(sysroot, z0=now_uj)
            clock.now_ns += SECOND
            driver.sample()
        assert [row["joules"] for row in driver.rows] == [pytest.approx(15.000061, rel=1e-9), 7.0]
        assert driver.collector.losses().is_empty


@pytest.mark.spec("PWR-1", "EVT-5")
def test_an_account_that_began_anew_is_no_wrap_and_no_spike(sysroot: Sysroot, drive: Drive, clock: Steps) -> None:
    """A step back that would take more watts than a machine has is a reading that tells nothing; others go on."""
    write_zones(sysroot, SERVER, dict.fromkeys(SERVER, 100_000_000_000))
    with drive("domain") as divided, drive() as whole:
        write_energy(sysroot, z0=3, z1=100_007_000_000)
        clock.now_ns += SECOND
        assert [(row["domain"], row["joules"]) for row in divided.sample() if row["joules"]] == [("package-1", 7.0)]
        assert whole.sample() == []
        write_energy(sysroot, z0=2_000_003, z1=100_008_000_000)
        clock.now_ns += SECOND
        assert [row["joules"] for row in whole.sample()] == [3.0]
        losses = whole.collector.losses()
    assert losses.failed_reads == 1
    assert losses.reasons == ("the kernel's energy_uj of package-0 stepped back, and that interval is unknown",)


@pytest.mark.spec("PWR-1")
def test_an_interval_in_which_a_meter_may_have_started_over_unseen_is_said(
    sysroot: Sysroot, drive: Drive, clock: Steps
) -> None:
    """Ten minutes in one reading: the figure is right up to a power, and that power is named."""
    write_zones(sysroot, LAPTOP, dict.fromkeys(LAPTOP, 0))
    with drive() as driver:
        write_energy(sysroot, z0=37_856_671_089)
        clock.now_ns += 600 * SECOND
        (row,) = driver.sample()
        assert row["joules"] == pytest.approx(37_856.671089)
        (said,) = driver.collector.facts()
    assert said.startswith("the meter of package-0 may have started over unseen between two readings")
    assert "its figure is right if it drew less than 500 W" in said


@given(
    then_uj=st.integers(0, MODULUS_UJ - 1),
    grown_uj=st.integers(0, MODULUS_UJ - 1),
    length_ns=st.integers(1, 3600 * SECOND),
)
def test_growth_is_exact_or_unknown(then_uj: int, grown_uj: int, length_ns: int) -> None:
    """Across a wrap or not, what a zone can draw in the interval is counted exactly, and nothing else across one."""
    now_uj = (then_uj + grown_uj) % MODULUS_UJ
    counted = compute_growth(then_uj, now_uj, MODULUS_UJ, length_ns)
    if now_uj >= then_uj or grown_uj <= MOST_WATTS * length_ns // 1000:
        assert counted == grown_uj
    else:
        assert counted is None


@given(grown_uj=st.integers(0, MODULUS_UJ), length_ns=st.integers(1, 3600 * SECOND))
def test_doubt_begins_where_one_more_turn_is_possible(grown_uj: int, length_ns: int) -> None:
    """The power named is that of the same reading with one more turn of the meter."""
    watts = find_doubt(grown_uj, MODULUS_UJ, length_ns)
    once_more = (grown_uj + MODULUS_UJ) * 1000 / length_ns
    assert watts == (once_more if once_more < MOST_WATTS else None)
    assert find_doubt(grown_uj, 0, length_ns) is None


def test_a_meter_without_a_range_never_goes_on_across_its_end() -> None:
    """Where it starts over is unknown."""
    assert compute_growth(10, 5, 0, SECOND) is None


@pytest.mark.spec("PWR-1", "CAT-12")
@pytest.mark.parametrize("emit", ["count", "rate"])
def test_a_program_that_moves_the_meters_is_counted_from_its_own_start(
    omn: Command, sysroot: Sysroot, emit: str
) -> None:
    """From the command line: the baseline is read before the program writes, the closing reading after it has ended."""
    write_zones(sysroot, LAPTOP, dict.fromkeys(LAPTOP, 0) | {"0": RANGE_UJ - 1_000_000})
    file = sysroot.path(f"{POWERCAP}/intel-rapl:0/energy_uj")
    program = f"open({str(file)!r}, 'w').write('1000000\\n')"
    ran = omn(
        *(
            "power.energy",
            "-m",
            "count",
            "-e",
            emit,
            "--system",
            "--format",
            "json",
            "--",
            sys.executable,
            "-c",
            program,
        ),
        OMN_SYSROOT=str(sysroot),
    )
    assert ran.code == 0, ran.stderr
    (series,) = ran.result["series"]
    figure = series["emits"][emit]
    assert figure["value" if emit == "count" else "total"] == pytest.approx(2.000061, rel=1e-9)
    assert (ran.result["unit"], ran.result["scope"]) == ("joules", "system")
    assert "was never run on its hardware" in ran.result["unverified"][0]


# What is not there, and what is closed.


@pytest.mark.spec("PRB-3", "PLG-9")
def test_a_machine_without_meters_names_what_is_missing(sysroot: Sysroot) -> None:
    """No power capping at all, power capping of something else, a platform's meter without a package's."""
    need, context = Need("rapl", "rapl"), ProbeContext(sysroot=str(sysroot))
    assert probe_rapl(need, context).reason == f"nothing here reports to power capping ({POWERCAP} is not there)"
    sysroot.write(f"{POWERCAP}/dtpm/enabled", "0\n")
    answer = probe_rapl(need, context)
    assert (answer.state, answer.reason) == (
        State.MISSING,
        f"no package has a RAPL meter here ({POWERCAP}/intel-rapl:0 is not there)",
    )
    write_zones(sysroot, {"0": "psys"}, {"0": 0})
    assert probe_rapl(need, context).state is State.MISSING
    write_zones(sysroot, {"0": "package-0"}, {"0": 0})
    assert probe_rapl(need, context).state is State.AVAILABLE


def test_a_tree_without_a_package_is_refused(sysroot: Sysroot, drive: Drive) -> None:
    """By the folder that holds none; nothing else stands in."""
    write_zones(sysroot, {"0": "psys"}, {"0": 0})
    with pytest.raises(MachineRefused, match="no meter of a package is among the zones of /sys/class/powercap"):
        drive().__enter__()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can look into, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="omn-power-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.mark.spec("PRB-3")
def test_a_closed_meter_is_restricted_and_not_absent(open_folder: Path) -> None:
    """An ordinary user is told whose it is, since when, and what would open it: mode 0400, as the kernel makes it."""
    sysroot = Sysroot(open_folder)
    write_zones(sysroot, LAPTOP, dict.fromkeys(LAPTOP, 0))
    sysroot.path(f"{POWERCAP}/intel-rapl:0/energy_uj").chmod(0o400 if os.geteuid() == 0 else 0)
    printed = run_as_another_user(
        """
        from omn_core.api import Need, ProbeContext
        from omn_power.probes import probe_rapl
        """,
        f"""
        answer = probe_rapl(Need("rapl", "rapl"), ProbeContext(sysroot={str(sysroot)!r}))
        print(answer.state.value, answer.reason, answer.remedy, sep="\\n")
        """,
    )
    state, reason, remedy = printed.strip().split("\n")
    assert state == "restricted"
    assert reason.startswith(f"{POWERCAP}/intel-rapl:0/energy_uj is root's alone since Linux 5.10: ")
    assert "CAP_DAC_READ_SEARCH" in reason
    assert remedy


# The estimate of a process.


def write_stat(sysroot: Sysroot, rest_ticks: Mapping[int, tuple[int, int, int]]) -> None:
    """Write /proc/stat: of each cpu how long it idled, waited for storage and was taken away, in ticks."""
    lines = [f"cpu{cpu} 5 0 5 {idle} {iowait} 0 0 {steal} 0 0" for cpu, (idle, iowait, steal) in rest_ticks.items()]
    sysroot.write("/proc/stat", "\n".join(["cpu  1 2 3 4 5 6 7 8 9 10", *lines, "ctxt 1", ""]))


@pytest.mark.spec("PWR-1", "SRC-7")
def test_a_process_is_estimated_by_its_share_of_the_busy_time(
    sysroot: Sysroot, catalog: Catalog, clock: Steps, workload: Start
) -> None:
    """Two cpus busy for half a second together, one program that ran for a known part of it: so much of the energy."""
    write_zones(sysroot, LAPTOP, dict.fromkeys(LAPTOP, 0))
    write_stat(sysroot, {0: (100, 0, 0), 1: (50, 50, 0)})
    program = workload(spin(100_000_000))
    program.wait("ready")
    target = bind_processes(program.pid)
    resolved = resolve_onto(catalog.entries["power.process_energy"], "fs:sys:powercap", target.target, mode="poll")
    with Driver(ProcessEnergy(), resolved, target, sysroot=str(sysroot), clock=clock) as driver:
        program.release()
        ran_ns = program.wait("spun")["oncpu_ns"]
        write_stat(sysroot, {0: (180, 0, 0), 1: (80, 80, 10)})
        write_energy(sysroot, z0=30_000_000, z1=90_000_000)
        clock.now_ns += SECOND
        (row,) = driver.sample()
    assert row["busy_ns"] == SECOND // 2
    assert row["oncpu_ns"] == pytest.approx(ran_ns, rel=0.2)
    assert row["share"] == row["oncpu_ns"] / (SECOND // 2)
    assert (row["joules"], row["package_joules"]) == (pytest.approx(30 * row["share"]), 30.0)
    assert row["estimate"] == "by cpu time"
    assert driver.collector.facts()[0].startswith("every figure is an estimate: nothing meters a process")


def test_a_process_that_ran_longer_than_cpus_were_busy_by_coarse_ticks_takes_all_and_no_more(
    sysroot: Sysroot, catalog: Catalog, clock: Steps, workload: Start
) -> None:
    """Its share is one; two of one target share the whole between them."""
    write_zones(sysroot, LAPTOP, dict.fromkeys(LAPTOP, 0))
    write_stat(sysroot, {0: (100, 0, 0)})
    programs = [workload(spin(20_000_000)) for _ in range(2)]
    for program in programs:
        program.wait("ready")
    target = bind_processes(*(program.pid for program in programs))
    entry = catalog.entries["power.process_energy"]
    resolved = resolve_onto(entry, "fs:sys:powercap", target.target, mode="poll", keys=("task",))
    with Driver(ProcessEnergy(), resolved, target, sysroot=str(sysroot), clock=clock) as driver:
        for program in programs:
            program.release()
            program.wait("spun")
        write_stat(sysroot, {0: (200, 0, 0)})
        write_energy(sysroot, z0=10_000_000)
        clock.now_ns += SECOND
        rows = driver.sample()
    assert len(rows) == 2
    assert sum(row["joules"] for row in rows) == pytest.approx(10.0)
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)


def test_busy_time_is_of_the_cpus_of_both_readings() -> None:
    """A cpu that came or went has no interval; rest that steps back or passes the interval makes no busy time up."""
    before = {0: 0, 1: 5 * SECOND, 2: 0}
    after = {0: SECOND // 4, 1: 4 * SECOND, 3: 0}
    assert compute_busy_ns(before, after, SECOND) == SECOND // 4 * 3 + SECOND
    assert compute_busy_ns({0: 0}, {0: 2 * SECOND}, SECOND) == 0
    assert compute_rest_ns(b"cpu  1 2 3 4\ncpu0 0 0 0 7\ncpu12 0 0 0 1 2 9 9 3 0 0\n") == {
        0: 70_000_000,
        12: 60_000_000,
    }


@pytest.mark.spec("SRC-7")
def test_an_unkeyed_meter_refuses_a_process_and_names_the_estimate(omn: Command) -> None:
    """The question is the person's to put in another way; nothing is turned into it."""
    for target in (("--pid", str(os.getpid()), "-d", "1s"), ("--", "true")):
        ran = omn("power.energy", "-m", "count", "-e", "count", *target)
        assert ran.code == 2
        assert "power.process_energy estimates a process's part" in ran.stderr


@pytest.mark.spec("PWR-1")
def test_every_event_of_an_estimate_says_so_in_the_document(omn: Command, sysroot: Sysroot) -> None:
    """In each row, in the facts, and in the caveats; a launched program is followed by its own clock."""
    write_zones(sysroot, LAPTOP, dict.fromkeys(LAPTOP, 0))
    write_stat(sysroot, {0: (100, 0, 0)})
    file = sysroot.path(f"{POWERCAP}/intel-rapl:0/energy_uj")
    program = f"open({str(file)!r}, 'w').write('8000000\\n')"
    ran = omn(
        *("power.process_energy", "-m", "poll", "-e", "summary", "-e", "raw", "--format", "json"),
        *("--", sys.executable, "-c", program),
        OMN_SYSROOT=str(sysroot),
    )
    assert ran.code == 0, ran.stderr
    raw: list[dict[str, Any]] = ran.result["raw"]
    assert raw
    assert {event["attrs"]["estimate"] for event in raw} == {"by cpu time"}
    assert 0 < sum(event["attrs"]["joules"] for event in raw) <= 8.0
    assert any("every figure is an estimate" in fact for fact in ran.result["facts"])
    assert any("an estimate and no measurement" in caveat for caveat in ran.result["caveats"])
