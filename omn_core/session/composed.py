"""What a family's name asked, as lines for people and as plain values for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omn_core.model.request import Composition, LeftOut, Session
from omn_core.names import render_printable
from omn_core.session.command import render_command


def iter_composition(session: Session, composition: Composition) -> Iterator[str]:
    """Yield the requests in their long form, each a command that asks it alone, and what is not asked, with why."""
    yield f"{composition.family}, at cost {composition.band}, asks"
    for sentence in composition.said:
        yield f"  ({sentence})"
    for request in session.requests:
        yield f"  {render_command(request, session.launch, session.duration_ns)}"
    for sentence in dict.fromkeys(map(render_left_out, composition.unserved)):
        yield f"  not {sentence}"


def render_left_out(left_out: LeftOut) -> str:
    """Return the source that is not asked and the reason, on one line."""
    source = left_out.request.source
    return render_printable(f"{source}: {left_out.reason.removeprefix(f'{source}: ')}")


def make_plain_composition(session: Session) -> dict[str, Any] | None:
    """Return the family, its band, the command of each request and what was left out, None where nothing was composed.

    `unserved` are those whose source does not serve the target, `refused` those that this machine or this build cannot
    serve.
    """
    composition = session.composition
    if composition is None:
        return None
    return {
        "family": composition.family,
        "band": composition.band,
        "said": list(composition.said),
        "commands": [render_command(request, session.launch, session.duration_ns) for request in session.requests],
        "unserved": [_plain(one) for one in composition.unserved],
        "refused": [_plain(one) for one in composition.refused],
    }


def _plain(left_out: LeftOut) -> dict[str, Any]:
    return {"source": left_out.request.source, "mode": left_out.request.mode, "reason": left_out.reason}
