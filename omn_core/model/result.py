"""A run's answer: one document, everything that stands between its numbers and the truth included.

The names and nesting are those other programs read (`docs/results.md`); `omn_core.store` writes them. Times are
CLOCK_MONOTONIC nanoseconds, durations nanoseconds, sizes bytes, shares 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from omn_core.model.batch import Batch
from omn_core.model.losses import Losses
from omn_core.model.resolved import ResolvedRequest, ResolvedSession
from omn_core.model.rows import EmitRow
from omn_core.model.stacks import Stacks
from omn_core.model.watched import Adopted, Window


@attrs.frozen
class FilterAccount:
    """What a filter removed: events kept and dropped, and the fields it names that no event carried."""

    expression: str
    applied_by: str
    kept: int
    dropped: int
    absent_fields: tuple[str, ...] = ()


@attrs.frozen
class SeriesResult:
    """One series: the key that tells it from the others (empty when nothing divides them) and each emit's answer.

    `labels` says what the key's parts are called, where the events said it: the newest word of each.
    """

    key: Mapping[str, Any]
    emits: Mapping[str, Mapping[str, Any]]
    labels: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class SeriesSpread:
    """How one series' figure spreads over the runs that gave it. None is not known.

    `values` holds each run's figure in the runs' order, None where a run gave none; `runs` counts those that did.
    `deviation` is the sample's (n - 1), `relative_error` the standard error of the mean as a share of the mean; both
    are None over a single run, and the share where the mean is zero. `labels` is the last run's that has the series.
    """

    key: Mapping[str, Any]
    runs: int
    mean: float | None
    deviation: float | None
    min: float | None
    max: float | None
    relative_error: float | None
    values: tuple[float | None, ...]
    labels: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Repeat:
    """One request's answers over several runs: of which emit which figure stands for a series, and how it spreads.

    `emit` and `figure` are None where no emit of the request has one. `notes` says what makes the runs no
    equals: what each lost, and which are left out.
    """

    runs: int
    emit: str | None
    figure: str | None
    series: tuple[SeriesSpread, ...]
    notes: tuple[str, ...] = ()


@attrs.frozen(eq=False)
class RawEvents:
    """The events themselves, kept in columns until an encoder prints them; `stacks` is what theirs are numbers in."""

    batch: Batch
    stacks: Stacks | None = None


@attrs.frozen(eq=False)
class Result:
    """One request's answer. `ts_err_ns` is the worst of its events, None where nobody measured one."""

    resolved: ResolvedRequest
    scope: str
    window: Window
    events_seen: int
    series: tuple[SeriesResult, ...]
    losses: Losses = attrs.field(factory=Losses)
    ts_err_ns: int | None = None
    filter: FilterAccount | None = None
    degraded: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    fields: Mapping[str, int] = attrs.field(factory=dict)
    stopped_because: str | None = None
    row_stamp: str | None = None
    attached_ns: int | None = None
    detached_ns: int | None = None
    failure: str | None = None
    target: Mapping[str, Any] = attrs.field(factory=dict)
    raw: RawEvents | None = None
    repeat: Repeat | None = None


@attrs.frozen
class ProgramResult:
    """What became of the launched program. `exit` is {"code": n} or {"signal": name}, None where it is not known.

    `cpu_ns` is that of the program and of everything it started, `own_cpu_ns` the program's own process's alone.
    """

    argv: tuple[str, ...]
    pid: int
    exit: Mapping[str, Any] | None
    lifetime_ns: int | None
    cpu_ns: int | None
    own_cpu_ns: int | None = None


@attrs.frozen
class Cost:
    """What the run cost, cpu nanoseconds. None is not known, never zero.

    `window_ns`, `before_ns` and `after_ns` are omn's own in, before and after the window, `one_time_ns` what it spends
    once whatever the window. `in_target_ns` is what mechanisms spent inside the target, `in_target_unknown` the
    sources that spend there without an account.
    """

    window_ns: int
    before_ns: int
    after_ns: int
    one_time_ns: int = 0
    in_target_ns: int | None = 0
    in_target_left_out: int = 0
    in_target_unknown: tuple[str, ...] = ()
    target_ns: int | None = None

    @property
    def own_percent(self) -> float | None:
        """Omn's own cpu in the window as a percentage of the target's own work, None where that is not known."""
        return self._percent(self.window_ns)

    @property
    def percent(self) -> float | None:
        """Omn's and its mechanisms' cpu as a percentage of the target's own work (observed less theirs)."""
        return None if self.in_target_ns is None else self._percent(self.window_ns + self.in_target_ns)

    def _percent(self, spent_ns: int) -> float | None:
        if self.target_ns is None or self.target_ns - (self.in_target_ns or 0) <= 0:
            return None
        return 100.0 * spent_ns / (self.target_ns - (self.in_target_ns or 0))


@attrs.frozen(eq=False)
class Document:
    """One run. `extras` holds blocks that plugins add (joins, decompositions, record), as plain values.

    `emits` maps the name of each emit to its row, so that the text format renders with it; one that is not there is
    rendered as figures. `ended_by` is what ended the window: `program`, `target`, `duration`, `served`, `budget`, or
    the name of a signal. `repeats` holds every run of a repeated session, in order; the document is then the last
    whole one's, its results with their spread over all.
    """

    session: ResolvedSession
    environment: Mapping[str, Any]
    window: Window
    results: tuple[Result, ...]
    cost: Cost
    program: ProgramResult | None = None
    adopted: tuple[Adopted, ...] = ()
    plugins: Mapping[str, str] = attrs.field(factory=dict)
    notes: tuple[str, ...] = ()
    extras: Mapping[str, Any] = attrs.field(factory=dict)
    emits: Mapping[str, EmitRow] = attrs.field(factory=dict)
    ended_by: str | None = None
    repeats: tuple[Document, ...] = ()
