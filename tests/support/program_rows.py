"""The mechanisms that load programs into the kernel, each asked by its name for what it cannot serve."""

from __future__ import annotations

import os
from typing import Any

from omn_core.catalog.load import load_catalog
from omn_core.errors import Refused
from omn_core.model.catalog import Backend, Entry
from omn_core.model.request import Request, parse_emit
from omn_core.model.target import Target
from omn_core.plugins import discover
from omn_core.resolve.chain import resolve
from omn_core.resolve.complete import complete
from omn_core.resolve.probes import ProbeTable

REGISTRY = discover()
CATALOG = load_catalog(REGISTRY)
ROWS = {
    f"{entry.id}-{backend.id}": (entry, backend)
    for entry in CATALOG.entries.values()
    for backend in entry.chain
    if (entry.id, backend.id) in REGISTRY.collectors and any("bpf_prog:" in need.text for need in backend.requires)
}
"""The collected mechanisms whose programs the kernel is asked to load."""
ALWAYS_THERE: dict[str, Any] = {"system": "", "cpu": (0,), "cgroup": "/", "dev": "", "iface": "lo"}


def ask(entry: Entry, backend: Backend, target: Target) -> Request:
    """Ask a mechanism by its name for the first that it answers."""
    mode = entry.modes_of(backend)[0]
    emits = (parse_emit(entry.emits_of(backend, mode)[0]),)
    return Request(entry.id, mode, emits, target=target, backend=backend.id)


def make_target(kind: str) -> Target:
    return Target(kind, str(os.getpid()) if kind in ("pid", "tid") else ALWAYS_THERE[kind])


def choose_target(entry: Entry, backend: Backend) -> Target:
    """Choose a target that is there on every machine."""
    kinds = entry.targets_of(backend)
    return make_target(next(kind for kind in ("pid", "system") if kind in kinds))


def find_refusal(entry: Entry, backend: Backend, target: Target, sysroot: str = "/") -> Refused | None:
    """Find what a mechanism is refused with, None where it would serve."""
    try:
        resolve(complete(ask(entry, backend, target), CATALOG, REGISTRY), REGISTRY, ProbeTable(REGISTRY, sysroot))
    except Refused as refused:
        return refused
    return None


def load_probes() -> None:
    """Import what answers every requirement, for a user who cannot."""
    for row in REGISTRY.requirements.values():
        REGISTRY.load(row.probe)
