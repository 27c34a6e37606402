"""The kernel plugin's table of contents: nothing but rows, and nothing imported for them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from omn_core.api import RequirementRow, StackRow, TargetRow, hookimpl

OMN_CONTRACT = "1.0"

_NAME = r"[A-Za-z_][A-Za-z0-9_.]*"
_ARGUMENTS = r"\([^()]*\)"


@hookimpl
def omn_requirements() -> Sequence[RequirementRow]:
    """Return a row for each requirement class that is a question to Linux."""
    probes = "omn_kernel.probes"
    return [
        RequirementRow("kernel>=", f"{probes}.basic:probe_kernel", r"\d+\.\d+(\.\d+)?", "kernel>=5.8"),
        RequirementRow("cap", f"{probes}.basic:probe_capability", r"[a-z_]+", "cap:perfmon"),
        RequirementRow("cpu_clock", f"{probes}.basic:probe_cpu_clock"),
        RequirementRow("path", f"{probes}.files:probe_path", r"/[^\0]*", "path:/proc/vmstat"),
        RequirementRow("line", f"{probes}.files:probe_line", r"/[^\0:]+:\S+", "line:/proc/stat:ctxt"),
        RequirementRow("btf", f"{probes}.prototypes:probe_btf"),
        RequirementRow("bpf_prog", f"{probes}.bpf:probe_program", r"[a-z_]+", "bpf_prog:raw_tracepoint"),
        RequirementRow("bpf_map", f"{probes}.bpf:probe_map", r"[a-z_]+", "bpf_map:ringbuf"),
        RequirementRow(
            "raw_tp", f"{probes}.prototypes:probe_raw_tracepoint", rf"{_NAME}({_ARGUMENTS})?", "raw_tp:sched_switch"
        ),
        RequirementRow("tp", f"{probes}.tracepoints:probe_tracepoint", rf"{_NAME}/{_NAME}", "tp:sched/sched_switch"),
        RequirementRow("fentry", f"{probes}.prototypes:probe_fentry", rf"{_NAME}({_ARGUMENTS})?", "fentry:vfs_read"),
        RequirementRow("kprobe", f"{probes}.tracepoints:probe_kprobe", _NAME, "kprobe:vfs_read"),
        RequirementRow("uprobe", f"{probes}.events:probe_uprobe"),
        RequirementRow("uprobe_multi", f"{probes}.bpf:probe_uprobe_multi"),
        RequirementRow("follower", f"{probes}.prototypes:probe_follower"),
        RequirementRow("perf", f"{probes}.events:probe_perf", r"[a-z_]+(:[A-Za-z0-9_./-]+)?", "perf:sw:page-faults"),
        RequirementRow("pmu", f"{probes}.events:probe_pmu", r"[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)?", "pmu:msr:tsc"),
        RequirementRow("cgroup2", f"{probes}.files:probe_cgroup2", r"[a-z0-9._]+:\S+", "cgroup2:memory.stat:pswpin"),
        RequirementRow("cgroup1", f"{probes}.files:probe_cgroup1", r"[a-z0-9_]+", "cgroup1:memory"),
        RequirementRow("psi", f"{probes}.files:probe_psi"),
        RequirementRow("netlink", f"{probes}.netlink:probe_netlink", r"[A-Za-z0-9_.-]+", "netlink:route"),
        RequirementRow("hwmon", f"{probes}.sensors:probe_hwmon", r"[A-Za-z0-9_.-]+", "hwmon:coretemp"),
        RequirementRow("preload", f"{probes}.basic:probe_preload"),
        RequirementRow("tool-free", f"{probes}.basic:probe_nothing"),
    ]


@hookimpl
def omn_stacks() -> Sequence[StackRow]:
    """Return a row for each way to walk a stack."""
    walks = "omn_kernel.unwind.choosing"
    everywhere = [StackRow("fp", f"{walks}:FP", "walk"), StackRow("none", f"{walks}:NONE", "walk")]
    if os.uname().machine != "x86_64":
        return everywhere
    return [StackRow("fp+leaf", f"{walks}:FP_LEAF", "walk"), StackRow("dwarf", f"{walks}:DWARF", "walk"), *everywhere]


@hookimpl
def omn_targets() -> Sequence[TargetRow]:
    """Return a row for each kind of target this plugin finds on the machine."""
    return [
        TargetRow("cgroup", "omn_kernel.targets:bind_cgroup"),
        TargetRow("container", "omn_kernel.containers:bind_container"),
        TargetRow("cpu", "omn_kernel.targets:bind_cpu"),
        TargetRow("dev", "omn_kernel.targets:bind_dev"),
        TargetRow("iface", "omn_kernel.interfaces:bind_iface"),
    ]
