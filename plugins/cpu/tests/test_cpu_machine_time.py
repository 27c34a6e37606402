"""cpu.util and cpu.steal of the machine: shares, cpus that come and go, counters that step back."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_cpu.machine_time import CpuTime, MachineSteal, MachineUtil, compute_cpu_time, compute_sum
from omn_kernel.procfs.task import TICK_NS

from omn_core.api import Target
from omn_core.model.catalog import Catalog
from omn_core.testing.harness import Driver, bind_machine, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import spin

Lines = dict[int, list[int]]


def write_stat(sysroot: Sysroot, cpus: Lines) -> None:
    """Write /proc/stat as Linux does: the line of all cpus, a line for each online one, and the rest."""
    whole = [sum(column) for column in zip(*cpus.values(), strict=True)]
    lines = [f"cpu  {' '.join(map(str, whole))}"]
    lines += [f"cpu{cpu} {' '.join(map(str, ticks))}" for cpu, ticks in cpus.items()]
    sysroot.write("proc/stat", "\n".join([*lines, "intr 12345 0 0", "ctxt 99", "btime 1700000000", ""]))


def drive(
    sysroot: Sysroot, catalog: Catalog, *cpus: int, source: str = "cpu.util", keys: tuple[str, ...] = ()
) -> Driver:
    target = Target("cpu", cpus) if cpus else Target("system")
    resolved = resolve_onto(catalog.entries[source], "fs:proc:stat", target, mode="poll", keys=keys)
    collector = MachineUtil() if source == "cpu.util" else MachineSteal()
    return Driver(collector, resolved, bind_machine(*cpus), sysroot=str(sysroot))


#               user nice system idle iowait irq softirq steal guest guest_nice
BEFORE: Lines = {0: [100, 0, 50, 1000, 20, 5, 5, 0, 10, 0], 1: [200, 10, 60, 900, 30, 5, 5, 0, 0, 0]}
AFTER: Lines = {0: [150, 0, 70, 1020, 25, 7, 8, 0, 30, 0], 1: [200, 10, 60, 1000, 30, 5, 5, 0, 0, 0]}


def test_the_shares_of_a_cpu_add_up_to_one(sysroot: Sysroot, catalog: Catalog) -> None:
    """Each tick of the interval is in one share; guest stands apart, for it is in user already."""
    write_stat(sysroot, BEFORE)
    with drive(sysroot, catalog, 0) as driver:
        write_stat(sysroot, AFTER)
        (row,) = driver.sample()
    assert row["cpu"] == 0
    shares = {name: row[name] for name in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")}
    assert shares == {
        "user": 0.5,
        "nice": 0.0,
        "system": 0.2,
        "idle": 0.2,
        "iowait": 0.05,
        "irq": 0.02,
        "softirq": 0.03,
        "steal": 0.0,
    }
    assert sum(shares.values()) == pytest.approx(1.0)
    assert row["util"] == pytest.approx(0.75)
    assert row["guest"] == pytest.approx(0.2)


@pytest.mark.spec("RUN-10")
def test_the_opening_is_a_baseline_and_no_event(sysroot: Sysroot, catalog: Catalog) -> None:
    """What the cpus did since boot is in no row: the first reading describes what followed the attach."""
    write_stat(sysroot, BEFORE)
    with drive(sysroot, catalog) as driver:
        assert driver.rows == []
        write_stat(sysroot, AFTER)
        (row,) = driver.sample()
    assert row["util"] == pytest.approx((75 + 0) / 200)


def test_the_machine_is_its_cpus_together(sysroot: Sysroot, catalog: Catalog) -> None:
    """Without keys one row stands for the machine; with the key cpu each has its own."""
    write_stat(sysroot, BEFORE)
    with drive(sysroot, catalog, keys=("cpu",)) as driver:
        write_stat(sysroot, AFTER)
        rows = driver.sample()
    assert [(row["cpu"], row["util"]) for row in rows] == [(0, pytest.approx(0.75)), (1, pytest.approx(0.0))]


def test_an_interval_without_a_tick_is_not_read_as_idle(sysroot: Sysroot, catalog: Catalog) -> None:
    """Two readings within one tick give no row, and the next row covers both intervals."""
    write_stat(sysroot, BEFORE)
    with drive(sysroot, catalog) as driver:
        assert driver.sample() == []
        write_stat(sysroot, AFTER)
        (row,) = driver.sample()
        assert row["util"] == pytest.approx(75 / 200)
        assert driver.collector.losses().is_empty


def test_a_cpu_that_goes_offline_takes_nothing_with_it(sysroot: Sysroot, catalog: Catalog) -> None:
    """The machine's figure is of the cpus that are read twice; the one that went is said, and is no loss."""
    write_stat(sysroot, BEFORE)
    with drive(sysroot, catalog) as driver:
        write_stat(sysroot, {0: AFTER[0]})
        (row,) = driver.sample()
        assert row["util"] == pytest.approx(0.75)
        assert driver.collector.losses().is_empty
        assert driver.collector.facts() == ("cpu 1 went offline in the window",)


@pytest.mark.spec("RUN-6", "EMT-3")
def test_a_cpu_that_goes_offline_leaves_an_amount_a_lower_bound(sysroot: Sysroot, catalog: Catalog) -> None:
    """What was taken from it since its last reading left with its counter; the others' is whole."""
    write_stat(sysroot, BEFORE)
    with drive(sysroot, catalog, source="cpu.steal") as driver:
        write_stat(sysroot, {0: AFTER[0]})
        (row,) = driver.sample()
        losses = driver.collector.losses()
    assert row["steal_ns"] == 0
    assert losses.is_lower_bound
    assert losses.reasons == ("cpu 1 went offline, and what was taken from it since its last reading is unknown",)


def test_a_cpu_that_comes_online_counts_from_its_first_reading(sysroot: Sysroot, catalog: Catalog) -> None:
    """Its ticks since boot are not this interval's, and neither negative nor huge shares come of it."""
    write_stat(sysroot, {0: BEFORE[0]})
    with drive(sysroot, catalog, keys=("cpu",)) as driver:
        write_stat(sysroot, {0: AFTER[0], 1: BEFORE[1]})
        assert [row["cpu"] for row in driver.sample()] == [0]
        write_stat(sysroot, {0: [ticks + 1 for ticks in AFTER[0]], 1: AFTER[1]})
        assert [row["cpu"] for row in driver.sample()] == [0, 1]
        assert driver.rows[-1]["util"] == pytest.approx(0.0)


@pytest.mark.spec("RUN-6")
def test_a_named_cpu_that_is_offline_is_a_failed_reading(sysroot: Sysroot, catalog: Catalog) -> None:
    """A cpu that was asked for by number and is gone gives nothing, which is counted and not a zero."""
    write_stat(sysroot, BEFORE)
    with drive(sysroot, catalog, 1) as driver:
        write_stat(sysroot, {0: AFTER[0]})
        assert driver.sample() == []
        losses = driver.collector.losses()
    assert losses.failed_reads == 1
    assert losses.reasons == ("cpu 1 was offline at a reading",)


@pytest.mark.spec("EVT-5")
def test_a_counter_that_steps_back_leaves_its_interval_unknown(sysroot: Sysroot, catalog: Catalog) -> None:
    """No row is made of it, the loss names the counter, and the next interval stands on the new reading."""
    write_stat(sysroot, BEFORE)
    with drive(sysroot, catalog, 0) as driver:
        back = list(AFTER[0])
        back[0] = 3
        write_stat(sysroot, {0: back, 1: AFTER[1]})
        assert driver.sample() == []
        write_stat(sysroot, {0: [*back[:3], back[3] + 50, *back[4:]], 1: AFTER[1]})
        (row,) = driver.sample()
        assert (row["util"], row["idle"]) == (0.0, 1.0)
        losses = driver.collector.losses()
    assert losses.failed_reads == 1
    assert losses.reasons == ("the kernel's user ticks of cpu 0 stepped back, and that interval is unknown",)


@pytest.mark.spec("EVT-5")
def test_time_that_passes_between_idle_and_iowait_is_in_neither(sysroot: Sysroot, catalog: Catalog) -> None:
    """The kernel takes iowait back while a cpu sleeps: the split is absent, and what is known is not lost."""
    write_stat(sysroot, BEFORE)
    with drive(sysroot, catalog, 0) as driver:
        moved = list(AFTER[0])
        moved[3], moved[4] = moved[3] + 15, moved[4] - 15
        write_stat(sysroot, {0: moved, 1: AFTER[1]})
        (row,) = driver.sample()
        assert driver.collector.losses().is_empty
    assert row["util"] == pytest.approx(0.75)
    assert not {"idle", "iowait"} & row.keys()


def test_a_kernel_that_writes_fewer_columns_lacks_those_shares(sysroot: Sysroot, catalog: Catalog) -> None:
    """Steal and guest that an old kernel does not count are absent, not zero."""
    write_stat(sysroot, {0: BEFORE[0][:7]})
    with drive(sysroot, catalog) as driver:
        write_stat(sysroot, {0: AFTER[0][:7]})
        (row,) = driver.sample()
    assert row["util"] == pytest.approx(0.75)
    assert not {"steal", "guest"} & row.keys()


def test_steal_is_time_and_a_share(sysroot: Sysroot, catalog: Catalog) -> None:
    """A tick is what the kernel says it is, and the share is of the cpu's whole interval."""
    write_stat(sysroot, {0: [0, 0, 0, 100, 0, 0, 0, 10, 0, 0]})
    with drive(sysroot, catalog, source="cpu.steal") as driver:
        write_stat(sysroot, {0: [30, 0, 0, 150, 0, 0, 0, 30, 0, 0]})
        (row,) = driver.sample()
    assert row["steal_ns"] == 20 * TICK_NS
    assert row["steal"] == pytest.approx(0.2)


ticks = st.lists(st.integers(0, 2**63), min_size=7, max_size=10)


@pytest.mark.spec("EVT-5")
@given(before=ticks, after=ticks)
def test_no_two_readings_make_a_share_outside_zero_and_one(before: list[int], after: list[int]) -> None:
    """Whatever the kernel writes, a share is a share: a step back is named and computed with by nobody."""
    found = compute_cpu_time(before, after, 1)
    if isinstance(found, str):
        assert any(now < then for then, now in zip(before, after, strict=False))
        return
    if found.whole:
        shares = [share for name, share in found.compute_shares().items() if name != "guest" and share is not None]
        assert all(0 <= share <= 1 for share in shares)
        assert found.compute_shares()["util"] is not None


@given(st.lists(st.lists(st.integers(0, 10**9), min_size=10, max_size=10), min_size=1, max_size=4))
def test_a_sum_of_cpus_conserves_their_ticks(readings: list[list[int]]) -> None:
    """Nothing is added and nothing lost when several cpus are made one."""
    times = [compute_cpu_time([0] * 10, reading, 1) for reading in readings]
    known = [time for time in times if isinstance(time, CpuTime)]
    assert compute_sum(known).whole == sum(time.whole for time in known)
    assert len(known) == len(readings)


def test_a_spinner_shows_on_the_cpu_it_is_pinned_to(catalog: Catalog, workload: Callable[[Workload], Running]) -> None:
    """On the real machine: a cpu that a program spins on is busy while it does."""
    cpu = max(os.sched_getaffinity(0))
    child = workload(spin(400_000_000, cpu=cpu))
    child.wait("ready")
    resolved = resolve_onto(catalog.entries["cpu.util"], "fs:proc:stat", Target("cpu", (cpu,)))
    with Driver(MachineUtil(), resolved, bind_machine(cpu)) as driver:
        child.release()
        facts = child.wait("spun")
        (row,) = driver.sample()
    # What a cpu did is counted in ticks, by what stands on it at each.
    assert (row["util"] + row["steal"]) * row["interval_ns"] >= 0.9 * facts["oncpu_ns"]
    assert row["util"] <= 1.0
