"""A session that asks the same thing wherever it is run: with what was defaulted, as a file can spell it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

from omn_core.errors import RequestError
from omn_core.model.request import Session

if TYPE_CHECKING:
    from omn_core.model.resolved import ResolvedRequest
    from omn_core.resolve.complete import Completed


def write_out(session: Session, completed: tuple[Completed, ...] | tuple[ResolvedRequest, ...]) -> Session:
    """Return the session with what was defaulted written out, so that it asks the same thing wherever it is run."""
    requests = tuple(
        attrs.evolve(
            one.request,
            mode=one.mode,
            emits=one.emits,
            target=one.request.target or one.target,  # what was asked: a container, whatever cgroup it has here
            interval_ns=one.interval_ns,
        )
        for one in completed
    )
    return attrs.evolve(session, requests=requests)


def refuse_unspellable(session: Session) -> None:
    """Raise RequestError where a session file, which is UTF-8, would ask something else than this session does."""
    from omn_core.session.shape import make_plain_session

    text = json.dumps(make_plain_session(session), ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            f"a session file is UTF-8, and this session holds bytes that are not: {text[error.start : error.end]!r}",
            "give the program such an argument through a script that the session launches",
        ) from error
