"""What observers of a run are told."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import attrs

from omn_core.model.batch import Batch
from omn_core.model.resolved import ResolvedSession


class Moment(enum.Enum):
    """The moments of a run that are announced, in their order; TICK repeats."""

    RESOLVED = "resolved"
    LAUNCHED = "launched"
    ATTACHED = "attached"
    TICK = "tick"
    CLOSED = "closed"


@attrs.frozen(eq=False, repr=False)
class RunEvent:
    """One announcement: its moment, its instant (CLOCK_MONOTONIC nanoseconds), the session, the program's pid if any.

    At a tick, `batches` holds what each request read, by the request's index; elsewhere it is empty. `lost` is what the
    run itself has counted as lost so far: readings swallowed, and events past the memory bound. What collectors count
    is in their results.
    """

    moment: Moment
    ts_ns: int
    session: ResolvedSession
    pid: int | None = None
    batches: Sequence[tuple[int, Batch]] = ()
    lost: int = 0
