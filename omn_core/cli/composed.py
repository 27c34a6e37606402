"""Saying on stderr what a family's name asks, before anything is resolved, and what a cost band came to after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omn_core.cli.streams import complain
from omn_core.model.request import Session

if TYPE_CHECKING:
    from omn_core.model.resolved import ResolvedSession


def say_composition(session: Session) -> None:
    """Write every composed request in its long form; nothing where the requests are a person's own."""
    if session.composition is None:
        return
    from omn_core.session.composed import iter_composition

    complain("\n".join(iter_composition(session, session.composition)))


def say_band(resolved: ResolvedSession) -> None:
    """Name what this machine cannot serve of a composition, and what it serves only above the band."""
    say_refused(resolved.session)
    for request in resolved.requests:
        if request.over_band is not None:
            complain(
                f"omn: {request.entry.id} is served here through {request.backend.id}, which declares "
                f"{request.backend.cost}: more than the band {request.over_band}"
            )


def say_refused(session: Session, said: Session | None = None) -> None:
    """Name what this machine refused of a composition, apart from what `said`, the session before its run, holds."""
    if session.composition is None:
        return
    from omn_core.session.composed import render_left_out

    known = 0 if said is None or said.composition is None else len(said.composition.refused)
    for left_out in session.composition.refused[known:]:
        complain(f"omn: left out {render_left_out(left_out)}")
