"""Binders of places for the tests of resolution: they note each call, and do what the target's name says."""

from __future__ import annotations

from omn_core.api import BoundTarget, MachineRefused, Need, Probe, ProbeContext, State, Target

ASKED: list[str] = []
"""The targets that were bound, in their order."""


def bind(target: Target, context: ProbeContext) -> BoundTarget:
    """Refuse, fail, or find the place that is called as the target is."""
    ASKED.append(target.value)
    if target.value == "refused":
        raise MachineRefused("it is not there")
    if target.value == "broken":
        raise OSError("no words")
    return BoundTarget(Target("cgroup", f"/{target.value}"), target.scope, place=f"place of {target.value}")


def probe(need: Need, context: ProbeContext) -> Probe:
    """Answer missing, with the place it was asked of."""
    return Probe(State.MISSING, f"{context.target} at {context.place}")
