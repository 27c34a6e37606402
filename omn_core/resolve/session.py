"""A whole session: every request completed and resolved, the rules that hold over them together, one verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import attrs

from omn_core.errors import NotCollected, Refused, RequestError, combine_refusals, name_refusal
from omn_core.model.catalog import Catalog
from omn_core.model.family import find_band_fault
from omn_core.model.request import LeftOut, Request, RequestWindow, Session
from omn_core.model.resolved import ResolvedRequest, ResolvedSession
from omn_core.plugins import Registry
from omn_core.resolve.chain import resolve
from omn_core.resolve.complete import Completed, complete
from omn_core.resolve.probes import ProbeTable
from omn_core.resolve.repeat import iter_repeat_faults
from omn_core.resolve.rules import check_request, check_session
from omn_core.session.duration import render_duration

T = TypeVar("T")
U = TypeVar("U")


@attrs.frozen(repr=False)
class ValidSession:
    """A session that is right on any machine, and each of its requests with nothing left open."""

    session: Session
    completed: tuple[Completed, ...]


def validate_session(session: Session, catalog: Catalog, registry: Registry) -> ValidSession:
    """Check everything that does not depend on the machine. Raises Refused, every request's gap named at once.

    What a family's name composed and nothing installed here answers is left out, as long as something remains.
    """
    _raise_all(_iter_session_faults(session))

    def settle(request: Request) -> Completed:
        completed = complete(request, catalog, registry)
        if session.budget_percent is not None:
            from omn_core.resolve.ladder import check_rungs

            check_rungs(completed)
        if session.composition is not None:
            _raise_all(iter_repeat_faults(session, (completed,)))
        return completed

    session, completed = _each(session.requests, settle, session)
    _raise_all(iter_repeat_faults(session, completed))
    return ValidSession(session, completed)


def resolve_session(
    valid: ValidSession, registry: Registry, probes: ProbeTable, environment: dict[str, Any]
) -> ResolvedSession:
    """Put every request on its backend. Raises Refused with every gap named, the first to fix deciding the code.

    What a family's name composed and this machine cannot serve is left out, as long as something remains.
    """

    def settle(completed: Completed) -> ResolvedRequest:
        resolved = resolve(completed, registry, probes, valid.session.cost_band)
        check_request(resolved, valid.session)
        if valid.session.budget_percent is None:
            return resolved
        from omn_core.resolve.ladder import add_rungs

        return add_rungs(resolved, completed, registry, probes)

    session, requests = _each(valid.completed, settle, valid.session)
    resolved = ResolvedSession(session, requests, environment)
    check_session(resolved)
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
    band_fault = find_band_fault(session.cost_band)
    if band_fault is not None:
        yield band_fault
    budget = session.budget_percent
    if budget is not None and not 0 < budget < math.inf:
        yield RequestError(f"a budget is a share in percent, above zero, not {budget!r}")
    yield from _iter_window_faults(session)


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
        raise combine_refusals(found)


def _each(items: tuple[T, ...], function: Callable[[T], U], session: Session) -> tuple[Session, tuple[U, ...]]:
    """Do something for each request. Returns what came of it, and the session of the requests that were kept."""
    done: list[U] = []
    faults: list[tuple[Request, Refused]] = []
    for item, request in zip(items, session.requests, strict=True):
        try:
            done.append(function(item))
        except Refused as refused:
            faults.append((request, refused))
    if faults and (session.composition is None or not done):
        if len(session.requests) > 1:
            faults = [(request, name_refusal(request.id or request.source, refused)) for request, refused in faults]
        raise combine_refusals([refused for _, refused in faults])
    left_out = tuple(LeftOut(request, str(refused)) for request, refused in faults)
    return session.leave_out(left_out), tuple(done)
