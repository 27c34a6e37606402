"""Turns on a cpu, held against the kernel's accounts of a thread that runs, sleeps and is made to give way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import attrs
import numpy as np
import pytest
from event_backends import EACH_BACKEND, RECORDED, TYPED, leave_out_skipped, needs_records
from moments import READ_MOMENT
from omn_kernel.bpf import running
from omn_kernel.bpf.assembly import Assembled
from omn_kernel.bpf.hooks import TypedTracepoint
from omn_kernel.bpf.loading import Hook, LoadedProgram, load
from omn_kernel.polled import read_file
from omn_kernel.procfs.process import read_stat
from omn_kernel.procfs.task import TICK_NS, find_status_field, parse_schedstat
from omn_sched.slices import Slices

from omn_core.api import BoundTarget, EmitSpec, MachineRefused
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, bind_processes, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_typed_programs")

# Shares a cpu with a child that spins, runs and sleeps in turn, and says what the kernel's accounts of it were before
# and after.
SHARING = (
    READ_MOMENT
    + """
import json, sys
os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
if sys.argv[1] == "held":
    print("ready", flush=True)
    sys.stdin.readline()
parent = os.getpid()
other = os.fork()
if other == 0:
    while os.getppid() == parent: pass
    os._exit(0)
before = read_moment()
for _ in range(10):
    end = time.thread_time_ns() + 4_000_000
    while time.thread_time_ns() < end: pass
    for _ in range(10): time.sleep(0.0002)
after = read_moment()
os.kill(other, 9)
os.waitpid(other, 0)
with open(sys.argv[2], "w") as file:
    json.dump({"pid": os.getpid(), "before": before, "after": after}, file)
"""
)
# Keeps its cpu from everything that is not a realtime thread.
ALONE = """
import os
os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
print("ready", flush=True)
while True: pass
"""


@contextmanager
def started(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-S", "-c", code, *arguments]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
            yield program
        finally:
            program.kill()


def drive(catalog: Catalog, target: BoundTarget, backend: str = TYPED) -> Driver:
    entry = catalog.entries["sched.slices"]
    resolved = resolve_onto(entry, backend, target.target, mode="trace", keys=("task", "cpu"))
    return Driver(Slices(), attrs.evolve(resolved, emits=(EmitSpec("raw"),)), target)


def leave_out_unseen(skipped: int, dropped: int, backend: str) -> None:
    """Leave out where records alone tell of turns and a switch was not seen, which only the kernel's account mends."""
    leave_out_skipped(skipped, backend)
    if backend == RECORDED and dropped:
        pytest.skip("the kernel passed records over here")


def check(turns: list[dict[str, Any]], said: dict[str, Any]) -> None:
    """Hold a thread's turns, in their order, against what it said of itself."""
    # Each turn, what it was off the cpu before it and what of that it waited lie end to end, to the nanosecond.
    assert all("off_ns" in turn and "queue_ns" in turn for turn in turns[1:])
    for earlier, turn in pairwise(turns):
        assert turn["ts_ns"] - turn["slice_ns"] - turn["off_ns"] - turn["queue_ns"] == earlier["ts_ns"]
    begin_ns, *before = said["before"]
    end_ns, *after = said["after"]
    voluntary, involuntary, ran_ns, waited_ns, stolen_ns = (
        late - early for early, late in zip(before, after, strict=True)
    )
    inside = [turn for turn in turns if begin_ns <= turn["ts_ns"] <= end_ns]
    by_force = [turn for turn in inside if turn["state"] == "runnable"]
    assert (len(inside) - len(by_force), len(by_force)) == (voluntary, involuntary)
    assert voluntary >= 100
    run_ns = sum(max(0, min(turn["ts_ns"], end_ns) - max(turn["ts_ns"] - turn["slice_ns"], begin_ns)) for turn in turns)
    # What was stolen is told in ticks, and what a thread runs to the moment at which it is read since its last sleep.
    assert run_ns == pytest.approx(ran_ns, rel=0.02, abs=stolen_ns + TICK_NS + 5_000_000)
    begun = [turn for turn in turns if begin_ns <= turn["ts_ns"] - turn["slice_ns"] <= end_ns]
    assert sum(turn["queue_ns"] for turn in begun) == pytest.approx(waited_ns, rel=0.02, abs=2_000_000)
    woken = [turn for turn in inside if "wake_to_run_ns" in turn]
    assert len(woken) >= 0.9 * voluntary


@pytest.mark.spec("SRC-2", "SCH-1")
@pytest.mark.parametrize(
    ("backend", "is_typed"),
    [(TYPED, True), (TYPED, False), pytest.param(RECORDED, False, marks=needs_records)],
    ids=["typed", "numbers", "recorded"],
)
def test_turns_and_the_gaps_between_them_are_the_threads_life(
    catalog: Catalog, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, backend: str, is_typed: bool
) -> None:
    """As many as the kernel counts switches, as long as it ran, and what it waited is what schedstat says."""

    def load_raw_alone(program: Assembled, hook: Hook) -> LoadedProgram:
        if isinstance(hook, TypedTracepoint):
            raise MachineRefused("no typed tracepoints here")
        return load(program, hook)

    if not is_typed:
        monkeypatch.setattr(running, "load", load_raw_alone)
    out = tmp_path / "said"
    with started(SHARING, "held", str(out)) as program, drive(catalog, bind_processes(program.pid), backend) as driver:
        program.communicate("\n")
        driver.sample()
    losses = driver.collector.losses()
    leave_out_unseen(losses.skipped, losses.dropped, backend)
    said = json.loads(out.read_text())
    check([row for row in driver.rows if row["task"] == program.pid], said)
    assert driver.rows[-1]["state"] in ("dead", "interruptible", "runnable")
    assert [row["state"] for row in driver.rows if row["task"] == program.pid][-1] == "dead"
    assert len({row["task"] for row in driver.rows}) == 2
    assert driver.collector.losses().is_empty


@pytest.mark.spec("SRC-2")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_a_launched_programs_turns_begin_with_it(omn: Command, tmp_path: Any, backend: str) -> None:
    """The first turn is on when the program is executed, and counts from there."""
    out = tmp_path / "said"
    asked = ["-m", "trace", "-e", "raw", "--keys", "task", "--format", "json", "--backend", f"force:{backend}"]
    ran = omn("sched.slices", *asked, "--", sys.executable, "-S", "-c", SHARING, "free", str(out))
    assert ran.code == 0, ran.stderr
    leave_out_unseen(ran.result["losses"]["skipped"], ran.result["losses"]["dropped"], backend)
    said = json.loads(out.read_text())
    rows = [{**row["attrs"], **row["key"], "ts_ns": row["ts_ns"]} for row in ran.result["raw"]]
    turns = [row for row in rows if row["task"] == said["pid"]]
    check(turns, said)
    assert not {"off_ns", "queue_ns"} & set(turns[0])
    lived_ns = ran.document["program"]["lifetime_ns"]
    assert 0 < turns[-1]["ts_ns"] - (turns[0]["ts_ns"] - turns[0]["slice_ns"]) <= lived_ns


def read_turns(pid: int) -> tuple[int, int]:
    """Read how often a thread got a cpu and how often it left one, in one moment: once more of the first while on."""
    while True:
        left = count_left(pid)
        begun = parse_schedstat(read_file("/", f"/proc/{pid}/schedstat")).slices
        if left == count_left(pid):
            return begun, left


def count_left(pid: int) -> int:
    status = read_file("/", f"/proc/{pid}/status")
    names = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
    return sum(int(find_status_field(status, name) or -1) for name in names)


@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_a_turn_that_outlasts_the_window_counts_the_window(catalog: Catalog, backend: str) -> None:
    """A thread that does not leave its cpu passes no tracepoint, and is what keeps it all the same."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("keeping a cpu takes another, and this process has one")
    cpu = max(os.sched_getaffinity(0))
    with (
        started(ALONE) as program,
        drive(catalog, bind_processes(program.pid), backend) as of_process,
        drive(catalog, bind_machine(cpu), backend) as of_cpu,
    ):
        # The kernel lets others on for a twentieth of each second: a window that closes then is another test's.
        begun, left = 0, 0
        while begun == left or read_turns(program.pid) != (begun, left):
            begun, left = read_turns(program.pid)
            for driver in (of_process, of_cpu):
                driver.sample()
    for driver in (of_process, of_cpu):
        rows = [row for row in driver.rows if row["task"] == program.pid]
        (unfinished,) = (row for row in rows if "state" not in row)
        # By records a thread that came back is known from where it left on, and its turn before that is not.
        assert backend == RECORDED or "off_ns" not in rows[0]
        assert unfinished["slice_ns"] > 0
        assert driver.collector.fields()["unfinished"] == 1
    assert {row["cpu"] for row in of_cpu.rows} == {cpu}


def test_a_turn_that_no_tracepoint_ended_is_lost(catalog: Catalog) -> None:
    """Whose thread is on no cpu at the close has left unseen, and does not count until there."""
    with started("print('ready', flush=True)\nimport sys\nsys.stdin.read()") as program:
        while read_stat("/", program.pid).state != "S":
            os.sched_yield()
        with drive(catalog, bind_processes(program.pid)) as driver:
            collector = driver.collector
            assert isinstance(collector, Slices)
            row = np.zeros((), collector.record)
            row["began_ns"] = time.monotonic_ns()
            collector.get_spans().update((program.pid,), row)
            driver.sample()
        assert driver.rows == []
        losses = driver.collector.losses()
    assert losses.dropped == 1
    assert losses.reasons == ("1 turns that no tracepoint ended were on no cpu at the close",)
