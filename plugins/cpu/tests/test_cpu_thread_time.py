"""cpu.oncpu_time through schedstat: threads followed, and what their ends take away."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from omn_cpu.thread_time import ThreadTime
from omn_kernel.procfs.process import read_stat

from omn_core.api import BoundTarget, MachineRefused, ProcessHandle, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.testing.harness import Driver, bind_processes, bind_thread, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.workloads import spin, threads

Start = Callable[[Workload], Running]


def drive(catalog: Catalog, target: BoundTarget) -> Driver:
    keys = ("task", "comm")
    resolved = resolve_onto(
        catalog.entries["cpu.oncpu_time"], "fs:proc:schedstat", target.target, mode="poll", keys=keys
    )
    return Driver(ThreadTime(), resolved, target)


def total_by_task(driver: Driver) -> dict[int, int]:
    totals: dict[int, int] = {}
    for row in driver.rows:
        totals[row["task"]] = totals.get(row["task"], 0) + row["oncpu_ns"]
    return totals


def test_each_thread_ran_what_schedstat_counted(catalog: Catalog, workload: Start) -> None:
    """Between two instants at which all threads wait the rows are exact, thread by thread, under their own names."""
    child = workload(threads([b"alpha", b"beta"], 50_000_000))
    tids = child.wait("ready")["tids"]
    with drive(catalog, bind_processes(child.pid)) as driver:
        child.release()
        facts = child.wait("ran")
        rows = {row["task"]: row for row in driver.sample()}
        assert driver.collector.losses().is_empty
        assert driver.collector.fields() == {"missing_ns": 0}
    assert {rows[tid]["comm"] for tid in tids} == {"alpha", "beta"}
    for tid, spent in zip(tids, facts["oncpu_ns"], strict=True):
        assert rows[tid]["oncpu_ns"] == pytest.approx(spent, abs=5_000_000)
    assert rows[child.pid]["pid"] == child.pid


def test_a_thread_that_starts_in_the_window_is_followed_from_its_start(catalog: Catalog, workload: Start) -> None:
    """Attached before the threads were made, their whole life is in the rows."""
    child = workload(
        Workload(
            "start a thread on request",
            spin(0).source.replace('step("ready")', 'step("early")') + threads([b"late"], 30_000_000).source,
        )
    )
    child.wait("early")
    with drive(catalog, bind_processes(child.pid)) as driver:
        child.release()
        child.wait("spun")
        child.release()
        (tid,) = child.wait("ready")["tids"]
        child.release()
        facts = child.wait("ran")
        driver.sample()
        totals = total_by_task(driver)
    assert totals[tid] >= facts["oncpu_ns"][0]
    assert totals[tid] == pytest.approx(facts["oncpu_ns"][0], abs=5_000_000)


@pytest.mark.spec("RUN-6", "EVT-5")
def test_what_a_thread_ran_before_its_end_is_missing_and_said(catalog: Catalog, workload: Start) -> None:
    """Threads that ran and ended between two readings are failed readings; the process's clock knows how much."""
    child = workload(threads([b"one", b"two"], 50_000_000))
    tids = child.wait("ready")["tids"]
    with drive(catalog, bind_processes(child.pid)) as driver:
        child.release()
        facts = child.wait("ran")
        child.release()
        child.wait("ended")
        rows = driver.sample()
        losses = driver.collector.losses()
        missing = driver.collector.fields()["missing_ns"]
    assert not {row["task"] for row in rows} & set(tids)
    assert losses.failed_reads == 2
    assert losses.reasons == ("a thread ended between two readings, and what it did since the last is in no row",)
    assert losses.is_lower_bound
    assert missing == pytest.approx(sum(facts["oncpu_ns"]), rel=0.1)
    assert missing >= sum(facts["oncpu_ns"])


@pytest.mark.spec("RUN-6")
def test_threads_that_no_reading_ever_saw_are_known_to_be_missing(catalog: Catalog, workload: Start) -> None:
    """A thread that came and ended in one interval is in no list; the clock still says that something ran."""
    early = spin(0).source.replace('step("ready")', 'step("early")')
    child = workload(Workload("threads between readings", early + threads([b"unseen"], 50_000_000).source))
    child.wait("early")
    with drive(catalog, bind_processes(child.pid)) as driver:
        for step in ("spun", "ready", "ran", "ended"):
            child.release()
            facts = child.wait(step)
        driver.sample()
        losses = driver.collector.losses()
        assert losses.failed_reads == 1
        assert losses.reasons == ("threads came and ended between two readings, and what they did is in no row",)
        assert driver.collector.fields()["missing_ns"] >= 50_000_000
    assert facts["tids"]


def test_a_zombie_is_read_to_its_last_nanosecond(catalog: Catalog, workload: Start) -> None:
    """The closing read of a program that ended finds its first thread's whole account: nothing is missing."""
    child = workload(spin(50_000_000))
    child.wait("ready")
    with drive(catalog, bind_processes(child.pid, launched=True)) as driver:
        child.release()
        facts = child.wait("spun")
        child.release()
        child.wait_exited()
        driver.sample()
        assert total_by_task(driver)[child.pid] >= facts["oncpu_ns"]
        assert driver.collector.fields() == {"missing_ns": 0}
        assert driver.collector.losses().is_empty


@pytest.mark.spec("RUN-7", "REQ-10")
def test_a_process_reaped_after_its_last_reading_lost_nothing(catalog: Catalog, workload: Start) -> None:
    """One of two ends: its zombie is read once, and neither its rows nor its reaping come after that."""
    first, second = workload(spin(1)), workload(spin(1))
    for child in (first, second):
        child.wait("ready")
    with drive(catalog, bind_processes(first.pid, second.pid)) as driver:
        first.release()
        first.wait("spun")
        first.release()
        first.wait_exited()
        assert {row["task"] for row in driver.sample()} == {first.pid, second.pid}
        assert {row["task"] for row in driver.sample()} == {second.pid}
        first.finish()
        assert {row["task"] for row in driver.sample()} == {second.pid}
        assert driver.collector.losses().is_empty


@pytest.mark.spec("RUN-7", "RUN-6")
def test_a_process_reaped_in_between_is_the_end_and_one_failed_reading(catalog: Catalog, workload: Start) -> None:
    """The interval that the reaping took away is counted once, and no figure stands for it."""
    child = workload(spin(1_000_000))
    child.wait("ready")
    with drive(catalog, bind_processes(child.pid)) as driver:
        child.release()
        child.wait("spun")
        child.finish()
        with pytest.raises(TargetGone):
            driver.sample()
        losses = driver.collector.losses()
    assert losses.failed_reads == 1
    assert losses.reasons == ("a process was reaped by its parent before its last reading",)
    assert driver.rows == []


def test_a_thread_target_is_that_thread_alone(catalog: Catalog, workload: Start) -> None:
    """Its siblings are in no row, and what they ran is not missing."""
    child = workload(threads([b"mine", b"other"], 20_000_000))
    tids = child.wait("ready")["tids"]
    with drive(catalog, bind_thread(child.pid, tids[0])) as driver:
        child.release()
        child.wait("ran")
        assert [row["task"] for row in driver.sample()] == [tids[0]]
        assert driver.collector.losses().is_empty


def test_a_thread_that_sleeps_is_a_zero_and_a_row(catalog: Catalog, workload: Start) -> None:
    """A zero is a measurement: a thread that did not run has a row that says so."""
    child = workload(threads([b"idle"]))
    tids = child.wait("ready")["tids"]
    wait_asleep(child.pid, child.pid, tids[0])
    with drive(catalog, bind_processes(child.pid)) as driver:
        driver.sample()
        rows = {row["task"]: row["oncpu_ns"] for row in driver.sample()}
    assert rows[tids[0]] == 0


def wait_asleep(pid: int, *tids: int) -> None:
    """Wait until threads sleep, all at once: none of them holds or wants the interpreter then."""
    while any(read_stat("/", pid, tid).state != "S" for tid in tids):
        os.sched_yield()


def test_a_process_that_is_gone_is_refused_before_anything_runs(catalog: Catalog) -> None:
    """A number that names nothing is the machine's refusal, with the number."""
    target = BoundTarget(Target("pid", (4_000_000,)), "process", (ProcessHandle(4_000_000, None, 1),))
    with pytest.raises(MachineRefused, match="process 4000000 ended before it could be read"):
        drive(catalog, target).__enter__()


def test_more_threads_than_files_are_kept_open_for(
    catalog: Catalog, workload: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the bound a thread's file is opened for each reading: its rows are the same."""
    monkeypatch.setattr("omn_kernel.task_files.MOST_KEPT", 2)
    child = workload(threads([b"t%d" % index for index in range(6)], 5_000_000))
    tids = child.wait("ready")["tids"]
    with drive(catalog, bind_processes(child.pid)) as driver:
        child.release()
        facts = child.wait("ran")
        totals = {row["task"]: row["oncpu_ns"] for row in driver.sample()}
        for tid, spent in zip(tids, facts["oncpu_ns"], strict=True):
            assert totals[tid] == pytest.approx(spent, abs=5_000_000)
        child.release()
        child.wait("ended")
        driver.sample()
        assert driver.collector.losses().failed_reads == 6
