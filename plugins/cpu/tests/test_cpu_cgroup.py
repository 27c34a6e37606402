"""cpu.util, cpu.throttled and cpu.pressure of cgroups, of either version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omn_cpu.cgroup_time import Cgroup1Util, Cgroup2Util
from omn_cpu.pressure import CpuPressure
from omn_cpu.throttled import Cgroup1Throttled, Cgroup2Throttled
from omn_kernel.cgroup import CgroupPlace

from omn_core.api import BoundTarget, CollectorBase, MachineRefused, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.testing.harness import Driver, bind_machine, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import spin

Start = Callable[[Workload], Running]
V2 = "sys/fs/cgroup/app"


def bind(place: CgroupPlace) -> BoundTarget:
    return BoundTarget(Target("cgroup", place.path), "cgroup", place=place)


def bind_v2(sysroot: Sysroot) -> BoundTarget:
    return bind(CgroupPlace("/app", unified=str(sysroot.path(V2))))


def bind_v1(controller: str, folder: Path) -> BoundTarget:
    return bind(CgroupPlace(f"/{folder.name}", legacy={controller: str(folder)}))


def drive(collector: CollectorBase, catalog: Catalog, source: str, backend: str, target: BoundTarget) -> Driver:
    resolved = resolve_onto(catalog.entries[source], backend, target.target, mode="poll")
    return Driver(collector, resolved, target)


def test_a_cgroup_v1_is_what_its_processes_ran(
    catalog: Catalog, workload: Start, make_cgroup: Callable[[str], Path]
) -> None:
    """A program that spins inside shows with its nanoseconds, and cpuacct.usage read by hand says the same."""
    folder = make_cgroup("cpuacct")
    child = workload(spin(200_000_000))
    child.wait("ready")
    (folder / "cgroup.procs").write_text(str(child.pid))
    before = int((folder / "cpuacct.usage").read_text())
    with drive(Cgroup1Util(), catalog, "cpu.util", "fs:cgroup1:cpuacct", bind_v1("cpuacct", folder)) as driver:
        child.release()
        facts = child.wait("spun")
        (row,) = driver.sample()
        after = int((folder / "cpuacct.usage").read_text())
    assert row["oncpu_ns"] == pytest.approx(after - before, abs=2_000_000)
    assert row["oncpu_ns"] == pytest.approx(facts["oncpu_ns"], rel=0.1)
    assert row["cgroup"] == f"/{folder.name}"


def test_a_cgroup_v2_is_read_in_microseconds(catalog: Catalog, sysroot: Sysroot) -> None:
    """Usage and its parts become nanoseconds; user and system are shares beside the whole."""
    sysroot.write(f"{V2}/cpu.stat", "usage_usec 1000\nuser_usec 700\nsystem_usec 300\nnice_usec 0\n")
    with drive(Cgroup2Util(), catalog, "cpu.util", "fs:cgroup2:cpu.stat", bind_v2(sysroot)) as driver:
        sysroot.write(f"{V2}/cpu.stat", "usage_usec 5000\nuser_usec 3700\nsystem_usec 1300\nnice_usec 0\n")
        (row,) = driver.sample()
    assert row["oncpu_ns"] == 4_000_000
    assert row["util"] == pytest.approx(4_000_000 / row["interval_ns"])
    assert row["user"] / row["util"] == pytest.approx(0.75)


@pytest.mark.spec("EVT-5")
def test_a_cgroup_account_that_steps_back_makes_no_row(catalog: Catalog, sysroot: Sysroot) -> None:
    """The interval is unknown, and the reading counted."""
    sysroot.write(f"{V2}/cpu.stat", "usage_usec 5000\n")
    with drive(Cgroup2Util(), catalog, "cpu.util", "fs:cgroup2:cpu.stat", bind_v2(sysroot)) as driver:
        sysroot.write(f"{V2}/cpu.stat", "usage_usec 4000\n")
        assert driver.sample() == []
        assert driver.collector.losses().failed_reads == 1


@pytest.mark.spec("RUN-7")
def test_a_cgroup_that_is_removed_is_the_end_and_no_loss(catalog: Catalog, make_cgroup: Callable[[str], Path]) -> None:
    """The kernel says that the file has no device any more: the target has ended."""
    folder = make_cgroup("cpuacct")
    inner = folder / "inner"
    inner.mkdir()
    with drive(Cgroup1Util(), catalog, "cpu.util", "fs:cgroup1:cpuacct", bind_v1("cpuacct", inner)) as driver:
        assert len(driver.sample()) == 1
        inner.rmdir()
        with pytest.raises(TargetGone):
            driver.sample()
        assert driver.collector.losses().is_empty


def test_a_limited_cgroup_is_throttled_as_its_own_account_says(
    catalog: Catalog, workload: Start, make_cgroup: Callable[[str], Path]
) -> None:
    """10 ms of every 100 ms while spinning: most of the time is taken, in every period, as cpu.stat counts it."""
    folder = make_cgroup("cpu")
    (folder / "cpu.cfs_period_us").write_text("100000")
    (folder / "cpu.cfs_quota_us").write_text("10000")
    (folder / "cpu.shares").write_text("262144")  # the most: what it waits for a cpu is for its quota, not for others
    child = workload(spin(60_000_000))
    child.wait("ready")
    by_hand = [read_throttling(folder)]
    with drive(Cgroup1Throttled(), catalog, "cpu.throttled", "fs:cgroup1:cpu.stat", bind_v1("cpu", folder)) as driver:
        by_hand.append(read_throttling(folder))
        (folder / "cgroup.procs").write_text(str(child.pid))
        child.release()
        facts = child.wait("spun")
        by_hand.append(read_throttling(folder))
        (row,) = driver.sample()
        by_hand.append(read_throttling(folder))
    names = {"throttled_ns": "throttled_time", "throttled_periods": "nr_throttled", "periods": "nr_periods"}
    for ours, theirs in names.items():
        # A period may end between a reading by hand and omn's own: it lies between the least and the most there was.
        before, opened, closing, closed = (account[theirs] for account in by_hand)
        assert closing - opened <= row[ours] <= closed - before
    assert row["throttled_periods"] >= 3
    assert row["throttled_ns"] >= 0.5 * (facts["wall_ns"] - facts["oncpu_ns"])


def read_throttling(folder: Path) -> dict[str, int]:
    text = (folder / "cpu.stat").read_text()
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}


def test_a_cgroup_v2_limit_is_read_in_microseconds(catalog: Catalog, sysroot: Sysroot) -> None:
    """throttled_usec becomes nanoseconds; an interval in which nothing was taken is a zero."""
    stat = "usage_usec 1\nnr_periods {0}\nnr_throttled {1}\nthrottled_usec {2}\n"
    sysroot.write(f"{V2}/cpu.stat", stat.format(10, 2, 500))
    with drive(Cgroup2Throttled(), catalog, "cpu.throttled", "fs:cgroup2:cpu.stat", bind_v2(sysroot)) as driver:
        sysroot.write(f"{V2}/cpu.stat", stat.format(15, 4, 1700))
        (row,) = driver.sample()
        (still,) = driver.sample()
    assert (row["throttled_ns"], row["periods"], row["throttled_periods"]) == (1_200_000, 5, 2)
    assert (still["throttled_ns"], still["periods"], still["throttled_periods"]) == (0, 0, 0)


def test_a_cgroup_without_the_controller_is_refused(catalog: Catalog, sysroot: Sysroot) -> None:
    """cpu.stat without the limit's lines is no account of one, and no zero is made of it."""
    sysroot.write(f"{V2}/cpu.stat", "usage_usec 1\nuser_usec 1\nsystem_usec 0\n")
    with pytest.raises(MachineRefused, match="keeps no account of a cpu limit"):
        drive(Cgroup2Throttled(), catalog, "cpu.throttled", "fs:cgroup2:cpu.stat", bind_v2(sysroot)).__enter__()


def test_a_cgroup_of_the_other_version_is_refused(catalog: Catalog, sysroot: Sysroot) -> None:
    """A cgroup that the asked hierarchy does not have keeps no account there."""
    with pytest.raises(MachineRefused, match="has no such account"):
        drive(Cgroup1Util(), catalog, "cpu.util", "fs:cgroup1:cpuacct", bind_v2(sysroot)).__enter__()


PRESSURE = "some avg10={0}.00 avg60=2.00 avg300=1.00 total={1}\nfull avg10=0.50 avg60=0.00 avg300=0.00 total={2}\n"


def test_pressure_is_a_share_of_the_interval(catalog: Catalog, sysroot: Sysroot) -> None:
    """Waiting in microseconds becomes a share of the time between the readings, the averages shares of one."""
    sysroot.write(f"{V2}/cpu.pressure", PRESSURE.format(1, 1000, 100))
    with drive(CpuPressure(), catalog, "cpu.pressure", "fs:cgroup2:pressure", bind_v2(sysroot)) as driver:
        sysroot.write(f"{V2}/cpu.pressure", PRESSURE.format(25, 1004, 102))
        (row,) = driver.sample()
    assert (row["some_ns"], row["full_ns"]) == (4_000, 2_000)
    assert row["stall_ratio"] == pytest.approx(min(4_000 / row["interval_ns"], 1.0))
    assert (row["some_avg10"], row["full_avg10"], row["some_avg60"]) == (0.25, 0.005, 0.02)


@pytest.mark.spec("EVT-5")
def test_the_machine_has_no_full_pressure(catalog: Catalog, sysroot: Sysroot) -> None:
    """The zeros that the kernel writes for the machine mean nothing: they are absent, not zero."""
    sysroot.write("proc/pressure/cpu", PRESSURE.format(1, 1000, 0))
    resolved = resolve_onto(catalog.entries["cpu.pressure"], "fs:proc:pressure", Target("system"), mode="poll")
    with Driver(CpuPressure(), resolved, bind_machine(), sysroot=str(sysroot)) as driver:
        sysroot.write("proc/pressure/cpu", PRESSURE.format(1, 900, 0))
        assert driver.sample() == []
        assert driver.collector.losses().failed_reads == 1
        (row,) = driver.sample()
    assert not [name for name in row if name.startswith("full")]
    assert row["stall_ratio"] == 0.0


@pytest.mark.spec("SRC-1")
def test_pressure_attributes_are_named_alike_in_every_family(catalog: Catalog) -> None:
    """Whoever has pressure calls its figures by the same names in the same units."""
    ours = {name: unit for name, unit in catalog.entries["cpu.pressure"].attributes.items() if name != "interval_ns"}
    others = [entry for entry in catalog.entries.values() if entry.id.endswith(".pressure")]
    for entry in others:
        assert {name: entry.attributes.get(name) for name in ours} == ours
