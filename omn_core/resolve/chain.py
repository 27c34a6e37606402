"""Walking a source's chain: which backend serves a request on this machine, and what stood in each one's way."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from omn_core.errors import MachineRefused, NotCollected, Refused, RequestError, Whose
from omn_core.filter.grammar import Filter
from omn_core.model.catalog import Backend, Entry
from omn_core.model.probe import Probe, State
from omn_core.model.resolved import Link, LinkState, ResolvedRequest
from omn_core.nearest import suggest
from omn_core.plugins import Registry
from omn_core.resolve.complete import Completed
from omn_core.resolve.probes import ProbeTable

_UNFIT = frozenset({LinkState.MODE, LinkState.EMITS, LinkState.TARGET})
_MACHINE = frozenset({LinkState.MISSING, LinkState.RESTRICTED})
_WORST_FIRST = (State.MISSING, State.RESTRICTED, State.UNKNOWN)


@attrs.frozen
class Judged:
    """A backend as found: its link, whether anything installed collects it, and what of it could not be checked."""

    backend: Backend
    link: Link
    collected: bool
    unverified: tuple[str, ...] = ()


def judge(completed: Completed, backend: Backend, registry: Registry, probes: ProbeTable) -> Judged:
    """Say what the first thing is that stands between a backend and the request: AVAILABLE when nothing does."""
    entry = completed.entry
    collected = (entry.id, backend.id) in registry.collectors
    unfit = _find_unfit(completed, backend)
    if unfit is not None:
        return Judged(backend, unfit, collected)
    answers = [(need, probes.ask(need, completed.target.kind, completed.bound)) for need in backend.requires]
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


def resolve(completed: Completed, registry: Registry, probes: ProbeTable) -> ResolvedRequest:
    """Put a completed request on the backend that serves it. Raises Refused with whose gap it is when none does.

    A target that is a place is found first: each cgroup stands in hierarchies of its own, and a backend that reads in
    another is passed over for that reason. From here on a container is its cgroup.
    """
    if completed.target.kind not in registry.targets:
        raise NotCollected(f"nothing installed here finds a target of the kind {completed.target.kind!r}")
    bound = probes.find_place(completed.target)
    if bound is not None:
        completed = attrs.evolve(completed, target=bound.target, bound=bound)
    forced = completed.request.backend
    judged = (
        [_judge_forced(completed, forced, registry, probes)]
        if forced is not None
        else list(_walk(completed, registry, probes))
    )
    chosen = _choose(judged)
    if chosen is None:
        raise _refuse(completed, judged)
    _check_carried(completed, chosen.backend, registry, probes)
    return _make_resolved(completed, chosen, judged, registry)


def _walk(completed: Completed, registry: Registry, probes: ProbeTable) -> Iterator[Judged]:
    """Judge backends in order, up to the first that is wholly available: those after it are never asked."""
    for backend in completed.entry.chain:
        judged = judge(completed, backend, registry, probes)
        yield judged
        if judged.link.state is LinkState.AVAILABLE:
            return


def _judge_forced(completed: Completed, forced: str, registry: Registry, probes: ProbeTable) -> Judged:
    backend = completed.entry.backend(forced)
    if backend is None:
        offered = [backend.id for backend in completed.entry.chain]
        remedy = suggest(forced, offered, f"its backends are {', '.join(offered)}")
        raise RequestError(f"{completed.entry.id} has no backend {forced!r}", remedy)
    judged = judge(completed, backend, registry, probes)
    if judged.link.state in _UNFIT:
        raise RequestError(f"the pinned backend {forced} does not fit: {judged.link.reason}")
    return judged


def _choose(judged: list[Judged]) -> Judged | None:
    """The first wholly available, failing that the first with nothing missing or restricted and something unknown."""
    for state in (LinkState.AVAILABLE, LinkState.UNKNOWN):
        for one in judged:
            if one.link.state is state:
                return one
    return None


def _refuse(completed: Completed, judged: list[Judged]) -> Refused:
    """Name whose gap it is: the machine's when something collected lacks only that, else the build's, else its own."""
    fitting = [one for one in judged if one.link.state not in _UNFIT]
    what = f"{completed.entry.id} in mode {completed.mode}"
    if not fitting:
        reasons = "; ".join(f"{one.link.backend}: {one.link.reason}" for one in judged)
        return RequestError(f"no mechanism of {what} answers this ({reasons})")
    collected = [one for one in fitting if one.collected]
    unwritten = [one for one in fitting if one.link.state is LinkState.UNCOLLECTED]
    whose = Whose.MACHINE if collected or not unwritten else Whose.BUILD
    leading = collected or unwritten or fitting
    ordered = [*leading, *(one for one in fitting if one not in leading)]
    reasons = "; ".join(f"{one.link.backend}: {one.link.reason}" for one in ordered)
    remedy = next((one.link.remedy for one in ordered if one.link.remedy), None)
    pinned = " through the pinned backend" if completed.request.backend is not None else ""
    if whose is Whose.BUILD:
        return NotCollected(f"nothing installed here collects {what}{pinned} ({reasons})", remedy)
    return MachineRefused(f"this machine cannot serve {what}{pinned} ({reasons})", remedy)


def _check_carried(completed: Completed, backend: Backend, registry: Registry, probes: ProbeTable) -> None:
    """Refuse a key or field that the chosen backend's events lack, naming the backend that carries it."""
    entry = completed.entry
    keys, fields = entry.keys_of(backend), entry.filter_fields_of(backend)
    for key in completed.request.keys:
        if key not in keys:
            carriers = [other for other in entry.chain if key in entry.keys_of(other)]
            raise _refuse_carried(completed, f"key {key!r}", backend, carriers, registry, probes)
    asked = [emit.attribute for emit in completed.emits if emit.attribute is not None]
    named = () if completed.filter is None else completed.filter.fields
    for field in (*asked, *named):
        if field not in (*fields, "value", "kind", completed.value):
            carriers = [other for other in entry.chain if field in entry.filter_fields_of(other)]
            raise _refuse_carried(completed, f"field {field!r}", backend, carriers, registry, probes)


def _refuse_carried(
    completed: Completed,
    what: str,
    chosen: Backend,
    carriers: list[Backend],
    registry: Registry,
    probes: ProbeTable,
) -> Refused:
    """A carrier this machine can run is named to be pinned; one nobody wrote comes before one the machine lacks."""
    said = f"{completed.entry.id} is served by {chosen.id}, whose events carry no {what}"
    judged = [judge(completed, carrier, registry, probes) for carrier in carriers]
    for one in judged:
        if one.link.state in (LinkState.AVAILABLE, LinkState.UNKNOWN):
            return RequestError(f"{said}; {one.backend.id} carries it", f"pin it with --backend force:{one.backend.id}")
    for states, make in (({LinkState.UNCOLLECTED}, NotCollected), (_MACHINE, MachineRefused), (_UNFIT, RequestError)):
        for one in judged:
            if one.link.state in states:
                return make(f"{said}; {one.backend.id} would carry it, and does not serve: {one.link.reason}")
    return RequestError(f"{said}, and no backend of its chain does")


def _make_resolved(completed: Completed, chosen: Judged, judged: list[Judged], registry: Registry) -> ResolvedRequest:
    entry, backend = completed.entry, chosen.backend
    unit = entry.unit_of(backend, completed.value)
    meaning = completed.units.get(unit)
    links = tuple(attrs.evolve(one.link, state=LinkState.SELECTED) if one is chosen else one.link for one in judged)
    return ResolvedRequest(
        request=completed.request,
        entry=entry,
        backend=backend,
        collector=registry.collectors[entry.id, backend.id],
        chain=links,
        mode=completed.mode,
        emits=completed.emits,
        target=completed.target,
        value=completed.value,
        unit=unit,
        adds_up=completed.adds_up,
        interval_ns=completed.interval_ns,
        pinned=completed.request.backend is not None,
        unverified=chosen.unverified + _unseen(entry, backend),
        defaulted=completed.defaulted,
        degraded=() if backend.degrades is None else (backend.degrades,),
        filter_fields=() if completed.filter is None else completed.filter.fields,
        filter_applied_by=_place_filter(completed.filter, backend),
        scale=None if meaning is None else meaning.scale,
        bound=completed.bound,
    )


def _unseen(entry: Entry, backend: Backend) -> tuple[str, ...]:
    if backend.unseen is None:
        return ()
    return (f"{entry.id} through {backend.id} was never run on its hardware: {backend.unseen}",)


def _place_filter(predicate: Filter | None, backend: Backend) -> str | None:
    """The kernel applies only one-value equalities over fields that the backend's program compares."""
    if predicate is None:
        return None
    pairs = predicate.equalities
    in_program = pairs is not None and all(field in backend.filter_in_program for field, _ in pairs)
    return "kernel" if in_program else "userspace"
