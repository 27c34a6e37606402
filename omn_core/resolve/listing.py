"""What this machine and this build can serve, source by source and backend by backend: the answer of `omn list`."""

from __future__ import annotations

from typing import Any

from omn_core.model.catalog import Backend, Catalog, Entry
from omn_core.model.family import FamilyDefault
from omn_core.model.probe import Need, Probe, State
from omn_core.model.request import Request
from omn_core.model.walks import Walk
from omn_core.plugins import Registry
from omn_core.resolve.probes import ProbeTable

_WORST_FIRST = (State.MISSING, State.RESTRICTED, State.UNKNOWN, State.AVAILABLE)


def list_sources(
    catalog: Catalog, registry: Registry, probes: ProbeTable, word: str | None = None, *, brief: bool = False
) -> dict[str, Any]:
    """Return the listing as plain values, of every source or of those in the family, or with the id, `word`.

    A source is usable only through a backend that is collected and whose every requirement is available. A `brief`
    listing asks no more of a usable source than what it is usable through: its other backends are not in it; and of a
    backend that nobody collects, which makes no source usable, it asks nothing: its state is None. One that is not
    brief has the ways to walk stacks too, where a source has any.
    """
    entries = [entry for entry in catalog.entries.values() if word in (None, entry.family, entry.id)]
    listed = [_list_entry(entry, catalog, registry, probes, brief=brief) for entry in entries]
    chosen = None if word is None else word.partition(".")[0]
    defaults = [_list_default(one) for family, one in catalog.defaults.items() if chosen in (None, family)]
    if brief:
        return {"sources": listed, "defaults": defaults}
    has_stacks = any(entry.stacks is not None for entry in entries)
    return {
        "sources": listed,
        "defaults": defaults,
        "walks": list_walks(catalog, registry, probes) if has_stacks else [],
    }


def list_walks(catalog: Catalog, registry: Registry, probes: ProbeTable) -> list[dict[str, Any]]:
    """Return the ways to walk a stack as plain values, best first, each with this machine's and this build's answer."""
    return [_list_walk(walk, registry, probes) for walk in catalog.list_walks()]


def _list_walk(walk: Walk, registry: Registry, probes: ProbeTable) -> dict[str, Any]:
    collected = walk.id in registry.stacks
    uncollected = None if collected else walk.uncollected or "no installed plugin walks so"
    need, worst = _find_worst(walk.requires, probes)
    return {
        "id": walk.id,
        "state": worst.state.value,
        "collected": collected,
        "reason": _explain(need.text, worst, uncollected),
        "remedy": worst.remedy,
        "copies": walk.copies,
        "cost": walk.cost,
        "degrades": walk.degrades,
    }


def _list_default(default: FamilyDefault) -> dict[str, Any]:
    bands = {band: [_list_composed(one) for one in requests] for band, requests in default.bands.items()}
    return {"family": default.family, "bands": bands, "none": default.none}


def _list_composed(request: Request) -> dict[str, Any]:
    return {
        "source": request.source,
        "mode": request.mode,
        "emits": [str(emit) for emit in request.emits],
        "keys": list(request.keys),
        "value": request.value,
        "filter": request.filter,
        "interval_ns": request.interval_ns,
    }


def _list_entry(
    entry: Entry, catalog: Catalog, registry: Registry, probes: ProbeTable, *, brief: bool
) -> dict[str, Any]:
    told: dict[str, dict[str, Any]] = {}
    through = None
    for backend in entry.chain:
        if through is None and (entry.id, backend.id) in registry.collectors:
            told[backend.id] = _list_backend(entry, backend, registry, probes)
            through = backend.id if told[backend.id]["state"] == State.AVAILABLE.value else None
    if brief and through is not None:
        backends = [told[through]]
    else:
        asked = None if brief else probes
        backends = [told.get(one.id) or _list_backend(entry, one, registry, asked) for one in entry.chain]
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


def _list_backend(entry: Entry, backend: Backend, registry: Registry, probes: ProbeTable | None) -> dict[str, Any]:
    """Return what is said of a backend; without `probes` it is one that is not collected, and is not asked about."""
    collected = (entry.id, backend.id) in registry.collectors
    uncollected = None if collected else backend.uncollected or "nobody collects it"
    state, reason, remedy = None, uncollected, None
    if probes is not None:
        need, worst = _find_worst(backend.requires, probes)
        state, reason, remedy = worst.state.value, _explain(need.text, worst, uncollected), worst.remedy
    return {
        "id": backend.id,
        "state": state,
        "collected": collected,
        "reason": reason,
        "remedy": remedy,
        "unseen": backend.unseen,
        "modes": list(entry.modes_of(backend)),
        "cost": backend.cost,
        "degrades": backend.degrades,
    }


def _find_worst(needs: tuple[Need, ...], probes: ProbeTable) -> tuple[Need, Probe]:
    answers = [(need, probes.ask(need)) for need in needs]
    return min(answers, key=lambda pair: _WORST_FIRST.index(pair[1].state))


def _explain(need: str, worst: Probe, uncollected: str | None) -> str | None:
    parts = []
    if worst.state is not State.AVAILABLE:
        parts.append(need if worst.reason is None else f"{need}: {worst.reason}")
    if uncollected is not None:
        parts.append(f"not collected: {uncollected}")
    return "; ".join(parts) or None
