"""What this machine and this build can serve, source by source and backend by backend: the answer of `omn list`."""

from __future__ import annotations

from typing import Any

from omn_core.model.catalog import Backend, Catalog, Entry
from omn_core.model.probe import Probe, State
from omn_core.plugins import Registry
from omn_core.resolve.probes import ProbeTable

_WORST_FIRST = (State.MISSING, State.RESTRICTED, State.UNKNOWN, State.AVAILABLE)


def list_sources(
    catalog: Catalog, registry: Registry, probes: ProbeTable, word: str | None = None, *, brief: bool = False
) -> dict[str, Any]:
    """Return the listing as plain values, of every source or of those in the family, or with the id, `word`.

    A source is usable only through a backend that is collected and whose every requirement is available. A `brief`
    listing asks no more of a usable source than what it is usable through: its other backends are not in it.
    """
    entries = [entry for entry in catalog.entries.values() if word in (None, entry.family, entry.id)]
    listed = [_list_entry(entry, catalog, registry, probes, brief=brief) for entry in entries]
    return {"sources": listed, "defaults": []}


def _list_entry(
    entry: Entry, catalog: Catalog, registry: Registry, probes: ProbeTable, *, brief: bool
) -> dict[str, Any]:
    collected = [backend for backend in entry.chain if (entry.id, backend.id) in registry.collectors]
    asked = (_list_backend(entry, backend, registry, probes) for backend in collected)
    usable = next((one for one in asked if one["state"] == State.AVAILABLE.value), None)
    through = None if usable is None else usable["id"]
    if brief and usable is not None:
        backends = [usable]
    else:
        backends = [_list_backend(entry, backend, registry, probes) for backend in entry.chain]
    return {
        "id": entry.id,
        "family": entry.family,
        "distribution": catalog.distributions.get(entry.id, ""),
        "title": entry.title,
        "unit": entry.unit,
        "modes": list(entry.modes),
        "emits": {mode: list(emits) for mode, emits in entry.emits.items()},
        "targets": [kind for kind, reason in entry.targets.items() if reason is None],
        "keys": list(entry.keys),
        "usable": through is not None,
        "through": through,
        "backends": backends,
    }


def _list_backend(entry: Entry, backend: Backend, registry: Registry, probes: ProbeTable) -> dict[str, Any]:
    answers = [(need, probes.ask(need)) for need in backend.requires]
    need, worst = min(answers, key=lambda pair: _WORST_FIRST.index(pair[1].state))
    collected = (entry.id, backend.id) in registry.collectors
    return {
        "id": backend.id,
        "state": worst.state.value,
        "collected": collected,
        "reason": _explain(need.text, worst, None if collected else backend.uncollected or "nobody collects it"),
        "remedy": worst.remedy,
        "unseen": backend.unseen,
        "modes": list(entry.modes_of(backend)),
        "cost": backend.cost,
        "degrades": backend.degrades,
    }


def _explain(need: str, worst: Probe, uncollected: str | None) -> str | None:
    parts = []
    if worst.state is not State.AVAILABLE:
        parts.append(need if worst.reason is None else f"{need}: {worst.reason}")
    if uncollected is not None:
        parts.append(f"not collected: {uncollected}")
    return "; ".join(parts) or None
