"""What a recording knows while it is put together: its sessions, when each was open, and what was missing."""

from __future__ import annotations

import attrs

from omn_agent.harness import Harness
from omn_agent.importing.session import Session
from omn_agent.recorder.clock import Timeline
from omn_agent.recording import Prompt


@attrs.define
class Window:
    """A time in which a session was open. `pid` is the process that said so, None where none did."""

    opened_ns: int
    closed_ns: int | None = None
    reason: str | None = None
    pid: int | None = None
    is_resumed: bool = False


@attrs.define
class Findings:
    """A recording under construction: every time in it is CLOCK_MONOTONIC.

    Session files were read first: their sessions stand in `sessions`. Then the events of each source are applied, which
    say more exactly when something was, and what no file holds. `end_ns` is when the recording stopped, or the last
    that the journal of one that was cut off tells of (`is_cut`).
    """

    harness: Harness
    has_content: bool
    timeline: Timeline
    start_ns: int
    end_ns: int
    is_cut: bool = False
    sessions: dict[str, Session] = attrs.field(factory=dict)
    windows: dict[str, list[Window]] = attrs.field(factory=dict)
    processes: dict[str, int] = attrs.field(factory=dict)
    """The process that each session is in, where that is known."""
    health: dict[str, int] = attrs.field(factory=dict)
    placed: list[Prompt] = attrs.field(factory=list)
    """The prompts of which an event has said when they began."""

    def get_session(self, session_id: str, parent: str | None = None) -> Session:
        """Return a session, added where no file told of it; a parent that was not known is taken."""
        session = self.sessions.setdefault(session_id, Session(session_id))
        if session.parent_session is None and parent != session_id:
            session.parent_session = parent
        return session

    def count(self, what: str, number: int = 1) -> None:
        """Add to a figure of the recording's health, which stands in the first capture's span."""
        if number:
            self.health[what] = self.health.get(what, 0) + number
