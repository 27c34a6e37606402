"""Idle periods of cpus without a driver for idle states, by the program on cpu_idle."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from omn_core.testing.harness import Driver, bind_machine
from omn_core.testing.stepped import Running, Workload, make_workload

Start = Callable[[Workload], Running]
Drive = Callable[..., Driver]
_SCHEDULED = 2
"""CPUCLOCK_SCHED of <linux/posix-timers.h>: the low bits of the number of a process's clock."""
SPIN = make_workload(
    "keep the second cpu at work", "import os\nos.sched_setaffinity(0, {1})\nstep('ready')\nwhile True: pass"
)


@pytest.fixture
def worker(workload: Start) -> Iterator[Running]:
    """A program that keeps the second cpu at work, while this test stays on the first."""
    child = workload(SPIN)
    child.wait("ready")
    child.release()
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {0})
    yield child
    os.sched_setaffinity(0, own)


@pytest.mark.spec("PWR-1", "KRN-9")
@pytest.mark.parametrize("backend", ["bpf:raw_tp", "bpf:tp"])
def test_a_cpu_idles_while_nobody_runs_there(drive: Drive, worker: Running, backend: str) -> None:
    """The first does while this sleeps on it; the second has work, and idles no longer than that is off it."""
    began_ns, ran_ns = time.monotonic_ns(), read_run_ns(worker.pid)
    with drive("power.cstate", backend, bind_machine(), "cpu") as driver:
        time.sleep(0.3)
        rows = {row["cpu"]: row for row in driver.sample()}
    worked_ns, length_ns = read_run_ns(worker.pid) - ran_ns, time.monotonic_ns() - began_ns
    assert rows[0]["entries"] > 0
    assert 0 < rows[0]["time_ns"] <= length_ns
    # What a task ran is told by the scheduler's clock, which is within a percent of the other.
    assert rows[1]["time_ns"] <= length_ns - worked_ns + length_ns // 100


@pytest.mark.spec("PWR-1", "KRN-9")
@pytest.mark.parametrize("backend", ["bpf:raw_tp", "bpf:tp"])
def test_each_idle_period_is_told_of(drive: Drive, worker: Running, backend: str) -> None:
    """No more of a cpu than are summed around it, and no longer together than the window; one follows the other."""
    began_ns = time.monotonic_ns()
    with drive("power.cstate", "bpf:raw_tp", bind_machine(), "cpu") as summed:
        with drive("power.cstate", backend, bind_machine(0), "cpu", mode="trace") as traced:
            for _ in range(20):
                time.sleep(0.01)
            traced.sample()
        rows = {row["cpu"]: row for row in summed.sample()}
    length_ns = time.monotonic_ns() - began_ns
    whole = [row for row in traced.rows if "power.state" in row]
    assert 0 < len(whole) <= rows[0]["entries"]
    assert 0 < sum(row["time_ns"] for row in whole) <= length_ns
    for row, following in pairwise(traced.rows):
        assert following["ts_ns"] - following["interval_ns"] == row["ts_ns"]


def read_run_ns(pid: int) -> int:
    """Read how long a process ran until now, by its clock: the scheduler's files are as of the last tick."""
    return time.clock_gettime_ns(~pid << 3 | _SCHEDULED)
