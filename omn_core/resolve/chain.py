"""Walking a source's chain: which backend serves a request on this machine, and what stood in each one's way."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from omn_core.errors import MachineRefused, NotCollected, Refused, RequestError, Whose
from omn_core.filter.grammar import Filter
from omn_core.model.catalog import BANDS, Backend, Entry
from omn_core.model.resolved import Link, LinkState, ResolvedRequest
from omn_core.nearest import suggest
from omn_core.plugins import Registry
from omn_core.resolve.carried import check_carried, find_lacking
from omn_core.resolve.complete import Completed
from omn_core.resolve.judge import UNFIT, Judged, judge
from omn_core.resolve.probes import ProbeTable


def resolve(completed: Completed, registry: Registry, probes: ProbeTable, band: str | None = None) -> ResolvedRequest:
    """Put a completed request on the backend that serves it. Raises Refused with whose gap it is when none does.

    A target that is a place is found first: each cgroup stands in hierarchies of its own, and a backend that reads in
    another is passed over for that reason. From here on a container is its cgroup. A backend that declares more than
    `band` is passed over for a later one that keeps it and answers the same; where there is none it serves all the
    same. A pinned backend is never passed over.
    """
    if completed.target.kind not in registry.targets:
        raise NotCollected(f"nothing installed here finds a target of the kind {completed.target.kind!r}")
    completed = find_place(completed, probes)
    forced = completed.request.backend
    judged = (
        [_judge_forced(completed, forced, registry, probes)]
        if forced is not None
        else list(_walk(completed, registry, probes, band))
    )
    chosen = _choose(judged)
    if chosen is None:
        raise _refuse(completed, judged)
    check_carried(completed, chosen.backend, registry, probes)
    over = band if forced is None and band is not None and _exceeds(chosen.backend, band) else None
    links = tuple(attrs.evolve(one.link, state=LinkState.SELECTED) if one is chosen else one.link for one in judged)
    resolved = resolve_onto(completed, chosen, links, registry, probes)
    return attrs.evolve(resolved, over_band=over)


def resolve_onto(
    completed: Completed, chosen: Judged, links: tuple[Link, ...], registry: Registry, probes: ProbeTable
) -> ResolvedRequest:
    """Put a completed request on a backend, with the chain as it was walked and the way that its stacks are walked.

    Raises MachineRefused or NotCollected where its stacks cannot be walked as was asked.
    """
    resolved = _make_resolved(completed, chosen, links, registry)
    if not completed.walks:
        return resolved
    from omn_core.resolve.walks import choose_walk

    return attrs.evolve(resolved, walk=choose_walk(resolved, completed.walks, registry, probes))


def find_place(completed: Completed, probes: ProbeTable) -> Completed:
    """Find a target that is a place: from there on a container is its cgroup. Raises MachineRefused for none there."""
    bound = probes.find_place(completed.target)
    return completed if bound is None else attrs.evolve(completed, target=bound.target, bound=bound)


def _walk(completed: Completed, registry: Registry, probes: ProbeTable, band: str | None) -> Iterator[Judged]:
    """Judge backends in order, up to the first that is wholly available: those after it are never asked.

    Past one that is available and costs more than the band, only a backend that carries what is asked is an answer.
    """
    is_moving = False
    for backend in completed.entry.chain:
        judged = judge(completed, backend, registry, probes)
        if judged.link.state is LinkState.AVAILABLE and band is not None and _exceeds(backend, band):
            is_moving = True
            reason = f"it declares {backend.cost}, more than the band {band}"
            yield attrs.evolve(judged, link=Link(backend.id, LinkState.BAND, reason))
            continue
        lacking = find_lacking(completed, backend) if is_moving else None
        if judged.link.state is LinkState.AVAILABLE and lacking is not None:
            yield attrs.evolve(judged, link=lacking)
            continue
        yield judged
        if judged.link.state is LinkState.AVAILABLE:
            return


def _exceeds(backend: Backend, band: str) -> bool:
    return BANDS.index(backend.cost) > BANDS.index(band)


def _judge_forced(completed: Completed, forced: str, registry: Registry, probes: ProbeTable) -> Judged:
    backend = completed.entry.backend(forced)
    if backend is None:
        offered = [backend.id for backend in completed.entry.chain]
        remedy = suggest(forced, offered, f"its backends are {', '.join(offered)}")
        raise RequestError(f"{completed.entry.id} has no backend {forced!r}", remedy)
    judged = judge(completed, backend, registry, probes)
    if judged.link.state in UNFIT:
        raise RequestError(f"the pinned backend {forced} does not fit: {judged.link.reason}")
    return judged


def _choose(judged: list[Judged]) -> Judged | None:
    """The first wholly available, failing that the first that only costs more than its band, or is partly unknown."""
    for state in (LinkState.AVAILABLE, LinkState.BAND, LinkState.UNKNOWN):
        for one in judged:
            if one.link.state is state:
                return one
    return None


def _refuse(completed: Completed, judged: list[Judged]) -> Refused:
    """Name whose gap it is: the machine's when something collected lacks only that, else the build's, else its own."""
    fitting = [one for one in judged if one.link.state not in UNFIT]
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


def _make_resolved(
    completed: Completed, chosen: Judged, links: tuple[Link, ...], registry: Registry
) -> ResolvedRequest:
    entry, backend = completed.entry, chosen.backend
    unit = entry.unit_of(backend, completed.value)
    meaning = completed.vocabulary.units.get(unit)
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
        labels=_choose_labels(completed, backend),
        apart=completed.vocabulary.apart,
        bound=completed.bound,
    )


def _choose_labels(completed: Completed, backend: Backend) -> dict[str, str]:
    """Choose the attributes that say what the answer's keys are called, where the backend can carry them."""
    entry, keys = completed.entry, completed.request.keys
    divided = {*keys, *(emit.attribute for emit in completed.emits)}
    carried = {*entry.attributes, *entry.keys_of(backend)} - {*keys}
    labels = completed.vocabulary.labels.items()
    return {key: attribute for key, attribute in labels if key in divided and attribute in carried}


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
