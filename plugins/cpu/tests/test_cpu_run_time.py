"""What tasks ran by the scheduler's additions, held against its own account of a task that waits at both ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from event_backends import RECORDED, leave_out_skipped, needs_records
from omn_cpu.run_time import RunTimes
from omn_kernel.polled import read_file
from omn_kernel.procfs.process import find_process_key
from omn_kernel.procfs.task import parse_schedstat

from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_programs")

# Waits for a byte, runs for some milliseconds of its own clock with pauses, says so, and waits again.
RUNNING = """
import os, time
os.read(0, 1)
for _ in range(10):
    end = time.process_time_ns() + 3_000_000
    while time.process_time_ns() < end: pass
    time.sleep(0.0005)
os.write(1, b"x")
os.read(0, 1)
"""


def read_run_ns(pid: int) -> int:
    """Wait until a process has left its cpu in a read, and return what it has run."""
    while not read_file("/", f"/proc/{pid}/syscall").startswith(b"0 0x0 "):
        os.sched_yield()
    before = -1
    while (now := parse_schedstat(read_file("/", f"/proc/{pid}/schedstat")).run_ns) != before:
        before = now
        os.sched_yield()
    return now


@pytest.mark.spec("CPU-1", "KRN-4")
@pytest.mark.parametrize(
    ("backend", "mode"),
    [("bpf:tp_btf", "count"), ("bpf:tp_btf", "poll"), pytest.param(RECORDED, "count", marks=needs_records)],
)
def test_what_a_task_ran_is_the_schedulers_account_of_it(catalog: Catalog, backend: str, mode: str) -> None:
    """To the nanosecond, of the machine's tasks told apart; others are there too."""
    argv = [sys.executable, "-S", "-c", RUNNING]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        entry = catalog.entries["cpu.oncpu_time"]
        keys = ("task", "comm") if backend == RECORDED else ("task", "proc", "comm")
        resolved = resolve_onto(entry, backend, bind_machine().target, keys=keys, mode=mode)
        before_ns = read_run_ns(child.pid)
        with Driver(RunTimes(), resolved, bind_machine()) as driver:
            child.stdin.write(b"\n")
            child.stdout.read(1)
            after_ns = read_run_ns(child.pid)
            rows = driver.sample()
        key = find_process_key("/", child.pid)
        comm = read_file("/", f"/proc/{child.pid}/comm").decode().strip()
        child.stdin.write(b"\n")
    losses = driver.collector.losses()
    assert losses.dropped == 0
    leave_out_skipped(losses.skipped, backend)
    (own,) = [row for row in rows if row["task"] == child.pid]
    ran_ns = own["total_ns"] if mode == "count" else own["oncpu_ns"]
    assert ran_ns == after_ns - before_ns >= 30_000_000
    assert own.get("proc") == (None if backend == RECORDED else key)
    assert own["comm"] == comm
    assert len({row["task"] for row in rows}) > 1


def test_the_machines_programs_are_ranked_by_what_they_ran(omn: Command) -> None:
    """A program that runs all the time is in it, by its name."""
    spinning = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        ran = omn("cpu.oncpu_time", "-m", "count", "-e", "topk:100@comm", "--system", "-d", "100ms", "--format", "json")
    finally:
        spinning.kill()
        spinning.wait()
    assert ran.code == 0, ran.stderr
    assert ran.result["backend"] == "bpf:tp_btf"
    (series,) = ran.result["series"]
    ranked = {row["key"]["comm"]: row["value"] for row in series["emits"]["topk:100@comm"]["rows"]}
    assert ranked["sh"] > 0
