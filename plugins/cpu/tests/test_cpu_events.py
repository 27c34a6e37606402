"""cpu.cycles and its relatives, and cpu.oncpu_time through the task clock."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import pytest
from moments import read_stolen
from omn_cpu.events import CpuClock, TaskClock
from omn_cpu.profile import (
    BranchMissSamples,
    BranchSamples,
    CacheMissSamples,
    CacheReferenceSamples,
    CycleSamples,
    InstructionSamples,
)
from omn_kernel.cpu_clock import read_process_clock
from omn_kernel.probes.events import probe_perf
from omn_kernel.procfs.task import TICK_NS

from omn_core.api import Need, ProbeContext, State
from omn_core.model.batch import Names
from omn_core.model.catalog import Catalog
from omn_core.model.collector import RunContext
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes, release, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.workloads import spin

Start = Callable[[Workload], Running]
HARDWARE = ("cycles", "instructions", "branches", "branch_misses", "cache_refs", "cache_misses")
SAMPLED = {
    "cycles": CycleSamples,
    "instructions": InstructionSamples,
    "branches": BranchSamples,
    "branch_misses": BranchMissSamples,
    "cache_refs": CacheReferenceSamples,
    "cache_misses": CacheMissSamples,
}
BURN = "sum(range(2_000_000))"


def find_state(spelled: str) -> State:
    return probe_perf(Need("", "perf", spelled), ProbeContext("launch")).state


@pytest.mark.spec("CPU-1")
@pytest.mark.parametrize("name", HARDWARE)
def test_a_hardware_event_is_counted_or_refused_by_name(omn: Command, name: str) -> None:
    """A processor's own counter where the machine shows it; elsewhere it is named, and cycles alone fall back."""
    ran = omn(f"cpu.{name}", "-m", "count", "-e", "count", "--format", "json", "--", sys.executable, "-c", BURN)
    if find_state(f"hw:{name.replace('_', '-').replace('refs', 'references')}") is State.AVAILABLE:
        assert ran.result["backend"] == "pmu:hw"
        assert ran.result["series"][0]["emits"]["count"]["value"] > 0
    elif name == "cycles" and find_state("sw:cpu-clock") is State.AVAILABLE:
        assert ran.result["backend"] == "pmu:sw"
    else:
        assert ran.code == 1
        assert "the hardware event" in ran.stderr


@pytest.mark.spec("CPU-1")
@pytest.mark.parametrize("name", HARDWARE)
def test_a_hardware_event_is_sampled_or_refused_by_name(omn: Command, name: str) -> None:
    """With stacks, by the frequency that the kernel keeps; elsewhere named, and cycles are the cpu clock's time."""
    ran = omn(f"cpu.{name}", "-m", "sample", "--format", "json", "--", sys.executable, "-c", BURN)
    if find_state(f"hw:{name.replace('_', '-').replace('refs', 'references')}") is State.AVAILABLE:
        assert ran.result["backend"] == "pmu:hw:records"
    elif name == "cycles" and find_state("sw:cpu-clock") is State.AVAILABLE:
        assert (ran.result["backend"], ran.result["unit"]) == ("pmu:sw:records", "ns")
        assert "not cycles" in ran.result["degraded"][0]
    else:
        assert ran.code == 1
        assert "the hardware event" in ran.stderr


def test_samples_of_the_processor_state_what_they_stand_for(catalog: Catalog) -> None:
    """Its events are sampled by frequency with the period in each record, unless a period is asked."""
    target = bind_processes(os.getpid())
    for name, factory in SAMPLED.items():
        resolved = resolve_onto(catalog.entries[f"cpu.{name}"], "pmu:hw:records", target.target, mode="sample")
        collector = factory()
        collector.prepare(resolved, RunContext(Names(), time.monotonic_ns))
        assert (collector.sampling.hz, collector.sampling.states_periods) == (997, True)
        assert not collector.sampling.has_streams
        assert collector.value == name
    release(target)


@pytest.mark.spec("CPU-1", "SRC-1")
def test_cycles_without_a_counter_are_the_cpu_clock_and_say_so(omn: Command) -> None:
    """Nanoseconds, in the unit of the backend that counted them, and about as many as the program ran."""
    if find_state("sw:cpu-clock") is not State.AVAILABLE:
        pytest.skip("perf events are closed to this user")
    ran = omn("cpu.cycles", "--backend", "force:pmu:sw", "--format", "json", "--", sys.executable, "-c", BURN)
    result = ran.result
    assert result["unit"] == "ns"
    assert "not cycles" in result["degraded"][0]
    value = result["series"][0]["emits"]["count"]["value"]
    assert 0 < value < 1.5 * ran.document["program"]["cpu_ns"]


def test_the_clock_stands_for_no_cycles_of_a_machine(omn: Command) -> None:
    """A cpu's clock runs while the cpu rests, and its cycles do not: there is no such fallback."""
    ran = omn("cpu.cycles", "--backend", "force:pmu:sw", "--system", "-d", "10ms")
    assert ran.code == 2
    assert "not system" in ran.stderr


@pytest.mark.spec("CPU-1")
@pytest.mark.parametrize("source", ["cpu.oncpu_time", "cpu.cycles"])
def test_the_task_clock_is_what_the_scheduler_counted(catalog: Catalog, workload: Start, source: str) -> None:
    """Two accounts of one span: perf's clock and the scheduler's, which leaves out what a hypervisor took."""
    if find_state("sw:task-clock") is not State.AVAILABLE:
        pytest.skip("perf events are closed to this user")
    child = workload(spin(200_000_000))
    child.wait("ready")
    target = bind_processes(child.pid)
    factory, name = (TaskClock, "oncpu_ns") if source == "cpu.oncpu_time" else (CpuClock, "cycles")
    resolved = resolve_onto(catalog.entries[source], "pmu:sw", target.target, mode="count")
    with Driver(factory(), resolved, target) as driver:
        before, stolen = read_process_clock(child.pid), read_stolen()
        child.release()
        child.wait("spun")
        (row,) = driver.sample()
        ran_ns, stolen_ns = read_process_clock(child.pid) - before, read_stolen() - stolen
    assert row[name] == pytest.approx(ran_ns, rel=0.1, abs=stolen_ns + 2 * TICK_NS)
    assert row["pid"] == child.pid
