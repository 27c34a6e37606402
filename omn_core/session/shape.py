"""A session as its file spells it, and its way to and from the model."""

from __future__ import annotations

from typing import Any, NewType

import attrs
import cattrs

from omn_core.located import Located, LocatedError
from omn_core.model.request import EmitSpec, Request, RequestWindow, Session, parse_emit
from omn_core.model.target import Target, parse_arguments, parse_target
from omn_core.session.duration import parse_duration, render_duration
from omn_core.structure import make_converter, structure

Duration = NewType("Duration", int)
Arguments = NewType("Arguments", tuple[str, ...])

EXTRAS = ("joins", "decompose", "record", "escalate")
"""Blocks that a session may hold and that plugins serve."""


@attrs.frozen
class WrittenWindow:
    """The `window:` of a request: offsets from the run's opening, or the layer that switches it on."""

    start: Duration | None = None
    stop: Duration | None = None
    on: str | None = None


@attrs.frozen
class WrittenRequest:
    """One item of `requests:`."""

    source: str
    id: str | None = None
    mode: str | None = None
    emits: tuple[EmitSpec, ...] = ()
    keys: tuple[str, ...] = ()
    target: Target | None = None
    filter: str | None = None
    value: str | None = None
    interval: Duration | None = None
    backend: str | None = None
    stack: str | None = None
    hz: int | None = None
    period: int | None = None
    symbols: str | None = None
    window: WrittenWindow | None = None


@attrs.frozen
class WrittenSession:
    """The whole file."""

    requests: tuple[WrittenRequest, ...]
    launch: Arguments | None = None
    duration: Duration | None = None
    budget: float | None = None
    cost: str | None = None
    repeat: int | None = None
    program_stderr: str | None = None
    program_stdout: str | None = None
    joins: Any = None
    decompose: Any = None
    record: Any = None
    escalate: Any = None


def _make_session_converter() -> cattrs.Converter:
    converter = make_converter()
    converter.register_structure_hook(EmitSpec, lambda value, _: parse_emit(_text(value)))
    converter.register_structure_hook(Target, lambda value, _: parse_target(value))
    converter.register_structure_hook_func(lambda kind: kind is Duration, lambda value, _: parse_duration(value))
    converter.register_structure_hook_func(lambda kind: kind is Arguments, lambda value, _: parse_arguments(value))
    converter.register_structure_hook_func(lambda kind: kind is Any, lambda value, _: value)
    converter.register_structure_hook_func(
        lambda kind: getattr(kind, "__args__", None) == (Duration, type(None)),
        lambda value, _: None if value is None else parse_duration(value),
    )
    converter.register_structure_hook_func(
        lambda kind: getattr(kind, "__args__", None) == (Arguments, type(None)),
        lambda value, _: None if value is None else parse_arguments(value),
    )
    return converter


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"an emit is a text such as summary or topk:10@comm, not {value!r}")
    return value


def make_session(located: Located) -> Session:
    """Make the model's session of a file's values. Raises LocatedError with the place of what is wrong."""
    if not isinstance(located.value, dict):
        raise LocatedError(located.line(()), "a session is a mapping with the field 'requests'")
    written = structure(_make_session_converter(), located, WrittenSession)
    if not written.requests:
        raise LocatedError(located.line(("requests",)), "requests: a session asks at least one thing")
    extras = {name: getattr(written, name) for name in EXTRAS if getattr(written, name) is not None}
    return Session(
        requests=tuple(_make_request(request) for request in written.requests),
        launch=written.launch,
        duration_ns=written.duration,
        budget_percent=written.budget,
        cost_band=written.cost,
        repeat=written.repeat,
        program_stderr=written.program_stderr,
        program_stdout=written.program_stdout,
        extras=extras,
    )


def _make_request(written: WrittenRequest) -> Request:
    plain: dict[str, Any] = attrs.asdict(written, recurse=False)
    plain["interval_ns"] = plain.pop("interval")
    if written.window is not None:
        plain["window"] = RequestWindow(written.window.start, written.window.stop, written.window.on)
    return Request(**plain)


def make_plain_request(request: Request) -> dict[str, Any]:
    """Return a request as a session file spells it, without the fields nobody set."""
    window = request.window
    plain: dict[str, Any] = {
        "id": request.id,
        "source": request.source,
        "mode": request.mode,
        "emits": [str(emit) for emit in request.emits],
        "keys": list(request.keys),
        "target": None if request.target is None else request.target.to_plain(),
        "filter": request.filter,
        "value": request.value,
        "interval": _optional_duration(request.interval_ns),
        "backend": request.backend,
        "stack": request.stack,
        "hz": request.hz,
        "period": request.period,
        "symbols": request.symbols,
        "window": None
        if window is None
        else _without_empty(
            {
                "start": _optional_duration(window.start_ns),
                "stop": _optional_duration(window.stop_ns),
                "on": window.on,
            }
        ),
    }
    return _without_empty(plain)


def make_plain_session(session: Session) -> dict[str, Any]:
    """Return a session as its file spells it: what `make_session` reads back to an equal one."""
    plain: dict[str, Any] = {
        "launch": None if session.launch is None else list(session.launch),
        "duration": _optional_duration(session.duration_ns),
        "budget": session.budget_percent,
        "cost": session.cost_band,
        "repeat": session.repeat,
        "program_stderr": session.program_stderr,
        "program_stdout": session.program_stdout,
        "requests": [make_plain_request(request) for request in session.requests],
        **session.extras,
    }
    return _without_empty(plain)


def _optional_duration(duration_ns: int | None) -> str | None:
    return None if duration_ns is None else render_duration(duration_ns)


def _without_empty(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if value is not None and value != []}
