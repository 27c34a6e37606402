"""A request as the command that asks it, in the words of a shell."""

from __future__ import annotations

import shlex

from omn_core.model.request import Request
from omn_core.model.target import Target
from omn_core.names import render_printable
from omn_core.session.duration import render_duration


def render_command(request: Request, launch: tuple[str, ...] | None = None, duration_ns: int | None = None) -> str:
    """Return `omn SOURCE -m MODE ...` on one line, with its target, the program beside it and the window's length.

    What stacks are, how a sample is taken and which backend is pinned stand in it too; a window of the request's own
    and its id have no spelling on a command line.
    """
    target = request.target
    program = launch if target is None or target.kind != "launch" else target.value
    words = [request.source, *_list_flags(request)]
    if duration_ns is not None:
        words += ["-d", render_duration(duration_ns)]
    spelled = ["omn", *map(shlex.quote, words)]
    if target is not None and target.kind != "launch":
        spelled.append(_spell(target))
    if program is not None:
        spelled.append(f"-- {shlex.join(program)}")
    return render_printable(" ".join(spelled))


def _spell(target: Target) -> str:
    value = target.value
    return str(target) if not isinstance(value, str) else f"--{target.kind} {shlex.quote(value)}"


def _list_flags(request: Request) -> list[str]:
    given = {
        "--keys": ",".join(request.keys) or None,
        "--filter": request.filter,
        "--value": request.value,
        "--interval": None if request.interval_ns is None else render_duration(request.interval_ns),
        "--backend": None if request.backend is None else f"force:{request.backend}",
        "--stack": request.stack,
        "--hz": request.hz,
        "--period": request.period,
        "--symbols": request.symbols,
    }
    flags = [] if request.mode is None else ["-m", request.mode]
    flags += [word for emit in request.emits for word in ("-e", str(emit))]
    return flags + [str(word) for flag, value in given.items() if value is not None for word in (flag, value)]
