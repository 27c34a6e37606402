"""The memory family's table of contents: nothing but rows, and nothing imported for them."""

from __future__ import annotations

from collections.abc import Sequence

from omn_core.api import CollectorRow, hookimpl

OMN_CONTRACT = "1.0"


@hookimpl
def omn_catalog() -> str:
    """Return the package whose folder holds the family's catalog."""
    return "omn_mem"


@hookimpl
def omn_collectors() -> Sequence[CollectorRow]:
    """Return a row for each source and backend this family collects."""
    footprint = "omn_mem.footprint"
    return [
        CollectorRow("mem.rss", "fs:proc:statm", f"{footprint}:StatmCollector", several_processes=True),
        CollectorRow("mem.rss", "fs:proc:smaps_rollup", f"{footprint}:ResidentRollupCollector", several_processes=True),
        CollectorRow("mem.pss", "fs:proc:smaps_rollup", f"{footprint}:ProportionalCollector", several_processes=True),
        CollectorRow("mem.pss", "fs:proc:smaps", f"{footprint}:ProportionalMapsCollector", several_processes=True),
        CollectorRow("mem.uss", "fs:proc:smaps_rollup", f"{footprint}:UniqueCollector", several_processes=True),
        CollectorRow("mem.uss", "fs:proc:smaps", f"{footprint}:UniqueMapsCollector", several_processes=True),
        CollectorRow("mem.meminfo", "fs:proc:meminfo", "omn_mem.meminfo:MeminfoCollector"),
        CollectorRow("mem.pressure", "fs:proc:pressure", "omn_mem.pressure:MemoryPressure"),
        CollectorRow("mem.pressure", "fs:cgroup2:pressure", "omn_mem.pressure:MemoryPressure"),
        CollectorRow("mem.cgroup", "fs:cgroup2:memory", "omn_mem.cgroup:UnifiedCollector"),
        CollectorRow("mem.cgroup", "fs:cgroup1:memory", "omn_mem.cgroup:LegacyCollector"),
        CollectorRow("mem.swap", "fs:proc:vmstat", "omn_mem.swap:MachineSwapCollector"),
        CollectorRow("mem.swap", "fs:cgroup2:memory", "omn_mem.swap:CgroupSwapCollector"),
        CollectorRow("mem.thp", "fs:sys:thp", "omn_mem.thp:SizesCollector"),
        CollectorRow("mem.thp", "fs:proc:vmstat", "omn_mem.thp:VmstatCollector"),
        CollectorRow("mem.slab", "fs:proc:slabinfo", "omn_mem.slab:CachesCollector"),
        CollectorRow("mem.slab", "fs:proc:meminfo", "omn_mem.slab:TotalsCollector"),
        CollectorRow("mem.maps", "fs:proc:smaps", "omn_mem.maps:MapsCollector", several_processes=True),
        CollectorRow("mem.numa", "fs:sys:node", "omn_mem.numa:NodesCollector"),
        CollectorRow("mem.numa", "fs:proc:numa_maps", "omn_mem.numa:ProcessNodesCollector", several_processes=True),
        CollectorRow("mem.faults", "pmu:sw", "omn_mem.fault_events:EventCollector", several_processes=True),
        CollectorRow(
            "mem.faults",
            "pmu:sw:records",
            "omn_mem.fault_events:FaultRecords",
            several_processes=True,
            weighs_samples=True,
            reads_stacks=True,
            walks=("fp+leaf", "dwarf", "fp", "none"),
        ),
        CollectorRow("mem.faults", "fs:proc:stat", "omn_mem.faults:StatCollector", several_processes=True),
        CollectorRow("mem.faults", "fs:proc:vmstat", "omn_mem.faults:VmstatCollector"),
        CollectorRow("mem.oom", "fs:proc:vmstat", "omn_mem.kills:MachineKills"),
        CollectorRow("mem.oom", "fs:cgroup2:events", "omn_mem.kills:CgroupKills"),
        CollectorRow("mem.oom", "fs:cgroup1:oom_control", "omn_mem.kills:LegacyKills"),
        CollectorRow("mem.oom", "bpf:raw_tp", "omn_mem.traced:Kills", several_processes=True),
        CollectorRow("mem.page_alloc", "bpf:raw_tp", "omn_mem.traced:Allocations", several_processes=True),
        CollectorRow("mem.page_alloc", "fs:proc:vmstat", "omn_mem.allocated:MachineAllocations"),
        _trace_stacks("mem.reclaim", "omn_mem.reclaim:Reclaims"),
        _trace_stacks("mem.compaction", "omn_mem.compaction:Compactions"),
        _trace_stacks("mem.heap.alloc", "omn_mem.preloaded:PreloadedAllocations", "preload"),
        _trace_stacks("mem.heap.alloc", "omn_mem.allocations:AllocationLinks", "bpf:uprobe_multi"),
        _trace_stacks("mem.heap.alloc", "omn_mem.allocations:Allocations", "bpf:uprobe"),
    ]


def _trace_stacks(source: str, factory: str, backend: str = "bpf:raw_tp") -> CollectorRow:
    return CollectorRow(
        source,
        backend,
        factory,
        several_processes=True,
        reads_stacks=True,
    )
