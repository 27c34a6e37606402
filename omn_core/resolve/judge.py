"""One backend of a chain against one request: the first thing that stands between them on this machine."""

from __future__ import annotations

import attrs

from omn_core.model.catalog import Backend
from omn_core.model.probe import Probe, State
from omn_core.model.resolved import Link, LinkState
from omn_core.plugins import Registry
from omn_core.resolve.complete import Completed
from omn_core.resolve.probes import ProbeTable

UNFIT = frozenset({LinkState.MODE, LinkState.EMITS, LinkState.TARGET})
"""Why a backend was never an answer to a question, whatever the machine."""

_WORST_FIRST = (State.MISSING, State.RESTRICTED, State.UNKNOWN)


@attrs.frozen(repr=False)
class Judged:
    """A backend as found: its link, whether anything installed collects it, and what of it could not be checked."""

    backend: Backend
    link: Link
    collected: bool
    unverified: tuple[str, ...] = ()


def judge(completed: Completed, backend: Backend, registry: Registry, probes: ProbeTable) -> Judged:
    """Say what the first thing is that stands between a backend and the request: AVAILABLE when nothing does."""
    entry, target = completed.entry, completed.target
    collected = (entry.id, backend.id) in registry.collectors
    unfit = _find_unfit(completed, backend)
    if unfit is not None:
        return Judged(backend, unfit, collected)
    answers = [(need, probes.ask(need, target.kind, completed.bound, target.tasks)) for need in backend.requires]
    worst = next((pair for state in _WORST_FIRST for pair in answers if pair[1].state is state), None)
    unverified = tuple(_phrase(need.text, probe) for need, probe in answers if probe.state is State.UNKNOWN)
    if worst is not None and worst[1].state is not State.UNKNOWN:
        link = Link(backend.id, LinkState(worst[1].state.value), _phrase(worst[0].text, worst[1]), worst[1].remedy)
    elif not collected:
        link = Link(backend.id, LinkState.UNCOLLECTED, backend.uncollected or "no installed plugin collects it")
    elif worst is not None:
        link = Link(backend.id, LinkState.UNKNOWN, unverified[0], worst[1].remedy)
    else:
        link = Link(backend.id, LinkState.AVAILABLE)
    return Judged(backend, link, collected, unverified)


def _phrase(need: str, probe: Probe) -> str:
    return need if probe.reason is None else f"{need}: {probe.reason}"


def _find_unfit(completed: Completed, backend: Backend) -> Link | None:
    entry = completed.entry
    modes, targets = entry.modes_of(backend), entry.targets_of(backend)
    if completed.mode not in modes:
        return Link(backend.id, LinkState.MODE, f"it serves {', '.join(modes)}, not {completed.mode}")
    emits = entry.emits_of(backend, completed.mode)
    lacking = [emit.name for emit in completed.emits if emit.name not in emits]
    if lacking:
        return Link(backend.id, LinkState.EMITS, f"it does not produce {', '.join(lacking)}")
    if completed.target.kind not in targets:
        return Link(backend.id, LinkState.TARGET, f"it serves {', '.join(targets)}, not {completed.target.kind}")
    return None
