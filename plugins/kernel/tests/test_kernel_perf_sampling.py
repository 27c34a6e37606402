"""Sampling: samples that add up to what ran, stacks of code that is known, and what stands between."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from closed_events import hold_served
from compiled import compile_c
from moments import read_stolen
from omn_kernel.cgroup import bind_cgroup_path
from omn_kernel.perf.rings import Rings
from omn_kernel.perf.sampling import SamplingCollector
from omn_kernel.probes.events import probe_perf
from shapes import make_resolved

from omn_core.api import (
    Batch,
    BoundTarget,
    InTargetCost,
    MachineRefused,
    Need,
    ProbeContext,
    RequestError,
    State,
    Target,
)
from omn_core.model.batch import Names
from omn_core.model.collector import MEMORY_BYTES, RunContext
from omn_core.model.request import Request
from omn_core.model.stacks import Stacks
from omn_core.model.walks import WalkChoice
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import bind_machine, bind_processes, release
from omn_core.testing.stepped import Running, Workload, make_workload
from omn_core.testing.workloads import spin, touch_pages

Start = Callable[[Workload], Running]


class Clock(SamplingCollector):
    """On-cpu time."""

    event = "sw:cpu-clock"
    value = "value"


class Faults(SamplingCollector):
    """Page faults."""

    event = "sw:page-faults"
    value = "value"


class Sampled:
    """A collector over one target, until `finish` hands its events over."""

    def __init__(
        self, collector: SamplingCollector, target: BoundTarget, *, mode: str = "sample", **asked: Any
    ) -> None:
        answer = probe_perf(Need("", "perf", collector.event), ProbeContext(target.target.kind))
        if answer.state is State.RESTRICTED or answer.reason is not None:
            pytest.skip(f"perf events are closed to this user: {answer.reason}")
        self.collector = collector
        self.stacks = Stacks()
        memory_bytes = asked.pop("memory_bytes", MEMORY_BYTES)
        self.context = RunContext(Names(), time.monotonic_ns, memory_bytes=memory_bytes, stacks=self.stacks)
        self._target = target
        walk = WalkChoice(asked.pop("stack", "fp"))
        request = Request("f.x", mode, target=target.target, **asked)
        resolved = make_resolved(mode=mode, request=request, target=target.target, walk=walk)
        collector.prepare(resolved, self.context)
        collector.attach(target)

    def finish(self) -> Batch:
        self.collector.sample(self.context.clock())
        batch = self.collector.stop()
        release(self._target)
        return batch


@pytest.mark.spec("KRN-7", "CPU-1", "SRC-1", "CST-1")
def test_samples_add_up_to_the_time_that_was_run(workload: Start) -> None:
    """A second of work, in a process and its child: delivered and lost make it up to a hundredth."""
    child = workload(
        make_workload(
            "burn in two",
            "step('ready')\nif os.fork() == 0:\n    burn(500_000_000)\n    os._exit(0)\n"
            "burn(500_000_000)\nos.wait()\nstep('burnt')",
        )
    )
    child.wait("ready")
    taken_ns = read_stolen()
    sampled = Sampled(Clock(), bind_processes(child.pid))
    child.release()
    child.wait("burnt")
    batch = sampled.finish()
    losses, fields = sampled.collector.losses(), sampled.collector.fields()
    total = int(batch.attributes["value"].values.sum())
    period = int(batch.attributes["value"].values[0])
    taken_ns = (
        read_stolen() - taken_ns
    )  # while a hypervisor has the cpu no timer is served, and the task's time runs on
    assert total + losses.dropped * period == pytest.approx(fields["ran_ns"], abs=10_000_000 + taken_ns)
    assert fields["ran_ns"] >= 990_000_000
    assert fields["delivered"] == len(batch)
    assert sampled.collector.in_target_cost() == InTargetCost(None)
    assert set(batch.attributes["pid"].values.tolist()) > {child.pid}
    assert "997 samples a second were asked for" in sampled.collector.facts()[0]


SOURCE = """
#include <stdint.h>
volatile uint64_t sink;
__attribute__((noinline)) void leaf(int n) { for (int i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) void caller(int n) { leaf(n); sink++; }
int main(void) { for (int i = 0; i < 4000; i++) caller(100000); return 0; }
"""


@pytest.mark.spec("STK-3")
def test_stacks_are_those_of_the_code(tmp_path: Path, omn: Command) -> None:
    """A program whose every sample is in one call tree: the leaf, its caller, main, and the file that holds them.

    Without optimisation: a compiler gives a function that calls nobody no frame otherwise, and its caller is lost.
    """
    program = compile_c(tmp_path, "tree", SOURCE, "-O0", "-fno-omit-frame-pointer")
    sampled = omn("cpu.profile", "--format", "json", "--", str(program))
    hold_served(sampled.code, sampled.stderr)
    rows = sampled.result["series"][0]["emits"]["stack"]["rows"]
    total = sum(row["weight"] for row in rows)
    inside = [row for row in rows if row["frames"][:3] == ["leaf", "caller", "main"]]
    assert sum(row["weight"] for row in inside) > 0.8 * total
    assert inside[0]["named_by"][:3] == ["symtab"] * 3
    assert inside[0]["objects"][:3] == [str(program)] * 3
    assert sampled.result["unit"] == "ns"
    assert total == pytest.approx(sampled.document["program"]["cpu_ns"], rel=0.2)


GOING = """
#include <time.h>
#include <unistd.h>
volatile unsigned long sink;
__attribute__((noinline)) void work(void) { for (int i = 0; i < 100000; i++) sink += i; }
int main(int count, char **words)
{
    struct timespec now;
    unlink(words[0]);
    do {
        work();
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_nsec < 300000000 && !now.tv_sec);
    return count == 0;
}
"""


@pytest.mark.spec("STK-5")
def test_the_files_that_are_held_are_the_programs_and_not_those_of_what_it_was_forked_from(
    tmp_path: Path, omn: Command
) -> None:
    """A program that deletes itself is named where few files may be open, fewer than omn has mapped modules of its own.

    Its stacks begin with its execve: nothing of omn's is in them.
    """
    program = compile_c(tmp_path, "going", GOING, "-O1")
    words = (*omn.argv, "cpu.profile", "--format", "json", "--", str(program))
    limited = ("sh", "-c", 'ulimit -n 128; exec "$@"', "sh", *words)
    done = subprocess.run(limited, capture_output=True, check=False, text=True, env=omn.environment())
    hold_served(done.returncode, done.stderr)
    rows = json.loads(done.stdout)["results"][0]["series"][0]["emits"]["stack"]["rows"]
    working = sum(row["weight"] for row in rows if row["frames"][0] == "work")
    assert working > 0.8 * sum(row["weight"] for row in rows)
    assert not any("python" in (path or "") for row in rows for path in row["objects"])


def test_each_fault_of_a_period_of_one_is_a_sample(workload: Start) -> None:
    """An event of every fault weighs one, and names who faulted."""
    child = workload(touch_pages(2000))
    child.wait("ready")
    sampled = Sampled(Faults(), bind_processes(child.pid), period=1)
    child.release()
    child.wait("touched")
    batch = sampled.finish()
    assert sampled.collector.losses().is_empty
    assert batch.weight is not None
    assert 2000 <= len(batch) == int(batch.weight.sum()) <= 2200
    assert set(batch.keys["task"].values.tolist()) == {child.pid}
    assert set(batch.keys["comm"].to_list()) == {Path(f"/proc/{child.pid}/comm").read_text().strip()}


def test_a_longer_period_weighs_each_sample(workload: Start) -> None:
    """One in a hundred, each for a hundred; each cpu counts its own, up to the last whole hundred."""
    child = workload(touch_pages(3000))
    child.wait("ready")
    sampled = Sampled(Faults(), bind_processes(child.pid), period=100, stack="none")
    child.release()
    child.wait("touched")
    batch = sampled.finish()
    assert batch.stack is None
    assert set(batch.weight.tolist() if batch.weight is not None else ()) == {100}
    assert 30 - (len(os.sched_getaffinity(child.pid)) - 1) <= len(batch) <= 33


@pytest.mark.spec("RUN-6")
def test_what_found_no_room_is_known_by_the_events_own_count(workload: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced into rings that are too small: delivered and lost are what the event counted, the last records too."""
    monkeypatch.setattr("omn_kernel.perf.sampled.Rings", lambda descriptors, _: Rings(descriptors, 8192))
    child = workload(touch_pages(2000))
    child.wait("ready")
    sampled = Sampled(Faults(), bind_processes(child.pid), mode="trace")
    child.release()
    child.wait("touched")
    batch = sampled.finish()
    losses, fields = sampled.collector.losses(), sampled.collector.fields()
    assert losses.is_lower_bound
    assert fields["counted"] >= 2000 > len(batch) == fields["delivered"]
    assert fields["delivered"] + losses.dropped >= fields["counted"]
    assert batch.weight is None


@pytest.mark.spec("KRN-11")
def test_the_machine_is_sampled_without_its_idle_task(workload: Start) -> None:
    """A cpu that rests is counted and in no row; a program that runs is in them."""
    child = workload(spin(300_000_000))
    child.wait("ready")
    sampled = Sampled(Clock(), bind_machine())
    child.release()
    child.wait("spun")
    batch = sampled.finish()
    pids = batch.attributes["pid"].values
    assert 0 not in set(pids.tolist())
    assert (pids == child.pid).sum() > 100
    assert "idle" in sampled.collector.fields()


@pytest.mark.spec("KRN-11")
def test_a_cgroups_records_keep_cpu_and_task(workload: Start, make_cgroup: Callable[[str], Path]) -> None:
    """One series over all cpus: of what runs in it, and of nothing else."""
    path = make_cgroup("unified")
    inside, outside = workload(touch_pages(500)), workload(touch_pages(500))
    for child in (inside, outside):
        child.wait("ready")
    (path / "cgroup.procs").write_text(str(inside.pid))
    place = bind_cgroup_path(str(path), "/")
    sampled = Sampled(Faults(), BoundTarget(Target("cgroup", str(path)), "cgroup", place=place), mode="trace")
    for child in (inside, outside):
        child.release()
        child.wait("touched")
    batch = sampled.finish()
    assert sampled.collector.fields()["counted"] == len(batch) >= 500
    assert set(batch.keys["task"].values.tolist()) == {inside.pid}
    assert set(batch.keys["cpu"].values.tolist()) <= set(range(os.cpu_count() or 1))


def test_what_finds_no_room_in_memory_is_counted(workload: Start) -> None:
    """Past the bound of a request samples are dropped, with the reason."""
    child = workload(spin(100_000_000))
    child.wait("ready")
    sampled = Sampled(Clock(), bind_processes(child.pid), memory_bytes=10)
    child.release()
    child.wait("spun")
    assert len(sampled.finish()) == 0
    losses = sampled.collector.losses()
    assert losses.dropped > 50
    assert "10 bytes" in losses.reasons[0]


@pytest.mark.spec("STK-2")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks are walked on x86-64 alone")
def test_copies_are_walked_early_where_memory_runs_short(workload: Start) -> None:
    """A bound that a twentieth of the copies would fill holds every sample, with its stack."""
    child = workload(
        make_workload("burn in steps", "step('ready')\nfor _ in range(8):\n    burn(50_000_000)\n    step('on')")
    )
    child.wait("ready")
    sampled = Sampled(Clock(), bind_processes(child.pid), stack="dwarf", memory_bytes=400_000)
    for _ in range(8):
        child.release()
        child.wait("on")
        sampled.collector.sample(sampled.context.clock())
    batch = sampled.finish()
    assert sampled.collector.losses().is_empty
    assert len(batch) > 300
    assert any("stacks were walked in the window" in one for one in sampled.collector.facts())
    assert batch.stack is not None
    assert (batch.stack >= 0).all()
    assert "_start" in {sampled.stacks.get_frames(int(one))[-1].label for one in batch.stack}


def test_nothing_stays_open(workload: Start) -> None:
    """Events and rings are closed, also of a collector whose attach was refused."""
    child = workload(spin(1_000_000))
    child.wait("ready")
    before, maps = len(os.listdir("/proc/self/fd")), Path("/proc/self/maps").read_text().count("perf_event")
    for _ in range(3):
        Sampled(Clock(), bind_processes(child.pid)).finish()
    assert len(os.listdir("/proc/self/fd")) == before
    assert Path("/proc/self/maps").read_text().count("perf_event") == maps


def test_what_nobody_configured_or_the_kernel_does_not_allow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose gap each is: servers that nobody configured and a rate are the machine's, a period the request's."""
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
    target = bind_processes(os.getpid())
    with pytest.raises(MachineRefused, match="DEBUGINFOD_URLS is not set"):
        Sampled(Clock(), target, symbols="debuginfod")
    with pytest.raises(RequestError, match="every 10000 ns at most"):
        Sampled(Clock(), target, period=500)
    with pytest.raises(MachineRefused, match="perf_event_max_sample_rate"):
        Sampled(Clock(), target, hz=100_000_000)
    release(target)
