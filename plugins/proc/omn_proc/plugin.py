"""The process family's table of contents: nothing but rows, and nothing imported for them."""

from __future__ import annotations

from collections.abc import Sequence

from omn_core.api import CollectorRow, RequirementRow, hookimpl

OMN_CONTRACT = "1.0"


@hookimpl
def omn_catalog() -> str:
    """Return the package whose folder holds the family's catalog."""
    return "omn_proc"


@hookimpl
def omn_collectors() -> Sequence[CollectorRow]:
    """Return a row for each source and backend this family collects."""
    return [
        CollectorRow("proc.tasks", "fs:proc:table", "omn_proc.tasks:MachineTasks"),
        CollectorRow("proc.tasks", "fs:proc:task", "omn_proc.tasks:ProcessTasks", several_processes=True),
        CollectorRow("proc.threads", "fs:proc:task", "omn_proc.threads:Threads", several_processes=True),
        CollectorRow("proc.fd", "fs:proc:fd", "omn_proc.descriptors:Descriptors", several_processes=True),
        CollectorRow("proc.limits", "fs:proc:limits", "omn_proc.limits:Limits", several_processes=True),
        CollectorRow("proc.cgroup", "fs:proc:cgroup", "omn_proc.cgroup:Cgroups", several_processes=True),
        CollectorRow("proc.fork", "bpf:raw_tp", "omn_proc.traced:Forks", several_processes=True),
        CollectorRow("proc.fork", "bpf:tp", "omn_proc.recorded:Forks", several_processes=True),
        CollectorRow("proc.fork", "fs:proc:stat", "omn_proc.forks:Forks"),
        CollectorRow("proc.fork", "netlink:proc", "omn_proc.lives:Forks", several_processes=True),
        CollectorRow("proc.exec", "bpf:raw_tp", "omn_proc.execs:Execs", several_processes=True),
        CollectorRow("proc.exec", "bpf:tp", "omn_proc.recorded:Execs", several_processes=True),
        CollectorRow("proc.exec", "netlink:proc", "omn_proc.lives:Execs", several_processes=True),
        CollectorRow("proc.exit", "bpf:raw_tp", "omn_proc.traced:Exits", several_processes=True),
        CollectorRow("proc.exit", "bpf:tp", "omn_proc.recorded:Exits", several_processes=True),
        CollectorRow("proc.exit", "netlink:proc", "omn_proc.lives:Exits", several_processes=True),
        CollectorRow("proc.syscall", "bpf:raw_tp", "omn_proc.syscalls:SystemCalls", several_processes=True),
        CollectorRow("proc.syscall", "bpf:tp", "omn_proc.syscalls:SystemCalls", several_processes=True),
        _trace_calls("bpf:raw_tp"),
        _trace_calls("bpf:tp"),
        CollectorRow("proc.signals", "bpf:raw_tp", "omn_proc.traced:Signals", several_processes=True),
        CollectorRow("proc.signals", "bpf:tp", "omn_proc.recorded:Signals", several_processes=True),
    ]


def _trace_calls(backend: str) -> CollectorRow:
    return CollectorRow(
        "proc.calls",
        backend,
        "omn_proc.calls:Calls",
        several_processes=True,
        reads_stacks=True,
    )


@hookimpl
def omn_requirements() -> Sequence[RequirementRow]:
    """Return the requirement class that this family answers itself."""
    return [RequirementRow("proc_events", "omn_proc.probes:probe_process_events")]
