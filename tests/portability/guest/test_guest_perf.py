"""What perf events count, against programs that count the same themselves."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omn_kernel.targets import bind_cgroup

from omn_core.api import ProbeContext, Target
from omn_core.testing.harness import bind_machine, bind_processes
from omn_core.testing.stepped import Running, Workload, make_workload
from omn_core.testing.workloads import spin, touch_pages

Start = Callable[[Workload], Running]
PAGES, SLEEPS, MOVES = 2000, 300, 60

SLEEPER = make_workload(
    f"sleep {SLEEPS} times",
    f"""
step("ready")
before = resource.getrusage(resource.RUSAGE_SELF)
for _ in range({SLEEPS}):
    time.sleep(0.0001)
after = resource.getrusage(resource.RUSAGE_SELF)
step("slept", switches=after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw)
""",
)

MOVER = make_workload(
    f"move {MOVES} times",
    f"""
def moves():
    with open("/proc/self/sched") as file:
        return next(int(line.split()[-1]) for line in file if line.startswith("se.nr_migrations"))

os.sched_setaffinity(0, {{0}})
step("ready")
before = moves()
for number in range({MOVES}):
    os.sched_setaffinity(0, {{(number + 1) % 2}})
step("moved", moves=moves() - before)
""",
)


@pytest.mark.spec("KRN-9", "SRC-1")
def test_page_faults_are_those_that_the_program_counted(drive: Any, workload: Start) -> None:
    """getrusage's faults between two steps lie inside perf's, which see the steps themselves too."""
    child = workload(touch_pages(PAGES))
    child.wait("ready")
    with drive("mem.faults", "pmu:sw", bind_processes(child.pid), mode="count") as driver:
        child.release()
        counted = child.wait("touched")["minflt"]
        (row,) = driver.sample()
    assert counted >= PAGES
    assert counted <= row["faults"] <= counted + 100


@pytest.mark.spec("KRN-9", "SRC-1")
def test_context_switches_are_those_that_the_program_counted(drive: Any, workload: Start) -> None:
    """A sleep is one, unless its time is over before the task is off the cpu; perf sees those of the steps too."""
    child = workload(SLEEPER)
    child.wait("ready")
    with drive("sched.switches", "pmu:sw", bind_processes(child.pid), mode="count") as driver:
        child.release()
        counted = child.wait("slept")["switches"]
        (row,) = driver.sample()
    assert counted > SLEEPS / 2
    assert counted <= row["switches"] <= counted + 20


@pytest.mark.spec("KRN-9", "SRC-1")
def test_migrations_are_those_that_the_scheduler_counted(drive: Any, workload: Start) -> None:
    """A program that pins itself to one cpu and the other in turn."""
    child = workload(MOVER)
    child.wait("ready")
    with drive("sched.migrations", "pmu:sw", bind_processes(child.pid), mode="count") as driver:
        child.release()
        counted = child.wait("moved")["moves"]
        (row,) = driver.sample()
    assert counted == row["migrations"] == MOVES


@pytest.mark.spec("KRN-9", "SRC-1")
def test_the_cpu_clock_of_a_process_is_what_it_ran(drive: Any, workload: Start) -> None:
    """perf's clock and the scheduler's own account of the same span."""
    child = workload(spin(300_000_000))
    child.wait("ready")
    with drive("cpu.cycles", "pmu:sw", bind_processes(child.pid), mode="count") as driver:
        child.release()
        ran_ns = child.wait("spun")["oncpu_ns"]
        (row,) = driver.sample()
    assert row["cycles"] == pytest.approx(ran_ns, rel=0.3)


@pytest.mark.spec("KRN-9", "KRN-11")
def test_the_cpu_clock_of_a_cgroup_is_what_its_processes_ran(
    drive: Any, workload: Start, make_cgroup: Callable[[str], Path]
) -> None:
    """Moved in after the events were opened, so that even a kernel that counts from a switch on counts all of it."""
    folder = make_cgroup("unified")
    child = workload(spin(300_000_000))
    child.wait("ready")
    target = bind_cgroup(Target("cgroup", f"/{folder.name}"), ProbeContext())
    with drive("cpu.cycles", "pmu:sw", target, mode="count") as driver:
        (folder / "cgroup.procs").write_text(str(child.pid))
        child.release()
        ran_ns = child.wait("spun")["oncpu_ns"]
        (row,) = driver.sample()
    assert row["cycles"] == pytest.approx(ran_ns, rel=0.3)


@pytest.mark.spec("KRN-9", "KRN-8")
def test_samples_weigh_no_more_than_what_was_run(drive: Any, workload: Start) -> None:
    """Each stands for the time since the last; rings, records and stacks are read on every kernel."""
    child = workload(spin(500_000_000))
    child.wait("ready")
    with drive("cpu.profile", "pmu:sw", bind_processes(child.pid), mode="sample") as driver:
        child.release()
        ran_ns = child.wait("spun")["oncpu_ns"]
        driver.sample()
    weight_ns = sum(row["oncpu_ns"] for row in driver.rows)
    assert driver.rows
    assert weight_ns <= 1.3 * ran_ns + 20_000_000


@pytest.mark.spec("KRN-9", "KRN-11")
def test_the_machine_switches_at_least_as_often_as_one_of_its_programs(drive: Any, workload: Start) -> None:
    """One event a cpu, whatever runs there."""
    child = workload(SLEEPER)
    child.wait("ready")
    with drive("sched.switches", "pmu:sw", bind_machine(), "cpu", mode="count") as driver:
        child.release()
        counted = child.wait("slept")["switches"]
        rows = driver.sample()
    assert len(rows) == os.cpu_count()
    assert sum(row["switches"] for row in rows) >= counted
