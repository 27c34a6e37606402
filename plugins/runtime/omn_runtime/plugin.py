"""The runtime family's table of contents: nothing but rows, and nothing imported for them."""

from __future__ import annotations

from omn_core.api import CollectorRow, hookimpl

OMN_CONTRACT = "1.0"


@hookimpl
def omn_catalog() -> str:
    """Return this package: `catalog.yaml` lies beside this module."""
    return "omn_runtime"


@hookimpl
def omn_collectors() -> list[CollectorRow]:
    """Return what this family collects."""
    return [
        _follow("runtime.func", "bpf:uprobe_multi", "calls:CallLinks"),
        _follow("runtime.func", "bpf:uprobe", "calls:Calls"),
        _follow("runtime.custom", "bpf:uprobe_multi", "passes:PassLinks"),
        _follow("runtime.custom", "bpf:uprobe", "passes:Passes"),
        _follow("runtime.custom", "bpf:usdt", "passes:Marks"),
        CollectorRow("runtime.gc", "bpf:usdt", "omn_runtime.pauses:Collections", several_processes=True),
    ]


def _follow(source: str, backend: str, factory: str) -> CollectorRow:
    """Name a collector of what programs on a target's own code hand over, with the stack of each."""
    return CollectorRow(
        source,
        backend,
        f"omn_runtime.{factory}",
        several_processes=True,
        reads_stacks=True,
    )
