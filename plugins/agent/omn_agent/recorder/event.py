"""What a recorder is told while a harness works, and by whom: the seam between sources of events and the recorder.

A source is prepared once, before the harness is launched; then its descriptor is polled beside all others, and what it
received is taken whenever that is readable. Every event goes to the journal at once. What events mean is said when the
recording is put together, by the row of `correlate.APPLIERS` that the first part of their kind names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs

from omn_agent.harness import Harness


@attrs.frozen
class HarnessEvent:
    """One thing that a harness told of itself.

    `stamp_ns` is CLOCK_MONOTONIC, as near to the thing itself as the source stands: what is known better is in
    the payload. `kind` is `<source>.<event>`, such as `hook.PreToolUse`. `payload` is filtered already, and is
    written to a file as it is: with content off it holds neither a prompt nor an argument's value, and never a
    response's text, a tool's result, a credential or an account.
    """

    harness: Harness
    stamp_ns: int
    session_id: str | None
    kind: str
    payload: Mapping[str, Any]


@attrs.frozen
class Launch:
    """A harness that is to be launched: its arguments (the program first) and its environment as they are so far.

    `folder` is the recording's own, mode 0700, gone when the recording is over: a place for sockets, and for files that
    the harness is pointed at.
    """

    harness: Harness
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    has_content: bool


@attrs.frozen
class Preparation:
    """What a source asks of a launch.

    `environment` is added to the harness's, `arguments` stand right after the program's name. Each sentence of
    `degradations` says what this recording will lack, and why.
    """

    environment: Mapping[str, str] = attrs.field(factory=dict)
    arguments: tuple[str, ...] = ()
    degradations: tuple[str, ...] = ()


class EventSource(Protocol):
    """A way in which events reach a recorder. It is used from one thread."""

    def prepare(self, launch: Launch) -> Preparation:
        """Open what the harness will speak to, before it is launched. Raises MachineRefused where that fails."""

    def fileno(self) -> int:
        """Return the descriptor that is readable when there is something to receive; one for the source's whole life.

        A source that has several (a listener and its connections) has an epoll of its own: one epoll can wait for
        another.
        """

    def receive(self) -> Iterable[HarnessEvent]:
        """Return what arrived, without waiting. Called when the descriptor is readable, each second, and at the end."""

    def count_losses(self) -> Mapping[str, int]:
        """Return how many events were lost so far, by the reason."""

    def list_degradations(self) -> Sequence[str]:
        """Return, at the end, what turned out to be missing: a source that stayed silent says so here."""

    def close(self) -> None:
        """Close everything, whatever `prepare` came to."""
