"""The storage family's table of contents: nothing but rows, and nothing imported for them."""

from __future__ import annotations

from omn_core.api import CollectorRow, hookimpl

OMN_CONTRACT = "1.0"


@hookimpl
def omn_catalog() -> str:
    """Return this package: `catalog.yaml` lies beside this module."""
    return "omn_io"


@hookimpl
def omn_collectors() -> list[CollectorRow]:
    """Return what this family collects."""
    return [
        CollectorRow("io.bytes", "fs:proc:diskstats", "omn_io.transfers:Bytes"),
        CollectorRow("io.bytes", "fs:cgroup2:io.stat", "omn_io.cgroup_transfers:UnifiedBytes"),
        CollectorRow("io.bytes", "fs:cgroup1:blkio", "omn_io.cgroup_transfers:LegacyBytes"),
        CollectorRow("io.bytes", "bpf:raw_tp", "omn_io.request_sums:Bytes", several_processes=True),
        CollectorRow("io.bytes", "bpf:tp", "omn_io.request_sums:Bytes", several_processes=True),
        CollectorRow("io.iops", "fs:proc:diskstats", "omn_io.transfers:Requests"),
        CollectorRow("io.iops", "fs:cgroup2:io.stat", "omn_io.cgroup_transfers:UnifiedRequests"),
        CollectorRow("io.iops", "fs:cgroup1:blkio", "omn_io.cgroup_transfers:LegacyRequests"),
        CollectorRow("io.iops", "bpf:raw_tp", "omn_io.request_sums:Requests", several_processes=True),
        CollectorRow("io.iops", "bpf:tp", "omn_io.request_sums:Requests", several_processes=True),
        CollectorRow("io.merges", "fs:proc:diskstats", "omn_io.transfers:Merges"),
        CollectorRow("io.util", "fs:proc:diskstats", "omn_io.busy:Busy"),
        CollectorRow("io.inflight", "fs:proc:diskstats", "omn_io.inflight:InFlight"),
        CollectorRow("io.latency", "bpf:raw_tp", "omn_io.request_latency:RequestLatency", several_processes=True),
        CollectorRow("io.latency", "bpf:tp", "omn_io.request_latency:RequestLatency", several_processes=True),
        *_trace_calls("io.syscall", "Transfers"),
        *_trace_calls("io.fsync", "Syncs"),
        CollectorRow("io.writeback", "bpf:raw_tp", "omn_io.writeback:Writeback"),
        CollectorRow("io.writeback", "bpf:tp", "omn_io.writeback:Writeback"),
        CollectorRow("io.pressure", "fs:proc:pressure", "omn_io.pressure:IoPressure"),
        CollectorRow("io.pressure", "fs:cgroup2:pressure", "omn_io.pressure:IoPressure"),
        CollectorRow("io.process", "fs:proc:io", "omn_io.process:ProcessIo", several_processes=True),
    ]


def _trace_calls(source: str, name: str) -> list[CollectorRow]:
    return [
        CollectorRow(
            source,
            backend,
            f"omn_io.calls:{name}",
            several_processes=True,
            reads_stacks=True,
        )
        for backend in ("bpf:raw_tp", "bpf:tp")
    ]
