"""cpu.util of processes and threads against the scheduler's own account."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
from omn_cpu.process_time import ProcessClock, ProcessTicks, ProcessTime, ThreadSchedstat
from omn_kernel.procfs.task import TICK_NS

from omn_core.api import BoundTarget, ProcessHandle, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.testing.harness import Driver, bind_processes, bind_thread, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import duty_cycle, rename, spin, threads

Start = Callable[[Workload], Running]

CLOCK, TICKS, THREAD = "clock:process", "fs:proc:pid_stat", "fs:proc:schedstat"


def drive(
    catalog: Catalog, backend: str, target: BoundTarget, sysroot: str = "/", keys: tuple[str, ...] = ("comm",)
) -> Driver:
    makers: dict[str, type[ProcessTime]] = {CLOCK: ProcessClock, TICKS: ProcessTicks, THREAD: ThreadSchedstat}
    resolved = resolve_onto(catalog.entries["cpu.util"], backend, target.target, keys=keys)
    return Driver(makers[backend](), resolved, target, sysroot=sysroot)


def read_schedstat(pid: int) -> int:
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[0])


def test_a_spinner_pinned_to_one_cpu_is_one_cpu(catalog: Catalog, workload: Start) -> None:
    """What the rows add up to is what schedstat counted, and over the spin and little more it is a share of a cpu."""
    child = workload(spin(1_000_000_000, cpu=max(os.sched_getaffinity(0))))
    child.wait("ready")
    before = read_schedstat(child.pid)
    began_ns = time.monotonic_ns()
    with drive(catalog, CLOCK, bind_processes(child.pid)) as driver:
        child.release()
        facts = child.wait("spun")
        (row,) = driver.sample()
        length_ns = time.monotonic_ns() - began_ns
        after = read_schedstat(child.pid)
    assert row["oncpu_ns"] == pytest.approx(after - before, abs=1_000_000)
    assert facts["wall_ns"] <= row["interval_ns"] <= length_ns
    assert row["util"] == pytest.approx(row["oncpu_ns"] / row["interval_ns"])
    assert 0 < row["util"] <= 1.0
    assert (row["task"], row["pid"]) == (child.pid, child.pid)


def test_a_duty_cycle_of_thirty_percent_is_a_third_of_a_cpu(catalog: Catalog, workload: Start) -> None:
    """A program that runs 30 % of the time reads what schedstat grew by; on a machine that lets it, 0.3 within 0.03."""
    child = workload(duty_cycle(0.3, 1_500_000_000))
    child.wait("ready")
    with drive(catalog, CLOCK, bind_processes(child.pid)) as driver:
        child.release()
        facts = child.wait("cycled")
        (row,) = driver.sample()
    truth = facts["oncpu_ns"] / facts["wall_ns"]
    assert row["oncpu_ns"] == pytest.approx(facts["oncpu_ns"], abs=20_000_000)
    assert row["util"] == pytest.approx(row["oncpu_ns"] / row["interval_ns"])
    if truth == pytest.approx(0.3, abs=0.01):
        assert row["util"] == pytest.approx(0.3, abs=0.03)


def test_several_threads_are_several_cpus_and_those_that_ended_count(catalog: Catalog, workload: Start) -> None:
    """The clock holds what threads ran that are there no more."""
    child = workload(threads([b"one", b"two"], 200_000_000))
    child.wait("ready")
    with drive(catalog, CLOCK, bind_processes(child.pid)) as driver:
        child.release()
        facts = child.wait("ran")
        child.release()
        child.wait("ended")
        (row,) = driver.sample()
    assert row["oncpu_ns"] >= sum(facts["oncpu_ns"])
    assert row["oncpu_ns"] == pytest.approx(sum(facts["oncpu_ns"]), rel=0.1)


@pytest.mark.spec("RUN-7")
def test_a_process_that_ended_is_read_once_more_and_then_gone(catalog: Catalog, workload: Start) -> None:
    """As a zombie its clock still holds everything it ran: nothing is lost, and the end is no loss either."""
    child = workload(spin(100_000_000))
    child.wait("ready")
    collector = ProcessClock()
    target = bind_processes(child.pid, launched=True)
    resolved = resolve_onto(catalog.entries["cpu.util"], CLOCK, Target("launch", ("x",)))
    with Driver(collector, resolved, target) as driver:
        child.release()
        facts = child.wait("spun")
        child.release()
        child.wait_exited()
        (row,) = driver.sample()
        assert row["oncpu_ns"] >= facts["oncpu_ns"]
        with pytest.raises(TargetGone):
            driver.sample()
        assert collector.losses().is_empty


@pytest.mark.spec("RUN-6")
def test_a_process_reaped_before_its_last_reading_is_a_counted_loss(catalog: Catalog, workload: Start) -> None:
    """What it last ran went with it: counted, said, and no row is made up."""
    child = workload(spin(1_000_000))
    child.wait("ready")
    collector = ProcessClock()
    target = bind_processes(child.pid)
    with Driver(collector, resolve_onto(catalog.entries["cpu.util"], CLOCK, target.target), target) as driver:
        child.release()
        child.wait("spun")
        child.finish()
        with pytest.raises(TargetGone):
            driver.sample()
        assert collector.losses().failed_reads == 1
        assert driver.rows == []


def test_every_process_of_several_has_its_row(catalog: Catalog, workload: Start) -> None:
    """Two pids are two rows a reading; when one ends the other goes on."""
    first, second = workload(spin(1_000_000)), workload(spin(1_000_000))
    for child in (first, second):
        child.wait("ready")
    with drive(catalog, CLOCK, bind_processes(first.pid, second.pid), keys=("task",)) as driver:
        assert [row["task"] for row in driver.sample()] == [first.pid, second.pid]
        first.release()
        first.wait("spun")
        first.release()
        first.wait_exited()
        assert [row["task"] for row in driver.sample()] == [first.pid, second.pid]
        assert [row["task"] for row in driver.sample()] == [second.pid]


def test_a_thread_is_read_alone(catalog: Catalog, workload: Start) -> None:
    """A thread that slept while its sibling ran has not run."""
    child = workload(threads([b"busy", b"busier"], 100_000_000))
    tids = child.wait("ready")["tids"]
    with drive(catalog, THREAD, bind_thread(child.pid, tids[1])) as driver:
        child.release()
        facts = child.wait("ran")
        (row,) = driver.sample()
    assert (row["task"], row["pid"], row["comm"]) == (tids[1], child.pid, "busier")
    assert row["oncpu_ns"] == pytest.approx(facts["oncpu_ns"][1], abs=5_000_000)


@pytest.mark.parametrize("comm", [b") R 1 (", b"two\nlines", b"\x1b[31mred", b"\xff\xfe", b""])
def test_any_name_is_carried_as_it_is(catalog: Catalog, workload: Start, comm: bytes) -> None:
    """A name may hold anything: it reaches the row byte for byte, and the figures beside it are untouched."""
    child = workload(rename(comm))
    child.wait("named")
    for backend in (CLOCK, TICKS):
        with drive(catalog, backend, bind_processes(child.pid)) as driver:
            (row,) = driver.sample()
        assert row["comm"].encode("utf-8", "surrogateescape") == comm
        assert row["util"] >= 0


def test_ticks_agree_with_the_clock_to_a_tick(catalog: Catalog, workload: Start) -> None:
    """The fallback reads the same quantity in its own resolution, and divides it into user and system."""
    child = workload(spin(300_000_000))
    child.wait("ready")
    with drive(catalog, TICKS, bind_processes(child.pid)) as driver:
        child.release()
        facts = child.wait("spun")
        (row,) = driver.sample()
    # Of two numbers of whole ticks each is less than one off, and the program ends its loop and says so besides.
    assert row["oncpu_ns"] == pytest.approx(facts["oncpu_ns"], abs=2 * TICK_NS + 5_000_000)
    assert row["user"] + row["system"] == pytest.approx(row["util"])


def bind_fixture(pid: int) -> BoundTarget:
    return BoundTarget(Target("pid", (pid,)), "process", (ProcessHandle(pid, None, 100),))


@pytest.mark.spec("EVT-5")
def test_ticks_that_step_back_make_no_row(catalog: Catalog, sysroot: Sysroot) -> None:
    """Neither a negative share nor one of 2**64: the reading is counted as failed, by the counter's name."""
    sysroot.write("proc/1234567/comm", b"big\n").write_process(1234567, utime=50, stime=50)
    with drive(catalog, TICKS, bind_fixture(1234567), str(sysroot)) as driver:
        sysroot.write_process(1234567, utime=40, stime=60)
        assert driver.sample() == []
        sysroot.write_process(1234567, utime=45, stime=60)
        (row,) = driver.sample()
        assert row["oncpu_ns"] == 5 * TICK_NS
        losses = driver.collector.losses()
    assert losses.failed_reads == 1
    assert "user_ns of task 1234567" in losses.reasons[0]


def test_the_reading_costs_the_target_nothing(catalog: Catalog) -> None:
    """A clock is read from outside: nothing is spent inside the target, which is known and not unknown."""
    with drive(catalog, CLOCK, bind_processes(os.getpid())) as driver:
        driver.sample()
        assert driver.collector.in_target_cost().cpu_ns == 0
