"""Each switch by a program in the kernel, held to the kernel's own counts of a task that switches either way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from event_backends import EACH_BACKEND, RECORDED, TYPED
from omn_kernel.bpf import collecting, streaming
from omn_kernel.bpf.transport import PerfArrays, RingBuffer
from omn_kernel.cgroup import UNIFIED, find_hierarchies
from omn_kernel.mounts import read_mounts
from omn_kernel.polled import read_file
from omn_kernel.procfs.process import find_process_key
from omn_kernel.procfs.task import find_status_field
from omn_sched.traced import Switches

from omn_core.api import BoundTarget, MachineRefused
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, bind_processes, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_programs")
SWITCHING = """
import json, os, resource, sys, threading, time
def read():
    before_ns = time.monotonic_ns()
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return [before_ns, used.ru_nvcsw, used.ru_nivcsw, time.monotonic_ns()]
cpu, parent = min(os.sched_getaffinity(0)), os.getpid()
os.sched_setaffinity(0, {cpu})
other = os.fork()  # on the same cpu, so that each gives way to the other by force
if other == 0:
    while os.getppid() == parent: os.sched_yield()
    os._exit(0)
sys.stdin.readline()
told = [read()]
def count(place): return told[-1][place] - told[0][place]
told.append(told[0])
# A sleep whose timer runs out first is no switch, nor is a yield to one that has had more: the account says how many.
while count(1) < 200 or count(2) < 200:
    time.sleep(0.0001)
    os.sched_yield()
    told[1] = read()
os.kill(other, 9)
os.waitpid(other, 0)
print(json.dumps({"pid": os.getpid(), "told": told}), flush=True)
sys.stdin.readline()
"""


def drive(
    catalog: Catalog,
    target: BoundTarget,
    *keys: str,
    backend: str = TYPED,
    mode: str = "trace",
    value: str | None = None,
) -> Driver:
    entry = catalog.entries["sched.switches"]
    resolved = resolve_onto(entry, backend, target.target, mode=mode, keys=keys, value=value)
    return Driver(Switches(), resolved, target)


def wait_blocked(pid: int) -> tuple[int, int]:
    """Wait until a process has left its cpu, and return how often it did so by choice and by force."""
    while read_file("/", f"/proc/{pid}/syscall").startswith(b"running"):
        os.sched_yield()
    while True:
        status = read_file("/", f"/proc/{pid}/status")
        if (find_status_field(status, "State") or "").startswith("S"):
            names = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
            voluntary, involuntary = (int(find_status_field(status, name) or -1) for name in names)
            return voluntary, involuntary
        os.sched_yield()


def run_switching(catalog: Catalog, backend: str) -> tuple[list[dict[str, Any]], dict[str, Any], Driver]:
    """Trace the child while it switches, and return the events, what it says, and the driver."""
    argv = [sys.executable, "-S", "-c", SWITCHING]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        keys = ("task", "proc", "cgroup") if backend == TYPED else ("task", "comm")
        driver = drive(catalog, bind_processes(child.pid), *keys, backend=backend)
        with driver:
            child.stdin.write(b"\n")
            told = json.loads(child.stdout.readline())
            driver.sample()
        told |= {"proc": find_process_key("/", child.pid), "comm": read_file("/", f"/proc/{child.pid}/comm").decode()}
        child.stdin.write(b"\n")
    return driver.rows, told, driver


@pytest.mark.spec("SRC-2", "KRN-3", "KRN-4")
@pytest.mark.parametrize("kind", [RingBuffer, PerfArrays])
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_switches_are_those_that_the_kernel_counts(
    catalog: Catalog, backend: str, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By choice and by force, between two readings of its own account; through a ring buffer and without one.

    A record that comes while its cpu works on a map, anybody's, is passed over and counted (`skipped`).
    """
    monkeypatch.setattr(streaming, "open_transport", kind)
    rows, told, driver = run_switching(catalog, backend)
    losses = driver.collector.losses()
    own = [row for row in rows if row["task"] == told["pid"]]
    (begun_ns, voluntary, involuntary, begins_ns), (ends_ns, later_voluntary, later_involuntary, ended_ns) = told[
        "told"
    ]
    for name, counted in [("voluntary", later_voluntary - voluntary), ("involuntary", later_involuntary - involuntary)]:
        inside = sum(row[name] for row in own if begins_ns <= row["ts_ns"] <= ends_ns)
        around = sum(row[name] for row in own if begun_ns <= row["ts_ns"] <= ended_ns)
        assert inside <= counted <= around + losses.skipped, name
        assert counted >= 200, name
    assert all(row["voluntary"] + row["involuntary"] == row["switches"] == 1 for row in rows)
    if backend == TYPED:
        assert {row["proc"] for row in own} == {told["proc"]}
        assert all("cgroup" in row for row in own) is (UNIFIED in find_hierarchies(read_mounts("/")))
    else:
        assert {row["comm"] for row in own} == {told["comm"].strip()}
        assert not {"proc", "cgroup", "ppid"} & rows[0].keys()
    assert losses.dropped == 0
    assert backend == RECORDED or losses.is_empty
    assert driver.collector.fields()["delivered"] == len(rows)


@pytest.mark.spec("SRC-2", "KRN-4")
@pytest.mark.parametrize("value", ["voluntary", "involuntary", "switches"])
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_sums_in_the_kernel_are_what_it_counted_itself(catalog: Catalog, backend: str, value: str) -> None:
    """From one moment at which the task is off its cpu to another, to the switch."""
    argv = [sys.executable, "-S", "-c", SWITCHING]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        before = wait_blocked(child.pid)
        with drive(catalog, bind_processes(child.pid), "task", backend=backend, mode="count", value=value) as driver:
            child.stdin.write(b"\n")
            child.stdout.readline()
            after = wait_blocked(child.pid)
            rows = driver.sample()
            weight = driver._batches[0].weight
        child.stdin.write(b"\n")
    assert weight is not None
    made = [late - early for early, late in zip(before, after, strict=True)]
    own = [(row, int(count)) for row, count in zip(rows, weight, strict=True) if row["task"] == child.pid]
    wanted = {"voluntary": made[0], "involuntary": made[1], "switches": sum(made)}[value]
    skipped = driver.collector.losses().skipped
    assert backend == RECORDED or skipped == 0
    assert wanted - skipped <= sum(row[value] * count for row, count in own) <= wanted
    assert wanted >= 200
    assert sum(made) - skipped <= sum(count for _, count in own) <= sum(made)


@pytest.mark.spec("KRN-5")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_a_program_is_traced_with_what_it_starts(omn: Command, backend: str) -> None:
    """From its execve on: each process under its name and its own number, and its parent where that is known."""
    asked = ["-m", "trace", "-e", "raw", "--backend", f"force:{backend}", "--format", "json"]
    ran = omn("sched.switches", *asked, "--", "sh", "-c", "sleep 0.01; sleep 0.01; true")
    assert ran.code == 0, ran.stderr
    shell = ran.document["program"]["pid"]
    rows = [row["attrs"] | row["key"] for row in ran.result["raw"]]
    sleeps = {row["pid"]: row for row in rows if row["comm"] == "sleep"}
    assert len(sleeps) == 2
    assert backend == RECORDED or {row["ppid"] for row in sleeps.values()} == {shell}
    assert {row["comm"] for row in rows} <= {"sh", "sleep"}
    assert {row["pid"] for row in rows} == {shell, *sleeps}
    assert backend == RECORDED or len({row["proc"] for row in rows}) == 3


@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_the_idle_tasks_give_nothing_up(catalog: Catalog, backend: str) -> None:
    """Of the machine, switches from whatever was running alone."""
    with drive(catalog, bind_machine(), "task", backend=backend) as driver:
        subprocess.run(["sleep", "0.01"], check=True)
        driver.sample()
    assert driver.rows
    assert all(row["task"] > 0 for row in driver.rows)


def test_a_kernel_without_types_is_refused_and_nothing_stays(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the attach, before the program runs."""

    def read(_: str) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(collecting, "read_kernel_btf", read)
    before = sorted(os.listdir("/proc/self/fd"))
    target = bind_machine()
    driver = drive(catalog, target)
    with pytest.raises(MachineRefused, match="type information cannot be read"):
        driver.__enter__()
    driver.__exit__(None, None, None)
    assert sorted(os.listdir("/proc/self/fd")) == before
