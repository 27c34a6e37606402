"""A whole session: every request completed and resolved, the rules that hold over them together, one verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from omn_core.errors import NotCollected, Refused, RequestError, Whose
from omn_core.model.catalog import Catalog
from omn_core.model.request import Request, RequestWindow, Session
from omn_core.model.resolved import ResolvedSession
from omn_core.nearest import suggest
from omn_core.plugins import Registry
from omn_core.resolve.chain import resolve
from omn_core.resolve.complete import Completed, complete
from omn_core.resolve.probes import ProbeTable
from omn_core.resolve.repeat import iter_repeat_faults
from omn_core.resolve.rules import check_resolved_session
from omn_core.session.duration import render_duration

T = TypeVar("T")
U = TypeVar("U")

_COST_BANDS = ("low", "med", "high")
_FIRST_TO_FIX = (Whose.REQUEST, Whose.BUILD, Whose.MACHINE)


def validate_session(session: Session, catalog: Catalog, registry: Registry) -> tuple[Completed, ...]:
    """Check everything that does not depend on the machine. Raises Refused, every request's gap named at once."""
    _raise_all(_iter_session_faults(session))
    completed = _each(session.requests, lambda request: complete(request, catalog, registry), session)
    _raise_all(iter_repeat_faults(session, completed))
    return completed


def resolve_session(
    session: Session, catalog: Catalog, registry: Registry, probes: ProbeTable, environment: dict[str, Any]
) -> ResolvedSession:
    """Put every request on its backend. Raises Refused with every gap named, the first to fix deciding the code."""
    completed = validate_session(session, catalog, registry)
    requests = _each(completed, lambda one: resolve(one, registry, probes), session)
    resolved = ResolvedSession(session, requests, environment)
    check_resolved_session(resolved)
    return resolved


def _iter_session_faults(session: Session) -> Iterator[Refused]:
    """Yield what is wrong with the session as a whole, and what nothing installed here does for it."""
    programs = {
        request.target.value
        for request in session.requests
        if request.target is not None and request.target.kind == "launch"
    }
    if len(programs) > 1 or (programs and session.launch is not None):
        yield RequestError("a run launches one program, and this session names two", "give each its own run")
    named = [request.id for request in session.requests if request.id is not None]
    for name in {name for name in named if named.count(name) > 1}:
        yield RequestError(f"two requests are called {name!r}")
    if (session.program_stderr is not None or session.program_stdout is not None) and session.program is None:
        yield RequestError("a file for the program's output means nothing where no program is launched")
    for name in session.extras:
        yield NotCollected(f"the block {name!r} is valid, and nothing installed here serves it")
    if session.repeat is not None and session.repeat < 1:
        yield RequestError(f"a run is made at least once, not {session.repeat} times")
    for what, value, fault in _list_unserved(session):
        if value is not None:
            yield fault or NotCollected(f"{what} is valid, and this build does not do it yet")
    yield from _iter_window_faults(session)


def _list_unserved(session: Session) -> tuple[tuple[str, Any, RequestError | None], ...]:
    """Return what no build of today does, each with its value, and what is wrong with that value on every machine."""
    budget, band = session.budget_percent, session.cost_band
    no_budget = RequestError(f"a budget is a share in percent, above zero, not {budget!r}")
    no_band = RequestError(
        f"no cost band is called {band!r}", suggest(str(band), _COST_BANDS, f"the bands are {', '.join(_COST_BANDS)}")
    )
    return (
        ("a budget", budget, None if budget is None or 0 < budget < math.inf else no_budget),
        ("a cost band", band, None if band in (None, *_COST_BANDS) else no_band),
    )


def _iter_window_faults(session: Session) -> Iterator[Refused]:
    for request in session.requests:
        window = request.window
        if window is None:
            continue
        if window.on is not None:
            yield NotCollected(f"{request.source}: a window 'on {window.on}' needs an escalation, which nothing serves")
        if window.stop_ns is not None and window.stop_ns <= (window.start_ns or 0):
            yield RequestError(f"{request.source}: its window stops before it starts")
        elif session.duration_ns is not None:
            yield from _iter_late_faults(request.source, window, session.duration_ns)


def _iter_late_faults(source: str, window: RequestWindow, duration_ns: int) -> Iterator[Refused]:
    """Yield what of a window lies past the end of the run, where no part of it could be what was asked."""
    for what, offset_ns, is_late in (
        ("starts", window.start_ns, (window.start_ns or 0) >= duration_ns),
        ("stops", window.stop_ns, (window.stop_ns or 0) > duration_ns),
    ):
        if offset_ns is not None and is_late:
            yield RequestError(
                f"{source}: its window {what} {render_duration(offset_ns)} into a run of {render_duration(duration_ns)}"
            )
            return


def _raise_all(faults: Iterable[Refused]) -> None:
    found = list(faults)
    if found:
        raise _combine(found)


def _each(items: tuple[T, ...], function: Callable[[T], U], session: Session) -> tuple[U, ...]:
    done: list[U] = []
    faults: list[tuple[Request, Refused]] = []
    for item, request in zip(items, session.requests, strict=True):
        try:
            done.append(function(item))
        except Refused as refused:
            faults.append((request, refused))
    if faults:
        named = [_name(request, refused) if len(session.requests) > 1 else refused for request, refused in faults]
        raise _combine(named)
    return tuple(done)


def _name(request: Request, refused: Refused) -> Refused:
    name = request.id or request.source
    return Refused(refused.whose, f"{name}: {refused.reason}", refused.remedy)


def _combine(faults: list[Refused]) -> Refused:
    if len(faults) == 1:
        return faults[0]
    whose = next(whose for whose in _FIRST_TO_FIX if any(fault.whose is whose for fault in faults))
    ordered = sorted(faults, key=lambda fault: _FIRST_TO_FIX.index(fault.whose))
    return Refused(whose, f"{len(faults)} things stand in the way:\n" + "\n".join(f"  {fault}" for fault in ordered))
