"""What is asked of the machine beside a recording: a person's session about the harness, and its processes' lives."""

from __future__ import annotations

from pathlib import Path

import attrs

from omn_agent.machine.answers import make_answers
from omn_core.api import Beside, EmitSpec, Request, RequestError, Session, Target, read_session

LIVES = {"proc.fork": None, "proc.exec": "netlink:proc", "proc.exit": None}
"""The sources that tell of processes, on which the join of tools with what they ran stands, and the backend that one
must have: of the environment that a program was executed with the process connector alone knows."""

_ABOUT_PROCESSES = frozenset({"pid", "tid", "launch"})


READY = Path(__file__).with_name("sessions")
"""The sessions that come with omn-agent, each named by a word, which no session file's name can be: those end in what
says their format."""


def read_asked(place: str) -> Session:
    """Read a session file for a recording, or the ready one of that name.

    Raises RequestError where it cannot be one: the program and the window of a recording are the harness.
    """
    ready = READY / f"{place}.yaml"
    session = read_session(str(ready) if "/" not in place and ready.is_file() else place)
    for what, value in (("launch", session.launch), ("repeat", session.repeat)):
        if value is not None:
            raise RequestError(f"{place!r} has a {what!r}, and a recording's program is the harness", "leave it out")
    for request in session.requests:
        if request.target is not None and request.target.kind in _ABOUT_PROCESSES:
            raise RequestError(
                f"{place!r} asks {request.source} of {request.target}, and a recording's process is the harness",
                "leave the target out",
            )
    return session


def make_beside(session: Session, pid: int, has_content: bool) -> Beside:
    """Return what is run beside a recording: a request without a target is about the harness and all it starts."""
    harness = Target("pid", (pid,))
    requests = tuple(
        attrs.evolve(request, target=harness) if request.target is None else request for request in session.requests
    )
    wished = tuple(
        Request(source, mode="trace", emits=(EmitSpec("raw"),), target=harness, backend=backend)
        for source, backend in LIVES.items()
    )
    session = attrs.evolve(session, requests=requests)
    asked = len(requests)
    return Beside(session, wished, lambda document, left_out: make_answers(document, left_out, asked, has_content))
