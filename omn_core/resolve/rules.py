"""Rules over a session once every backend is known. They refuse before anything is launched, as the request's."""

from __future__ import annotations

from omn_core.errors import NotCollected, RequestError
from omn_core.model.request import Session
from omn_core.model.resolved import ResolvedRequest, ResolvedSession


def check_request(request: ResolvedRequest, session: Session) -> None:
    """Apply the rules of one request. Raises RequestError or NotCollected for the first that is broken."""
    _check_stacks(request)
    check_processes(request)
    _check_launch(request, session)


def _check_stacks(request: ResolvedRequest) -> None:
    """How stacks are walked or named means nothing where the chosen collector reads none: it is never ignored."""
    asked = request.request.stack is not None or request.request.symbols is not None
    if asked and not request.collector.reads_stacks:
        raise NotCollected(
            f"{request.entry.id} is served by {request.backend.id}, whose events carry no stacks to walk or to name",
            "leave --stack and --symbols out",
        )
    if request.request.symbols not in (None, *request.collector.symbols):
        raise NotCollected(
            f"{request.entry.id} through {request.backend.id} takes names from "
            f"{' or '.join(request.collector.symbols)}, and never from {request.request.symbols}"
        )
    if request.request.symbols == "debuginfod" and request.walk is not None and request.walk.walk == "none":
        raise NotCollected(
            f"nothing of {request.entry.id} that was asked has stacks to name, and debuginfod would not be asked",
            "ask an emit or a key that shows stacks, or leave --symbols out",
        )


def check_processes(request: ResolvedRequest) -> None:
    """Raise RequestError where several pids are named, and the collector does not follow several."""
    if request.target.kind == "pid" and len(request.target.value) > 1 and not request.collector.several_processes:
        raise RequestError(
            f"{request.entry.id} through {request.backend.id} follows one process, and {request.target} names "
            f"{len(request.target.value)}"
        )


def _check_launch(request: ResolvedRequest, session: Session) -> None:
    """One reading of a launched program needs an instant to be taken at: the end of a duration, or a window's own."""
    if request.mode != "snapshot" or request.target.kind != "launch":
        return
    if session.duration_ns is None and request.request.window is None:
        raise RequestError(
            f"{request.entry.id} in mode snapshot reads a launched program once, and nothing says when",
            "say when with --duration, or in a session with a window of its own",
        )


def check_session(resolved: ResolvedSession) -> None:
    """Raise RequestError where nothing ends the run: a program, a process, a duration, or nothing to wait for.

    A request whose own window stops is waited for until then.
    """
    session = resolved.session
    if session.duration_ns is not None or session.program is not None:
        return
    lasting = [request for request in resolved.requests if request.mode != "snapshot"]
    waiting = [request for request in lasting if not _stops(request)]
    if waiting and not any(request.target.kind in ("pid", "tid") for request in lasting):
        raise RequestError(
            f"nothing ends this run: {waiting[0].target} does not end by itself",
            "say how long with --duration, or launch a program beside it with '-- PROGRAM'",
        )


def _stops(request: ResolvedRequest) -> bool:
    window = request.request.window
    return window is not None and window.stop_ns is not None
