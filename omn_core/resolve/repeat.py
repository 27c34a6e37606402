"""What a session must be to be run several times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omn_core.errors import RequestError
from omn_core.model.request import Session
from omn_core.resolve.complete import Completed


def iter_repeat_faults(session: Session, completed: Sequence[Completed]) -> Iterator[RequestError]:
    """Iterate over what keeps a session from being repeated; over nothing where nobody asked for it.

    Each run gives one figure a series, or a profile; each run ends by itself; and raw events of every run would be
    held until the last.
    """
    if session.repeat is None:
        return
    for one in completed:
        emits = [emit.name for emit in one.emits if emit.attribute is None or emit.name == "stack"]
        name = one.request.id or one.entry.id
        if not {"summary", "count", "stack"} & set(emits):
            asked = ", ".join(map(str, one.emits))
            yield RequestError(
                f"{name}: a spread over runs is of one figure a run, and {asked} gives none", "add --emit summary"
            )
        if "raw" in emits:
            yield RequestError(f"{name}: raw events are kept of a single run", "leave out --emit raw, or -r")
    if session.program is None and session.duration_ns is None and any(_is_endless(one) for one in completed):
        yield RequestError("nothing ends a run, so that none could follow it", "give each run's length with --duration")


def _is_endless(completed: Completed) -> bool:
    window = completed.request.window
    return completed.mode != "snapshot" and (window is None or window.stop_ns is None)
