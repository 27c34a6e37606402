"""Decisions about tasks whose memory lies on another node, beside the records of tracefs: a guest has a node a cpu."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from omn_core.testing.harness import Driver, bind_processes
from omn_core.testing.stepped import Running, Workload, make_workload

Start = Callable[[Workload], Running]
Drive = Callable[..., Driver]
TRACING = Path("/sys/kernel/tracing")
KINDS = ("move", "swap", "stick")
DEADLINE_S = 180
FAR = make_workload(
    "use memory from one node and from the other in turns, and from whichever the kernel chooses",
    """
import mmap, os, time
memory = mmap.mmap(-1, 16 << 20)
pages = (16 << 20) // mmap.PAGESIZE
def touch(cpus):
    os.sched_setaffinity(0, cpus)
    end = time.process_time() + 0.7
    while time.process_time() < end:
        memory[:: mmap.PAGESIZE] = b"x" * pages
touch({1})
step("ready")
while True:
    for cpus in ({0}, {1}, {0, 1}):
        touch(cpus)
""",
)


def read_records(pid: int) -> Counter[tuple[str, int, int]]:
    """Read from tracefs what was decided about a process: how, from which node, to which."""
    found: Counter[tuple[str, int, int]] = Counter()
    for line in (TRACING / "trace").read_text().splitlines():
        record = re.search(rf"sched_(\w+)_numa: (?:src_)?pid={pid} .*src_nid=(-?\d+) .*dst_nid=(-?\d+)", line)
        if record is not None:
            found[record[1], int(record[2]), int(record[3])] += 1
    return found


@pytest.mark.spec("SCH-1", "KRN-9")
def test_each_decision_about_a_tasks_node_is_counted(drive: Drive, workload: Start) -> None:
    """As often as tracefs records it, of each kind and between the same nodes, and at least once; by both backends."""
    child = workload(FAR)
    child.wait("ready")
    os.kill(child.pid, signal.SIGSTOP)
    wait_stopped(child.pid)
    switches = [TRACING / f"events/sched/sched_{kind}_numa/enable" for kind in KINDS]
    (TRACING / "trace").write_text("")
    try:
        for switch in switches:
            switch.write_text("1")
        with (
            drive("sched.numa_balance", "bpf:raw_tp", bind_processes(child.pid), "op", mode="trace") as raw,
            drive("sched.numa_balance", "bpf:tp", bind_processes(child.pid), "op", mode="trace") as classic,
        ):
            os.kill(child.pid, signal.SIGCONT)
            child.release()
            end = time.monotonic() + DEADLINE_S
            while not read_records(child.pid) and time.monotonic() < end:
                time.sleep(0.2)
            os.kill(child.pid, signal.SIGSTOP)
            wait_stopped(child.pid)
            raw.sample()
            classic.sample()
        recorded = read_records(child.pid)
    finally:
        for switch in switches:
            switch.write_text("0")
    assert recorded, Path("/proc/vmstat").read_text()
    for driver in (raw, classic):
        # Nobody knows the node of a cpu that there is none of.
        decided = Counter((row["op"], row["from_node"], row.get("to_node", -1)) for row in driver.rows)
        assert decided == recorded


def wait_stopped(pid: int) -> None:
    """Wait until a process that was told to stop has."""
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        os.sched_yield()
