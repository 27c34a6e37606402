"""Cpu sources end to end, against programs that count their own cpu and against the scheduler's accounts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omn_core.testing.stepped import Running, Workload
from omn_core.testing.workloads import spin

SECOND = 1_000_000_000


REPORT = "run, wait, _ = open('/proc/self/schedstat').read().split(); print(run, wait, file=sys.stderr)"
SPIN = f"""
import os, sys, time
os.sched_setaffinity(0, {{max(os.sched_getaffinity(0))}})
end = time.monotonic() + 2
while time.monotonic() < end:
    pass
{REPORT}
"""
CYCLE = f"""
import sys, time
opened, started = time.monotonic(), time.thread_time()
for period in range(1, 101):
    while time.thread_time() - started < 0.006 * period:
        pass
    time.sleep(max(0, opened + 0.02 * period - time.monotonic()))
{REPORT}
"""
TICK_NS = 10_000_000
"""The longest tick that a kernel has (HZ 100): how old the account of a running thread may be."""
MARGIN_NS = 50_000_000
"""An interpreter's start and end lie in the window and outside the program's own reading of its account."""


def measure_util(omn: Any, program: str) -> tuple[dict[str, Any], int, int]:
    """Measure a program's share of a cpu; return the result, and what it reports of its own schedstat."""
    ran = omn(
        "cpu.util",
        "--interval",
        "100ms",
        "-e",
        "summary",
        "-e",
        "raw",
        "--format",
        "json",
        "--",
        sys.executable,
        "-c",
        program,
    )
    assert ran.code == 0, ran.stderr
    run_ns, wait_ns = map(int, ran.stderr.splitlines()[-1].split())
    return ran.result, run_ns, wait_ns


def add_up(result: dict[str, Any]) -> tuple[int, int]:
    """Return the nanoseconds on a cpu and the nanoseconds watched, over every reading."""
    attributes = [event["attrs"] for event in result["raw"]]
    return sum(one["oncpu_ns"] for one in attributes), sum(one["interval_ns"] for one in attributes)


@pytest.mark.spec("CPU-1", "BEN-1")
def test_a_pinned_spinner_uses_what_the_scheduler_gave_it(omn: Any) -> None:
    """The readings of a program that only spins add up to its schedstat; alone on its cpu, each is the whole of it."""
    result, run_ns, wait_ns = measure_util(omn, SPIN)
    oncpu_ns, _ = add_up(result)
    assert abs(oncpu_ns - run_ns) <= MARGIN_NS
    median = result["series"][0]["emits"]["summary"]["p50"]
    assert median <= 1.001  # the clock that is read and the one that times it lie microseconds apart
    if wait_ns < 0.01 * run_ns:
        assert median >= 0.97


@pytest.mark.spec("CPU-1")
def test_a_duty_cycle_of_30_percent_reads_so(omn: Any) -> None:
    """A program busy 30 % of each period adds up to its schedstat, and its share to 0.3 within 0.03."""
    result, run_ns, wait_ns = measure_util(omn, CYCLE)
    oncpu_ns, watched_ns = add_up(result)
    assert abs(oncpu_ns - run_ns) <= MARGIN_NS
    if wait_ns < 0.01 * watched_ns:
        assert abs(oncpu_ns / watched_ns - 0.3) <= 0.03


@pytest.mark.spec("CPU-1")
def test_oncpu_time_counts_what_schedstat_counts(omn: Any, workload: Callable[[Workload], Running]) -> None:
    """The nanoseconds of a window around a known burn are the scheduler's own, as of its latest tick at either end."""
    running = workload(spin(SECOND // 2))
    running.wait("ready")
    running.release()
    ran = omn(
        "cpu.oncpu_time", "-m", "count", "-e", "count", "--pid", str(running.pid), "-d", "50ms", "--format", "json"
    )
    assert ran.code == 0, ran.stderr
    window = ran.result["window"]["closed_ns"] - ran.result["window"]["opened_ns"]
    value = ran.result["series"][0]["emits"]["count"]["value"]
    assert 0 <= value <= window * 1.05 + TICK_NS
    assert ran.result["unit"] == "ns"


@pytest.mark.spec("CPU-1")
def test_a_cgroup_held_to_a_tenth_of_a_cpu_is_throttled_as_the_kernel_says(
    omn: Any, make_cgroup: Callable[[str], Path], workload: Callable[[Workload], Running]
) -> None:
    """A spinner under a quota of 10 ms in 100 is throttled in every period; the counts are cpu.stat's own."""
    group = make_cgroup("cpu")
    (group / "cpu.cfs_period_us").write_text("100000")
    (group / "cpu.cfs_quota_us").write_text("10000")
    (group / "cpu.shares").write_text("262144")  # the most: what it waits for a cpu is for its quota, not for others
    running = workload(spin(30 * SECOND))
    running.wait("ready")
    (group / "cgroup.procs").write_text(str(running.pid))
    running.release()
    before = read_cpu_stat(group)
    ran = omn(
        "cpu.throttled",
        "--cgroup",
        str(group),
        "-m",
        "poll",
        "--interval",
        "200ms",
        "-d",
        "1s",
        "-e",
        "summary",
        "-e",
        "raw",
        "--format",
        "json",
    )
    after = read_cpu_stat(group)
    assert ran.code == 0, ran.stderr
    events = [event["attrs"] for event in ran.result["raw"]]
    throttled = sum(event["throttled_ns"] for event in events)
    assert sum(event["throttled_periods"] for event in events) >= 5
    assert 0 < throttled <= after["throttled_time"] - before["throttled_time"]


def read_cpu_stat(group: Path) -> dict[str, int]:
    """The cgroup's own cpu.stat."""
    return {name: int(value) for name, value in map(str.split, (group / "cpu.stat").read_text().splitlines())}


@pytest.mark.spec("CPU-1", "REQ-14")
def test_the_machine_beside_a_program_is_the_machine(omn: Any) -> None:
    """A machine source with a program beside it measures the machine while the program runs, and says so."""
    ran = omn(
        "cpu.util",
        "--system",
        "--keys",
        "cpu",
        "--interval",
        "100ms",
        "-e",
        "summary",
        "--format",
        "json",
        "--",
        sys.executable,
        "-c",
        "import time; time.sleep(0.5)",
    )
    assert ran.code == 0, ran.stderr
    assert ran.result["scope"] == "system"
    assert {series["key"]["cpu"] for series in ran.result["series"]} == set(os.sched_getaffinity(0))
    assert any("the launched program set the window" in caveat for caveat in ran.result["caveats"])
    assert ran.document["program"]["exit"] == {"code": 0}


@pytest.mark.spec("CPU-1")
def test_load_is_the_kernels(omn: Any) -> None:
    """The three averages are /proc/loadavg's, read at the same time."""
    before = Path("/proc/loadavg").read_text().split()
    ran = omn("cpu.load", "--system", "--interval", "50ms", "-d", "100ms", "-e", "raw", "--format", "json")
    after = Path("/proc/loadavg").read_text().split()
    readings = {event["attrs"]["load1"] for event in ran.result["raw"]}
    assert readings <= {float(before[0]), float(after[0])} or before[0] != after[0]
    assert json.dumps(sorted(readings))
