"""Asking the machine, once a session for each requirement."""

from __future__ import annotations

import os

from omn_core.errors import PLUGIN_FAULTS
from omn_core.model.probe import Need, Probe, ProbeContext, State
from omn_core.plugins import Registry


class ProbeTable:
    """The machine's answers so far. A probe that raises reads as unknown, with what it raised."""

    def __init__(self, registry: Registry, sysroot: str | None = None) -> None:
        self._registry = registry
        self._sysroot = sysroot or os.environ.get("OMN_SYSROOT") or "/"
        self._answers: dict[tuple[str, str | None], Probe] = {}

    @property
    def sysroot(self) -> str:
        """The folder that stands for `/`."""
        return self._sysroot

    def ask(self, need: Need, target: str | None = None) -> Probe:
        """Return the answer for a need, for a kind of target (None for a listing)."""
        key = need.text, target
        if key not in self._answers:
            self._answers[key] = self._ask(need, target)
        return self._answers[key]

    def _ask(self, need: Need, target: str | None) -> Probe:
        row = self._registry.requirements.get(need.kind)
        if row is None:
            return Probe(State.UNKNOWN, f"no installed plugin answers the requirement class {need.kind!r}")
        try:
            answer = self._registry.load(row.probe)(need, ProbeContext(target, self._sysroot))
        except PLUGIN_FAULTS as error:  # a guarded plugin call: one of the three places for a broad except
            return Probe(State.UNKNOWN, f"its probe raised {type(error).__name__}: {error}")
        if not isinstance(answer, Probe):
            return Probe(State.UNKNOWN, f"its probe answered {answer!r}, which is no Probe")
        return answer
