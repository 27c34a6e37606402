"""The lengths of cpus' run queues, held against threads that keep one cpu, and against the kernel's own total."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

import attrs
import pytest
from omn_sched.run_queues import QueueLengths

from omn_core.api import BoundTarget, EmitSpec
from omn_core.model.catalog import Catalog
from omn_core.testing.harness import Driver, bind_machine, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_typed_programs")

# Three of one priority of its own keep a cpu from everything else until they are ended.
KEEPERS = """
import os, sys
os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
parent = os.getpid()
for _ in range(2):
    if os.fork() == 0:
        while os.getppid() == parent: pass
        os._exit(0)
print("ready", flush=True)
while True: pass
"""
SPINNING = 3


def drive(catalog: Catalog, target: BoundTarget, mode: str, **asked: Any) -> Driver:
    entry = catalog.entries["sched.runqlen"]
    resolved = resolve_onto(entry, "bpf:perf_event", target.target, mode=mode, keys=("cpu",), **asked)
    return Driver(QueueLengths(), attrs.evolve(resolved, emits=(EmitSpec("raw"),)), target)


@pytest.mark.spec("SCH-1")
def test_what_keeps_a_cpu_is_on_its_queue_at_every_sample(catalog: Catalog) -> None:
    """Of the machine each cpu has its own, as often as was asked; of a cpu it alone; of a snapshot one each."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("keeping a cpu takes another, and this process has one")
    cpu = max(os.sched_getaffinity(0))
    with ExitStack() as stack:
        program = stack.enter_context(
            subprocess.Popen([sys.executable, "-S", "-c", KEEPERS], stdout=subprocess.PIPE, text=True)
        )
        stack.callback(program.kill)
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        machine = stack.enter_context(drive(catalog, bind_machine(), "poll", interval_ns=1_000_000))
        one = stack.enter_context(drive(catalog, bind_machine(cpu), "poll"))
        snapshot = stack.enter_context(drive(catalog, bind_machine(), "snapshot"))
        snapshot.sample()
        time.sleep(0.1)  # the window
        for driver in (machine, one):
            driver.sample()
    for driver in (machine, one, snapshot):
        kept = [row["length"] for row in driver.rows if row["cpu"] == cpu]
        assert kept
        assert min(kept) >= SPINNING
        assert driver.collector.losses().is_empty
    assert {row["cpu"] for row in one.rows} == {cpu}
    assert sorted(row["cpu"] for row in snapshot.rows) == sorted(os.sched_getaffinity(0))
    # A thousand a second of each cpu were asked of the one, and the least that there is of the other.
    assert len([row for row in machine.rows if row["cpu"] == cpu]) > 2 * len(one.rows)
