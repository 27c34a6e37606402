"""Which of a default's requests are asked of which kind of target: what is collected there within the band."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from omn_core.catalog.asked import answers
from omn_core.model.catalog import BANDS, Catalog
from omn_core.model.request import Request
from omn_core.model.target import KINDS
from omn_core.plugins import Registry


def spell_kind(kind: str) -> str:
    """Return how the command line names a kind of target."""
    return "-- PROGRAM" if kind == "launch" else f"--{kind}"


@attrs.frozen
class Fit:
    """What is installed, and the dearest band that is allowed."""

    catalog: Catalog
    registry: Registry
    band: str

    def find_misfit(self, request: Request, kind: str) -> str | None:
        """Return why a request is not asked of a kind of target, None where something here collects it within the band.

        Whether this machine can is not asked.
        """
        entry = self.catalog.entries[request.source]
        served = [name for name, reason in entry.targets.items() if reason is None]
        asked = "cgroup" if kind == "container" and "container" not in entry.targets else kind
        if asked not in served:
            return entry.targets.get(asked) or f"it serves {', '.join(map(spell_kind, served))}"
        mode = request.mode or ""
        fitting = [
            backend
            for backend in entry.chain
            if asked in entry.targets_of(backend) and answers(request, mode, entry, backend)
        ]
        if not fitting:
            keys = f" by {' and '.join(request.keys)}" if request.keys else ""
            return f"no mechanism of it answers mode {mode}{keys} on {spell_kind(kind)}"
        collected = [backend for backend in fitting if (entry.id, backend.id) in self.registry.collectors]
        if not collected:
            why = fitting[0].uncollected or "no installed plugin does"
            return f"nothing collects it on {spell_kind(kind)} yet: {why}"
        cheapest = min(collected, key=lambda backend: BANDS.index(backend.cost))
        if BANDS.index(cheapest.cost) > BANDS.index(self.band):
            return f"on {spell_kind(kind)} it costs {cheapest.cost} at the least ({cheapest.id})"
        return None

    def list_kinds(self, requests: Iterable[Request]) -> tuple[str, ...]:
        """Return the kinds of target that at least one of some requests is asked of, in the order of their own list."""
        asked = list(requests)
        return tuple(kind for kind in KINDS if any(self.find_misfit(request, kind) is None for request in asked))
