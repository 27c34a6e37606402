"""The processor family's table of contents: nothing but rows, and nothing imported for them."""

from __future__ import annotations

from omn_core.api import CollectorRow, hookimpl

OMN_CONTRACT = "1.0"

_EVENTS = "omn_cpu.events"


@hookimpl
def omn_catalog() -> str:
    """Return this package: `catalog.yaml` lies beside this module."""
    return "omn_cpu"


@hookimpl
def omn_collectors() -> list[CollectorRow]:
    """Return what this family collects."""
    return [
        CollectorRow("cpu.util", "clock:process", "omn_cpu.process_time:ProcessClock", several_processes=True),
        CollectorRow("cpu.util", "fs:proc:pid_stat", "omn_cpu.process_time:ProcessTicks", several_processes=True),
        CollectorRow("cpu.util", "fs:proc:schedstat", "omn_cpu.process_time:ThreadSchedstat"),
        CollectorRow("cpu.util", "fs:proc:stat", "omn_cpu.machine_time:MachineUtil"),
        CollectorRow("cpu.util", "fs:cgroup2:cpu.stat", "omn_cpu.cgroup_time:Cgroup2Util"),
        CollectorRow("cpu.util", "fs:cgroup1:cpuacct", "omn_cpu.cgroup_time:Cgroup1Util"),
        CollectorRow("cpu.load", "fs:proc:loadavg", "omn_cpu.load:Load"),
        CollectorRow("cpu.pressure", "fs:proc:pressure", "omn_cpu.pressure:CpuPressure"),
        CollectorRow("cpu.pressure", "fs:cgroup2:pressure", "omn_cpu.pressure:CpuPressure"),
        CollectorRow("cpu.throttled", "fs:cgroup2:cpu.stat", "omn_cpu.throttled:Cgroup2Throttled"),
        CollectorRow("cpu.throttled", "fs:cgroup1:cpu.stat", "omn_cpu.throttled:Cgroup1Throttled"),
        CollectorRow("cpu.steal", "fs:proc:stat", "omn_cpu.machine_time:MachineSteal"),
        CollectorRow("cpu.oncpu_time", "bpf:tp_btf", "omn_cpu.run_time:RunTimes"),
        CollectorRow("cpu.oncpu_time", "bpf:tp", "omn_cpu.run_time:RunTimes"),
        CollectorRow("cpu.oncpu_time", "fs:proc:schedstat", "omn_cpu.thread_time:ThreadTime", several_processes=True),
        CollectorRow("cpu.oncpu_time", "pmu:sw", f"{_EVENTS}:TaskClock", several_processes=True),
        _sample("cpu.oncpu_time", "pmu:sw:records", "TaskClockSamples"),
        _sample("cpu.profile", "pmu:sw", "Profile"),
        CollectorRow("cpu.cycles", "pmu:hw", f"{_EVENTS}:Cycles", several_processes=True),
        CollectorRow("cpu.cycles", "pmu:sw", f"{_EVENTS}:CpuClock", several_processes=True),
        CollectorRow("cpu.instructions", "pmu:hw", f"{_EVENTS}:Instructions", several_processes=True),
        CollectorRow("cpu.branches", "pmu:hw", f"{_EVENTS}:Branches", several_processes=True),
        CollectorRow("cpu.branch_misses", "pmu:hw", f"{_EVENTS}:BranchMisses", several_processes=True),
        CollectorRow("cpu.cache_refs", "pmu:hw", f"{_EVENTS}:CacheReferences", several_processes=True),
        CollectorRow("cpu.cache_misses", "pmu:hw", f"{_EVENTS}:CacheMisses", several_processes=True),
        _sample("cpu.cycles", "pmu:hw:records", "CycleSamples"),
        _sample("cpu.cycles", "pmu:sw:records", "CpuClockSamples"),
        _sample("cpu.instructions", "pmu:hw:records", "InstructionSamples"),
        _sample("cpu.branches", "pmu:hw:records", "BranchSamples"),
        _sample("cpu.branch_misses", "pmu:hw:records", "BranchMissSamples"),
        _sample("cpu.cache_refs", "pmu:hw:records", "CacheReferenceSamples"),
        _sample("cpu.cache_misses", "pmu:hw:records", "CacheMissSamples"),
    ]


def _sample(source: str, backend: str, name: str) -> CollectorRow:
    return CollectorRow(
        source,
        backend,
        f"omn_cpu.profile:{name}",
        several_processes=True,
        weighs_samples=True,
        reads_stacks=True,
        walks=("fp+leaf", "dwarf", "fp", "none"),
    )
