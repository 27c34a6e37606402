"""The scheduler family's table of contents: nothing but rows, and nothing imported for them."""

from __future__ import annotations

from omn_core.api import CollectorRow, hookimpl

OMN_CONTRACT = "1.0"


@hookimpl
def omn_catalog() -> str:
    """Return this package: `catalog.yaml` lies beside this module."""
    return "omn_sched"


@hookimpl
def omn_collectors() -> list[CollectorRow]:
    """Return what this family collects."""
    return [
        CollectorRow("sched.switches", "pmu:sw", "omn_sched.events:Switches", several_processes=True),
        CollectorRow("sched.migrations", "pmu:sw", "omn_sched.events:Migrations", several_processes=True),
        _sample("sched.switches", "SwitchRecords"),
        _sample("sched.migrations", "MigrationRecords"),
        CollectorRow("sched.switches", "bpf:raw_tp", "omn_sched.traced:Switches", several_processes=True),
        CollectorRow("sched.switches", "bpf:tp", "omn_sched.traced:Switches", several_processes=True),
        _collect_threads("sched.switches", "fs:proc:status", "Switches"),
        CollectorRow("sched.switches", "fs:proc:stat", "omn_sched.machine:MachineSwitches"),
        _collect_threads("sched.migrations", "fs:proc:sched", "Migrations"),
        _trace("sched.runqlat", "Waits"),
        _collect_threads("sched.runqlat", "fs:proc:schedstat", "Waits"),
        CollectorRow("sched.runqlat", "fs:proc:cpu_schedstat", "omn_sched.machine:CpuWaits"),
        _trace_stacks("sched.offcpu", "omn_sched.blocks:Blocks"),
        _trace_stacks("sched.offcpu", "omn_sched.blocks:Blocks", "bpf:tp"),
        _trace_stacks("sched.futex", "omn_sched.futex_waits:FutexWaits"),
        _trace_stacks("sched.futex", "omn_sched.futex_waits:FutexWaits", "bpf:tp"),
        _trace_stacks("sched.lock", "omn_sched.lock_waits:LockWaits"),
        _trace_stacks("sched.lock", "omn_sched.lock_waits:LockWaits", "bpf:tp"),
        _trace("sched.wakeup", "Wakeups"),
        _trace("sched.wakeup", "Wakeups", "bpf:tp"),
        _trace_stacks("sched.mutex", "omn_sched.mutexes:MutexLinks", "bpf:uprobe_multi"),
        _trace_stacks("sched.mutex", "omn_sched.mutexes:Mutexes", "bpf:uprobe"),
        CollectorRow("sched.slices", "bpf:raw_tp", "omn_sched.slices:Slices", several_processes=True),
        CollectorRow("sched.slices", "bpf:tp", "omn_sched.slices:Slices", several_processes=True),
        _trace("sched.migrations", "Migrations"),
        _trace("sched.migrations", "Migrations", "bpf:tp"),
        CollectorRow("sched.numa_balance", "bpf:raw_tp", "omn_sched.traced:NodeBalance", several_processes=True),
        CollectorRow("sched.numa_balance", "bpf:tp", "omn_sched.traced:NodeBalance", several_processes=True),
        _trace("sched.irq", "Interrupts"),
        _trace("sched.irq", "Interrupts", "bpf:tp"),
        _trace("sched.softirq", "SoftInterrupts"),
        _trace("sched.softirq", "SoftInterrupts", "bpf:tp"),
        CollectorRow("sched.runqlen", "bpf:perf_event", "omn_sched.run_queues:QueueLengths"),
        CollectorRow("sched.runqlen", "fs:proc:stat", "omn_sched.machine:RunQueues"),
        CollectorRow("sched.irq", "fs:proc:interrupts", "omn_sched.interrupts:Interrupts"),
        CollectorRow("sched.softirq", "fs:proc:softirqs", "omn_sched.interrupts:SoftInterrupts"),
    ]


def _collect_threads(source: str, backend: str, name: str) -> CollectorRow:
    return CollectorRow(source, backend, f"omn_sched.threads:{name}", several_processes=True)


def _sample(source: str, name: str) -> CollectorRow:
    return CollectorRow(
        source,
        "pmu:sw:records",
        f"omn_sched.events:{name}",
        several_processes=True,
        weighs_samples=True,
        reads_stacks=True,
        walks=("fp+leaf", "dwarf", "fp", "none"),
    )


def _trace(source: str, name: str, backend: str = "bpf:raw_tp") -> CollectorRow:
    """Name a collector of what programs hand over or add up, histograms too."""
    factory = f"omn_sched.traced:{name}"
    return CollectorRow(source, backend, factory, several_processes=True)


def _trace_stacks(source: str, factory: str, backend: str = "bpf:raw_tp") -> CollectorRow:
    return CollectorRow(
        source,
        backend,
        factory,
        several_processes=True,
        reads_stacks=True,
    )
