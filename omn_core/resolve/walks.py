"""How a request's stacks are walked: the first way of the chain that this machine has and that suits the target."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from omn_core.errors import PLUGIN_FAULTS, MachineRefused, NotCollected, Refused, RequestError
from omn_core.model.probe import Probe, ProbeContext, State
from omn_core.model.resolved import Link, LinkState, ResolvedRequest
from omn_core.model.rows import CollectorRow
from omn_core.model.target import Target
from omn_core.model.walks import AUTO, NONE, Walk, WalkChoice
from omn_core.nearest import suggest
from omn_core.plugins import Registry
from omn_core.resolve.probes import ProbeTable

ROLE = "walk"
"""The role of the rows that walk stacks."""

_SHOWING = frozenset({"stack", "raw"})
"""The emits that show stacks."""

_WORST_FIRST = (State.MISSING, State.RESTRICTED, State.UNKNOWN)


def check_walk_name(name: str | None, walks: Sequence[Walk]) -> None:
    """Raise RequestError for a way to walk stacks that no catalog lists."""
    offered = [AUTO, *(walk.id for walk in walks)]
    if name is not None and name not in offered:
        remedy = suggest(name, offered, f"the ways are {', '.join(offered)}")
        raise RequestError(f"no way to walk stacks is called {name!r}", remedy)


def choose_walk(
    resolved: ResolvedRequest, walks: Sequence[Walk], registry: Registry, probes: ProbeTable
) -> WalkChoice | None:
    """Choose how a resolved request's stacks are walked, None where its events carry none.

    Where nobody forces a way it is the first that the machine has, that is collected and that suits the target; where
    nothing that was asked shows stacks, none is walked. Raises MachineRefused for a way that this machine lacks,
    NotCollected for one that nothing installed walks.
    """
    if not resolved.collector.reads_stacks:
        return None
    asked = resolved.request.stack or AUTO
    is_shown = any(emit.name in _SHOWING for emit in resolved.emits) or bool(resolved.stack_keys)
    if asked == AUTO and not is_shown:
        return WalkChoice(NONE, asked, (Link(NONE, LinkState.SELECTED, "nothing that was asked shows stacks"),))
    links = list(_walk(resolved, walks, asked, registry, probes))
    chosen = links[-1] if links and links[-1].state is LinkState.AVAILABLE else None
    if chosen is None or (chosen.backend == NONE and is_shown and asked == AUTO):
        raise _refuse(resolved, links)
    chain = (*links[:-1], attrs.evolve(chosen, state=LinkState.SELECTED))
    degrades = next(walk.degrades for walk in walks if walk.id == chosen.backend)
    return WalkChoice(chosen.backend, asked, chain, None if chosen.backend == NONE else degrades)


def _walk(
    resolved: ResolvedRequest, walks: Iterable[Walk], asked: str, registry: Registry, probes: ProbeTable
) -> Iterator[Link]:
    """Judge the ways in order, up to the first that serves; a way that is forced alone, whatever it suits."""
    for walk in walks:
        if asked in (AUTO, walk.id):
            link = _judge(walk, resolved, registry, probes)
            if link.state is LinkState.AVAILABLE and asked == AUTO:
                link = _suit(link, registry.stacks[walk.id].reference, resolved, registry, probes)
            yield link
            if link.state is LinkState.AVAILABLE:
                return


def _judge(walk: Walk, resolved: ResolvedRequest, registry: Registry, probes: ProbeTable) -> Link:
    """Say the first thing that stands between a walk and the machine: what it lacks, else what nobody wrote."""
    target = resolved.target
    answers = [(need, probes.ask(need, target.kind, resolved.bound, target.tasks)) for need in walk.requires]
    worst = next((pair for state in _WORST_FIRST for pair in answers if pair[1].state is state), None)
    uncollected = _find_uncollected(walk, resolved.collector, registry)
    if worst is not None and (worst[1].state is not State.UNKNOWN or uncollected is None):
        return Link(walk.id, LinkState(worst[1].state.value), _phrase(worst[0].text, worst[1]), worst[1].remedy)
    if uncollected is not None:
        return Link(walk.id, LinkState.UNCOLLECTED, uncollected)
    return Link(walk.id, LinkState.AVAILABLE)


def _phrase(need: str, probe: Probe) -> str:
    return need if probe.reason is None else f"{need}: {probe.reason}"


def _find_uncollected(walk: Walk, collector: CollectorRow, registry: Registry) -> str | None:
    """Return why nothing walks so for a collector, None where something does."""
    row = registry.stacks.get(walk.id)
    if row is None or row.role != ROLE:
        return walk.uncollected or "no installed plugin walks so"
    if walk.id not in collector.walks:
        return f"{collector.source} through {collector.backend} walks by {', '.join(collector.walks)}"
    return None


def _suit(link: Link, reference: str, resolved: ResolvedRequest, registry: Registry, probes: ProbeTable) -> Link:
    """Ask a walk whether it suits the target. One whose answer cannot be had does not."""
    target = _find_program(resolved.target)
    context = ProbeContext(target.kind, probes.sysroot, resolved.bound and resolved.bound.place, target.tasks)
    try:
        misfit: Any = registry.load(reference).find_misfit(target, context, resolved.mode)
    except PLUGIN_FAULTS as error:  # a guarded plugin call
        misfit = f"asking whether it suits the target raised {type(error).__name__}: {error}"
    return link if misfit is None else attrs.evolve(link, state=LinkState.TARGET, reason=str(misfit))


def _find_program(target: Target) -> Target:
    """Return a target whose program is named by its file, where one of its name is found."""
    if target.kind == "launch":
        from omn_core.run.search import get_program

        with contextlib.suppress(MachineRefused):  # the launch says so
            return Target("launch", (get_program(target.value[0]), *target.value[1:]))
    return target


def _refuse(resolved: ResolvedRequest, links: Sequence[Link]) -> Refused:
    """Name whose gap it is: the machine's where it lacks what something installed would use, else the build's."""
    reasons = "; ".join(f"{link.backend}: {link.reason}" for link in links if link.reason is not None)
    remedy = next((link.remedy for link in links if link.remedy is not None), None)
    if links and all(link.state is LinkState.UNCOLLECTED for link in links):
        return NotCollected(f"nothing installed here walks the stacks of {resolved.entry.id} so ({reasons})", remedy)
    return MachineRefused(f"this machine cannot walk the stacks of {resolved.entry.id} so ({reasons})", remedy)
