"""mem.faults: counts of a process, a thread, the machine, and what becomes of them when a life ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from omn_core.api import BoundTarget, MachineRefused, ProcessHandle, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, bind_machine, bind_processes, bind_thread, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import end_with, threads, touch_pages

Start = Callable[[Workload], Running]
Drive = Callable[..., Driver]


@pytest.fixture
def drive(registry: Registry, catalog: Catalog) -> Drive:
    """Make the driver of a backend of mem.faults."""

    def make(
        target: BoundTarget,
        *,
        backend: str = "fs:proc:stat",
        mode: str = "poll",
        sysroot: object = "/",
        keys: tuple[str, ...] = (),
        predicate: str | None = None,
    ) -> Driver:
        entry = catalog.entries["mem.faults"]
        resolved = resolve_onto(entry, backend, target.target, mode=mode, keys=keys, predicate=predicate)
        factory = registry.load(registry.collectors["mem.faults", backend].factory)
        return Driver(factory(), resolved, target, sysroot=str(sysroot))

    return make


def write_faults(sysroot: Sysroot, pid: int, minor: int, major: int, state: str = "S", comm: str = "x") -> None:
    fields = [state, 1, 1, 1, 0, -1, 0, minor, 0, major, *[0] * 9, 100, *[0] * 30]
    sysroot.write(f"/proc/{pid}/stat", f"{pid} ({comm}) {' '.join(map(str, fields))}\n")


def make_target(*pids: int) -> BoundTarget:
    return BoundTarget(Target("pid", pids), "process", tuple(ProcessHandle(pid, None, 100) for pid in pids))


@pytest.mark.spec("MEM-1", "RUN-10", "RUN-15")
def test_what_stood_before_the_attach_is_not_counted(sysroot: Sysroot, drive: Drive) -> None:
    """The reading at the attach is the baseline of the first interval, and each interval is its own."""
    write_faults(sysroot, 4194301, 1000, 10, comm=") R 1 (")
    with drive(make_target(4194301), sysroot=sysroot) as driver:
        write_faults(sysroot, 4194301, 1005, 12)
        (row,) = driver.sample()
        assert (row["faults"], row["minor"], row["major"], row["task"]) == (7, 5, 2, 4194301)
        assert driver.sample()[0]["faults"] == 0


@pytest.mark.spec("EVT-5")
def test_a_count_that_steps_back_is_never_negative(sysroot: Sysroot, drive: Drive) -> None:
    """Its interval is in no row: that reading is a failed one, by the counter's name, and the next stands on it."""
    write_faults(sysroot, 7, 1000, 10)
    with drive(make_target(7), sysroot=sysroot) as driver:
        write_faults(sysroot, 7, 900, 11)
        assert driver.sample() == []
        write_faults(sysroot, 7, 904, 11)
        (row,) = driver.sample()
        assert (row["minor"], row["major"]) == (4, 0)
        losses = driver.collector.losses()
    assert losses.failed_reads == 1
    assert losses.reasons == ("the kernel's minor of task 7 stepped back, and that interval is unknown",)


@pytest.mark.spec("RUN-7")
def test_a_zombies_last_counters_are_its_closing_reading(sysroot: Sysroot, drive: Drive) -> None:
    """They are read once; after it the process is followed no longer."""
    write_faults(sysroot, 7, 10, 0)
    write_faults(sysroot, 8, 10, 0)
    with drive(make_target(7, 8), sysroot=sysroot, keys=("task",)) as driver:
        write_faults(sysroot, 7, 15, 0, state="Z")
        assert [(row["task"], row["faults"]) for row in driver.sample()] == [(7, 5), (8, 0)]
        assert [row["task"] for row in driver.sample()] == [8]
        assert driver.collector.losses().is_empty
        assert driver.collector.facts() == ()


@pytest.mark.spec("RUN-6")
@pytest.mark.parametrize("mode", ["count", "poll"])
def test_a_process_that_is_reaped_first_is_said(drive: Drive, mode: str) -> None:
    """Its end is the end of the request; what it did after its last reading is a failed one, in every mode."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with drive(bind_processes(child.pid), mode=mode) as driver:
        child.communicate(b"\n")
        with pytest.raises(TargetGone):
            driver.sample()
        losses = driver.collector.losses()
    assert losses.failed_reads == 1
    assert "reaped" in losses.reasons[0]


@pytest.mark.spec("MEM-1")
def test_a_launched_program_keeps_its_count_until_it_is_reaped(workload: Start, drive: Drive) -> None:
    """The closing reading of a zombie holds every fault of its life after the attach."""
    program = workload(end_with(0))
    program.wait("ready")
    with drive(bind_processes(program.pid, launched=True), mode="count") as driver:
        before = Path(f"/proc/{program.pid}/stat").read_bytes().rpartition(b")")[2].split()[7]
        program.release()
        program.wait_exited()
        after = Path(f"/proc/{program.pid}/stat").read_bytes().rpartition(b")")[2].split()[7]
        (row,) = driver.sample()
    assert row["minor"] == int(after) - int(before)


@pytest.mark.spec("MEM-1", "SRC-1")
def test_fifty_thousand_fresh_pages_are_fifty_thousand_faults(workload: Start, drive: Drive) -> None:
    """What getrusage counted between the two readings, and nowhere a number of bytes."""
    program = workload(touch_pages(50_000))
    program.wait("ready")
    with drive(bind_processes(program.pid)) as driver:
        program.release()
        counted = program.wait("touched")["minflt"]
        (row,) = driver.sample()
    assert counted >= 50_000
    assert counted <= row["faults"] <= counted + 200
    assert row["faults"] == row["minor"] + row["major"]
    assert not any(name.endswith("bytes") for name in row)


def test_a_thread_counts_its_own_faults(workload: Start, drive: Drive) -> None:
    """From the thread's own stat file, under the thread's number; its end is the end of the request."""
    program = workload(threads([b"one", b"two"]))
    first, second = program.wait("ready")["tids"]
    with drive(bind_thread(program.pid, first)) as driver:
        (row,) = driver.sample()
        assert row["task"] == first
        own = Path(f"/proc/{program.pid}/task/{first}/stat").read_bytes().rpartition(b")")[2].split()[7]
        whole = Path(f"/proc/{program.pid}/stat").read_bytes().rpartition(b")")[2].split()[7]
        assert int(own) < int(whole)
        program.release()
        program.wait("ran")
        program.release()
        program.wait("ended")
        with pytest.raises(TargetGone):
            driver.sample()
    assert second != first


def test_the_machine_counts_everybodys_faults(workload: Start, drive: Drive) -> None:
    """At least those of a program that touched so many pages meanwhile."""
    program = workload(touch_pages(10_000))
    program.wait("ready")
    with drive(bind_machine(), backend="fs:proc:vmstat", mode="count") as driver:
        program.release()
        program.wait("touched")
        (row,) = driver.sample()
    assert row["faults"] >= 10_000
    assert set(row) == {"ts_ns", "faults", "minor", "major"}


def test_five_hundred_processes_take_a_descriptor_each(sysroot: Sysroot, drive: Drive) -> None:
    """All are read in one tick, whatever the soft limit of open files was, and it is put back."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 1300:
        pytest.skip(f"the hard limit of open files is {before[1]}")
    pids = tuple(range(1000, 1500))
    for pid in pids:
        write_faults(sysroot, pid, 0, 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        with drive(make_target(*pids), sysroot=sysroot, keys=("task",)) as driver:
            assert len(driver.sample()) == 500
            assert len(os.listdir("/proc/self/fd")) > 500
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 256
        assert len(os.listdir("/proc/self/fd")) < 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.spec("MEM-1", "CAT-11")
def test_the_events_count_what_the_stat_file_counts(workload: Start, drive: Drive) -> None:
    """Both backends between two instants at which the program waits: one fault of either kind is one in both."""
    program = workload(touch_pages(5_000))
    program.wait("ready")
    with (
        drive(
            bind_processes(program.pid), backend="pmu:sw", mode="count", predicate="minor >= 0 and major >= 0"
        ) as events,
        drive(bind_processes(program.pid), mode="count") as files,
    ):
        program.release()
        program.wait("touched")
        (by_events,), (by_files,) = events.sample(), files.sample()
    assert {name: by_events[name] for name in ("faults", "minor", "major")} == {
        name: by_files[name] for name in ("faults", "minor", "major")
    }
    assert by_events["faults"] >= 5_000


def test_the_events_of_a_kernel_thread_are_refused(drive: Drive) -> None:
    """It has no memory that it could fault in."""
    with pytest.raises(MachineRefused, match="is a kernel thread"), drive(bind_processes(2), backend="pmu:sw"):
        raise AssertionError("it was attached")
