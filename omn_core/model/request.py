"""What a person asked. The command line and a session file build these same classes."""

from __future__ import annotations

from typing import Any

import attrs

from omn_core.errors import RequestError
from omn_core.model.target import Target

MODES = ("count", "poll", "snapshot", "sample", "trace")
"""One closing figure; a reading a tick; one reading; one event a period, weighted by it; one per event."""

POLLED_MODES = frozenset({"poll"})

READING_MODES = frozenset({"poll", "snapshot"})
"""Those whose events are omn's own readings: how many there are says nothing of what they are about."""


@attrs.frozen
class EmitSpec:
    """One emit as asked: `topk:10@comm` is the emit topk, of 10 rows, by the attribute comm."""

    name: str
    count: int | None = None
    attribute: str | None = None

    def __str__(self) -> str:
        count = "" if self.count is None else f":{self.count}"
        attribute = "" if self.attribute is None else f"@{self.attribute}"
        return f"{self.name}{count}{attribute}"


def parse_emit(text: str) -> EmitSpec:
    """Read `NAME[:N][@ATTRIBUTE]`. Raises RequestError naming what is wrong with it."""
    head, at, attribute = text.partition("@")
    name, colon, number = head.partition(":")
    if not name or (at and not attribute):
        raise RequestError(f"emit {text!r} is not NAME, NAME:N, NAME@ATTRIBUTE or NAME:N@ATTRIBUTE")
    if colon and not (number.isascii() and number.isdigit() and 0 < int(number) < 1_000_000):
        raise RequestError(f"emit {text!r}: {number!r} is no number of rows from 1 to 999999")
    return EmitSpec(name, int(number) if colon else None, attribute or None)


@attrs.frozen
class RequestWindow:
    """When one request watches inside the run: offsets from its opening in nanoseconds, or while a layer is `on`."""

    start_ns: int | None = None
    stop_ns: int | None = None
    on: str | None = None


@attrs.frozen
class Request:
    """One question: a source, how to read it, what to make of it, and about what. None is not said."""

    source: str
    mode: str | None = None
    emits: tuple[EmitSpec, ...] = ()
    keys: tuple[str, ...] = ()
    target: Target | None = None
    filter: str | None = None
    value: str | None = None
    interval_ns: int | None = None
    backend: str | None = None
    stack: str | None = None
    hz: int | None = None
    period: int | None = None
    symbols: str | None = None
    window: RequestWindow | None = None
    id: str | None = None


@attrs.frozen
class LeftOut:
    """A request that a family's name would ask and this run does not, with the reason in one clause."""

    request: Request
    reason: str


@attrs.frozen
class Composition:
    """Where a session's requests come from: a family's name, and the band of its default that was composed.

    `said` are sentences on how the band and the target were chosen. `unserved` do not serve the target; `refused` are
    what this machine or this build cannot serve, left out because something else remains.
    """

    family: str
    band: str
    said: tuple[str, ...] = ()
    unserved: tuple[LeftOut, ...] = ()
    refused: tuple[LeftOut, ...] = ()


@attrs.frozen
class Session:
    """One run: its requests, the program that is its window if any, and what bounds and shapes it.

    `launch` is a program beside machine targets; a request whose own target is a launch needs none. `cost_band` is the
    band that a backend should keep where a later one of its chain does. `extras` holds the blocks that a plugin serves
    (joins, record, escalate, decompose), as plain values. `composition` says that a family's name asked the requests,
    None where they are a person's own: it is of this invocation, and no session file holds it.
    """

    requests: tuple[Request, ...]
    launch: tuple[str, ...] | None = None
    duration_ns: int | None = None
    budget_percent: float | None = None
    cost_band: str | None = None
    repeat: int | None = None
    program_stderr: str | None = None
    program_stdout: str | None = None
    extras: dict[str, Any] = attrs.field(factory=dict)
    composition: Composition | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The source of each request."""
        return tuple(request.source for request in self.requests)

    @property
    def program(self) -> tuple[str, ...] | None:
        """The program this run launches, whichever way it was asked for."""
        if self.launch is not None:
            return self.launch
        return next(
            (
                request.target.value
                for request in self.requests
                if request.target is not None and request.target.kind == "launch"
            ),
            None,
        )

    def leave_out(self, refused: tuple[LeftOut, ...]) -> Session:
        """Return the session of a composition without these requests, which the composition names instead."""
        if self.composition is None or not refused:
            return self
        gone = [one.request for one in refused]
        return attrs.evolve(
            self,
            requests=tuple(request for request in self.requests if request not in gone),
            composition=attrs.evolve(self.composition, refused=(*self.composition.refused, *refused)),
        )
