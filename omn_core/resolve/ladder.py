"""What a budget may move a request onto: cheaper mechanisms of its mode, then samples in place of every event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from omn_core.errors import Refused, RequestError
from omn_core.model.catalog import BANDS, Backend
from omn_core.model.resolved import Link, LinkState, ResolvedRequest
from omn_core.plugins import Registry
from omn_core.resolve.carried import find_lacking
from omn_core.resolve.chain import find_place, resolve_onto
from omn_core.resolve.complete import Completed
from omn_core.resolve.judge import judge
from omn_core.resolve.probes import ProbeTable
from omn_core.resolve.rules import check_processes

_WEIGHING = frozenset({"hist", "topk", "rate", "summary"})
"""The emits that take each event for what it stands for, so that one series may hold events and samples."""

_LISTING = frozenset({"raw", "timeline", "stack"})
"""The emits in which an event and a sample would be listed as one."""

_MOVED_OFF = "the budget moved off it"


def check_rungs(completed: Completed) -> None:
    """Raise RequestError where a budget could only go on with samples that are listed as if they were events."""
    if completed.mode != "trace":
        return
    entry = completed.entry
    sampled = {name for one in _list_chain(completed, "sample") for name in entry.emits_of(one, "sample")}
    mixed = [emit.name for emit in completed.emits if emit.name in _LISTING & sampled]
    if mixed:
        raise RequestError(
            f"{entry.id} may be sampled under a budget, and {' and '.join(mixed)} would list samples as events",
            f"ask {', '.join(sorted(_WEIGHING))}, or --mode sample, or leave the budget out",
        )


def add_rungs(
    resolved: ResolvedRequest, completed: Completed, registry: Registry, probes: ProbeTable
) -> ResolvedRequest:
    """Add to a resolved request what a budget may move it onto, in order, and why not onto what else is cheaper."""
    completed = find_place(completed, probes)
    rungs: list[ResolvedRequest] = []
    passed: list[str] = []
    for wanted, backend in _iter_cheaper(resolved, completed):
        last = rungs[-1] if rungs else resolved
        if last.mode != resolved.mode or (wanted.mode == resolved.mode and not _costs_less(backend, last.backend)):
            continue
        try:
            rungs.append(_resolve_rung(last, wanted, backend, registry, probes))
        except Refused as refused:
            passed.append(f"{backend.id} in mode {wanted.mode}: {refused.reason}")
    return attrs.evolve(resolved, rungs=_nest(rungs), passed_rungs=tuple(passed))


def _nest(rungs: list[ResolvedRequest]) -> tuple[ResolvedRequest, ...]:
    """Give each rung those that come after it."""
    nested: tuple[ResolvedRequest, ...] = ()
    for rung in reversed(rungs):
        nested = (attrs.evolve(rung, rungs=nested), *nested)
    return nested


def _iter_cheaper(resolved: ResolvedRequest, completed: Completed) -> Iterator[tuple[Completed, Backend]]:
    """Iterate over the mechanisms that declare less in the request's mode, then over those that sample its events.

    What a person pinned is never left for another mechanism.
    """
    entry = completed.entry
    for backend in _list_chain(completed, resolved.mode):
        if _costs_less(backend, resolved.backend):
            yield completed, backend
    is_weighed = all(emit.name in _WEIGHING for emit in completed.emits)
    if resolved.mode != "trace" or not is_weighed or entry.adds_up("sample") != resolved.adds_up:
        return
    sampled = attrs.evolve(completed, request=attrs.evolve(completed.request, mode="sample"), mode="sample")
    for backend in _list_chain(completed, "sample"):
        if not _costs_less(resolved.backend, backend):
            yield sampled, backend


def _list_chain(completed: Completed, mode: str) -> list[Backend]:
    """List the mechanisms that serve a mode: the pinned one alone where one is."""
    pinned = completed.request.backend
    return [one for one in completed.entry.chain if mode in completed.entry.modes_of(one) and pinned in (None, one.id)]


def _costs_less(backend: Backend, other: Backend) -> bool:
    return BANDS.index(backend.cost) < BANDS.index(other.cost)


def _resolve_rung(
    last: ResolvedRequest, wanted: Completed, backend: Backend, registry: Registry, probes: ProbeTable
) -> ResolvedRequest:
    """Put a request on a cheaper mechanism. Raises Refused where that would not go on with the same series."""
    judged = judge(wanted, backend, registry, probes)
    lacking = find_lacking(wanted, backend)
    if judged.link.state is not LinkState.AVAILABLE or lacking is not None:
        link = judged.link if lacking is None else lacking
        raise RequestError(link.reason or link.state.value)
    unit = wanted.entry.unit_of(backend, wanted.value)
    if unit != last.unit:
        raise RequestError(f"it measures in {unit}, not in {last.unit}")
    row = registry.collectors[wanted.entry.id, backend.id]
    if wanted.mode != last.mode and not row.weighs_samples:
        raise RequestError("it does not weigh its samples by what each stands for")
    links = tuple(_move_links(last.chain, last.backend.id, backend.id))
    rung = resolve_onto(wanted, judged, links, registry, probes)
    check_processes(rung)
    return rung


def _move_links(chain: Iterable[Link], left: str, taken: str) -> Iterator[Link]:
    """Iterate over a chain as it was walked, with the mechanism that a budget left and that which it took."""
    for link in chain:
        if link.backend == left and left != taken:
            yield Link(left, LinkState.BAND, _MOVED_OFF)
        elif link.backend != taken:
            yield link
    yield Link(taken, LinkState.SELECTED)
