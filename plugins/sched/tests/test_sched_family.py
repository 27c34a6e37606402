"""The family as omn sees it: the conformance kit, its chains, what takes no privilege, and refusals."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from another_user import run_as_another_user
from omn_sched.threads import Migrations, Waits

from omn_core.api import BoundTarget, MachineRefused, ProcessHandle, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.conformance import check_distribution
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes, bind_thread, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import end_with, threads

Start = Callable[[Workload], Running]
NAMES = "switches migrations runqlat runqlen offcpu wakeup slices lock futex mutex irq softirq numa_balance"
COLLECTED = set(NAMES.split())


@pytest.mark.spec("PLG-3", "PLG-9", "CAT-1", "CAT-2")
def test_the_family_keeps_the_contracts(registry: Registry, catalog: Catalog) -> None:
    """The conformance kit finds no broken line."""
    assert check_distribution("omn-sched", registry, catalog).broken == ()


@pytest.mark.spec("SCH-1", "CAT-1")
def test_every_source_is_declared_and_what_files_hold_is_collected(catalog: Catalog, registry: Registry) -> None:
    """Each source has its chain; what nobody collects says why."""
    entries = {name: entry for name, entry in catalog.entries.items() if entry.family == "sched"}
    assert set(entries) == {f"sched.{name}" for name in NAMES.split()}
    collected = {name for name, backend in registry.collectors if name in entries}
    assert collected == {f"sched.{name}" for name in COLLECTED}
    for name, entry in entries.items():
        assert all(bool(one.uncollected) != ((name, one.id) in registry.collectors) for one in entry.chain)


@pytest.mark.spec("CAT-11", "SRC-2")
def test_waiting_for_a_cpu_has_one_name_where_it_is_one_account(catalog: Catalog) -> None:
    """The tracepoints' figure is another name wherever it stands; counts on files have no time beside them."""
    for name in ("sched.runqlat", "sched.slices"):
        assert catalog.entries[name].attributes["wake_to_run_ns"] == "ns"
    assert catalog.entries["sched.slices"].attributes["queue_ns"] == "ns"
    assert catalog.entries["sched.offcpu"].attributes["queued_ns"] == "ns"
    for name in ("sched.irq", "sched.softirq"):
        file = catalog.entries[name].chain[-1]
        assert file.filter_fields is not None
        assert "time_ns" not in file.filter_fields


def make_target(*pids: int) -> BoundTarget:
    return BoundTarget(Target("pid", pids), "process", tuple(ProcessHandle(pid, None, 100) for pid in pids))


def test_a_sched_file_without_the_counter_is_missing_and_no_zero(catalog: Catalog, sysroot: Sysroot) -> None:
    """Kernels that have the file and not the line are refused by the line."""
    sysroot.write_process(7).write("/proc/7/task/7/sched", "x (7, #threads: 1)\n-----\nnr_switches  :  3\n")
    sysroot.write("/proc/7/task/7/schedstat", "1 2 3\n")
    resolved = resolve_onto(catalog.entries["sched.migrations"], "fs:proc:sched", make_target(7).target)
    with pytest.raises(MachineRefused, match=r"writes no se\.nr_migrations"):
        Driver(Migrations(), resolved, make_target(7), sysroot=str(sysroot)).__enter__()


def drive_waits(catalog: Catalog, target: BoundTarget, sysroot: object = "/") -> Driver:
    resolved = resolve_onto(
        catalog.entries["sched.runqlat"], "fs:proc:schedstat", target.target, mode="poll", keys=("task", "comm")
    )
    return Driver(Waits(), resolved, target, sysroot=str(sysroot))


@pytest.mark.spec("EVT-5")
def test_an_account_is_its_growth_thread_by_thread(catalog: Catalog, sysroot: Sysroot) -> None:
    """A thread that comes counts from zero; a number that passed to another is unknown; one that goes is a loss."""
    sysroot.write_process(7).write("/proc/7/task/7/schedstat", "1000 200 3\n")
    sysroot.write("/proc/7/task/8/schedstat", "50 60 7\n")
    with drive_waits(catalog, make_target(7), sysroot) as driver:
        sysroot.write("/proc/7/task/7/schedstat", "1500 230 5\n")
        sysroot.write("/proc/7/task/9/schedstat", "9 8 1\n")
        rows = {row["task"]: (row["oncpu_ns"], row["wait_ns"], row["slices"]) for row in driver.sample()}
        assert rows == {7: (500, 30, 2), 8: (0, 0, 0), 9: (9, 8, 1)}
        sysroot.write("/proc/7/task/8/schedstat", "10 5 1\n").remove("/proc/7/task/9")
        rows = {row["task"]: (row["oncpu_ns"], row["wait_ns"], row["slices"]) for row in driver.sample()}
        losses = driver.collector.losses()
    assert rows == {7: (0, 0, 0)}
    assert losses.failed_reads == 2
    assert any("passed to another" in reason for reason in losses.reasons)
    assert any("ended between two readings" in reason for reason in losses.reasons)


@pytest.mark.spec("RUN-6")
def test_threads_that_end_are_a_counted_loss(catalog: Catalog, workload: Start) -> None:
    """What two threads waited before their end is in no row, and the answer a lower bound."""
    child = workload(threads([b"one", b"two"], 5_000_000))
    child.wait("ready")
    with drive_waits(catalog, bind_processes(child.pid)) as driver:
        for step in ("ran", "ended"):
            child.release()
            child.wait(step)
        rows = driver.sample()
        losses = driver.collector.losses()
        assert driver.collector.fields()["missing_ns"] >= 10_000_000
    assert [row["task"] for row in rows] == [child.pid]
    assert losses.failed_reads == 2
    assert losses.is_lower_bound


def test_a_thread_target_is_that_thread_alone(catalog: Catalog, workload: Start) -> None:
    """Under its own name, and none of its siblings."""
    child = workload(threads([b"mine", b"other"], 2_000_000))
    tids = child.wait("ready")["tids"]
    with drive_waits(catalog, bind_thread(child.pid, tids[0])) as driver:
        child.release()
        child.wait("ran")
        assert [(row["task"], row["comm"]) for row in driver.sample()] == [(tids[0], "mine")]
        assert driver.collector.losses().is_empty


@pytest.mark.spec("RUN-7")
def test_a_process_that_was_reaped_is_the_end(catalog: Catalog, workload: Start) -> None:
    """Its last interval is a failed reading."""
    child = workload(end_with(0))
    child.wait("ready")
    with drive_waits(catalog, bind_processes(child.pid)) as driver:
        child.finish()
        with pytest.raises(TargetGone):
            driver.sample()
        assert driver.collector.losses().reasons == ("a process was reaped by its parent before its last reading",)


COUNT = ("-m", "count", "-e", "count")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("sched.irq", *COUNT, "--", "true"), 2, "ask for the machine"),
        (("sched.softirq", *COUNT, "--pid", "1", "-d", "1s"), 2, "ask for the machine"),
        (("sched.runqlen", "--pid", "1", "-d", "1s"), 2, "ask sched.runqlat"),
        (("sched.numa_balance", *COUNT, "--cpu", "0", "-d", "1s"), 2, "sched.numa_balance"),
        (("sched.switches", *COUNT, "--keys", "irq", "--system", "-d", "1s"), 2, "irq"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_its_sentence(
    omn: Command, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    """Each is told whose gap it is and what would serve."""
    ran = omn(*arguments)
    assert ran.code == code, ran.stderr
    assert sentence in ran.stderr


def test_another_users_threads_take_no_privilege() -> None:
    """An ordinary user reads the scheduler's accounts of a process that is root's, and those of the machine."""
    printed = run_as_another_user(
        """
        from omn_core.api import BoundTarget, ProcessHandle, Target
        from omn_core.catalog.load import load_catalog
        from omn_core.plugins import discover
        from omn_core.testing.harness import Driver, bind_machine, resolve_onto
        registry = discover()
        catalog = load_catalog(registry)
        rows = [row for row in registry.collectors.values() if row.source.startswith("sched.")]
        # Not every kernel has the machine's schedstat, and perf events are a privilege of their own.
        rows = [row for row in rows if row.backend.startswith("fs:") and row.backend != "fs:proc:cpu_schedstat"]
        factories = {(row.source, row.backend): registry.load(row.factory) for row in rows}
        """,
        f"""
        for (name, backend), factory in sorted(factories.items()):
            is_of_process = "system" not in (catalog.entries[name].backend(backend).targets or ("system",))
            handle = ProcessHandle({os.getppid()}, None, 1)
            process = BoundTarget(Target("pid", (handle.pid,)), "process", (handle,))
            target = process if is_of_process else bind_machine()
            resolved = resolve_onto(catalog.entries[name], backend, target.target, mode="poll")
            with Driver(factory(), resolved, target) as driver:
                rows = driver.sample()
                print(name, driver.collector.losses().is_empty, len(rows) > 0)
        """,
    )
    names = "irq migrations runqlat runqlen softirq switches switches"
    assert printed.splitlines() == [f"sched.{name} True True" for name in names.split()]
