"""Asking the machine, once a session for each requirement."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from omn_core.errors import PLUGIN_FAULTS, NotCollected, Refused
from omn_core.model.probe import Need, Probe, ProbeContext, State
from omn_core.model.target import PLACES, Target
from omn_core.plugins import Registry
from omn_core.resolve.targets import bind_target

if TYPE_CHECKING:
    from omn_core.model.collector import BoundTarget


class ProbeTable:
    """The machine's answers so far. A probe that raises reads as unknown, with what it raised."""

    def __init__(self, registry: Registry, sysroot: str | None = None) -> None:
        self._registry = registry
        self._sysroot = sysroot or os.environ.get("OMN_SYSROOT") or "/"
        self._answers: dict[tuple[str, str | None, Target | None, tuple[int, ...]], Probe] = {}
        self._places: dict[Target, BoundTarget | Refused] = {}

    @property
    def sysroot(self) -> str:
        """The folder that stands for `/`."""
        return self._sysroot

    def find_place(self, target: Target) -> BoundTarget | None:
        """Find a target that stands still, once a session; None for a process, which the run that needs it holds.

        Raises as `bind_target` does, a refusal again for each request that asks.
        """
        if target.kind not in PLACES:
            return None
        if target not in self._places:
            try:
                self._places[target] = bind_target(target, self._registry, self._sysroot)
            except Refused as refused:
                self._places[target] = refused
        found = self._places[target]
        if isinstance(found, Refused):
            raise found
        return found

    def ask(
        self,
        need: Need,
        target: str | None = None,
        bound: BoundTarget | None = None,
        tasks: tuple[int, ...] = (),
    ) -> Probe:
        """Return the answer for a need, for a kind of target: None for a listing.

        Where the target was found, and which tasks it names, are part of the question: what a user may do to one
        process is not what they may do to another.
        """
        key = need.text, target, None if bound is None else bound.target, tasks
        if key not in self._answers:
            self._answers[key] = self._ask(need, ProbeContext(target, self._sysroot, bound and bound.place, tasks))
        return self._answers[key]

    def _ask(self, need: Need, context: ProbeContext) -> Probe:
        row = self._registry.requirements.get(need.kind)
        if row is None:
            return Probe(State.UNKNOWN, f"no installed plugin answers the requirement class {need.kind!r}")
        try:
            answer = self._registry.load(row.probe)(need, context)
        except NotCollected:  # its own build's, which no other mechanism makes good
            raise
        except PLUGIN_FAULTS as error:  # a guarded plugin call: one of the three places for a broad except
            return Probe(State.UNKNOWN, f"its probe raised {type(error).__name__}: {error}")
        if not isinstance(answer, Probe):
            return Probe(State.UNKNOWN, f"its probe answered {answer!r}, which is no Probe")
        return answer
