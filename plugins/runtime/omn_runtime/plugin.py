"""What the runtime family hands over. Nothing of its collectors is imported here."""

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
        CollectorRow("runtime.func", "bpf:uprobe_multi", "omn_runtime.calls:CallLinks", several_processes=True),
        CollectorRow("runtime.func", "bpf:uprobe", "omn_runtime.calls:Calls", several_processes=True),
    ]
