"""One request through its collector's life, every call into the plugin guarded."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs

from omn_core.errors import PLUGIN_FAULTS, NotCollected, Refused, RunFailed
from omn_core.model.batch import Batch
from omn_core.model.collector import BoundTarget, Collector, RunContext, TargetGone
from omn_core.model.losses import Losses
from omn_core.model.request import RequestWindow
from omn_core.model.resolved import ResolvedRequest
from omn_core.model.watched import Window
from omn_core.plugins import Registry
from omn_core.run.rounds import Grid

DRAIN_INTERVAL_NS = 100_000_000
"""How often a stream's buffers are emptied."""

READ_BETWEEN_NS = 1_000_000_000
"""How often a count is read between its ends, where what it counts would be gone at the close."""

_WHOLE_RUN = RequestWindow()
_STREAMS = ("sample", "trace")
Told = TypeVar("Told")


@attrs.define(eq=False, repr=False)
class Measurement:
    """A resolved request, its collector, and what they have read.

    `gone_ns` is when the collector said that its target had ended, or failed; it is read no more from there.
    `closed_ns` ends its window. `failure` makes the run fail after its results are written. `spent_ns` is omn's own cpu
    in its readings. `before` is the measurement that a budget moved this one off, None for the first; `moved` says so.
    """

    index: int
    resolved: ResolvedRequest
    collector: Collector
    context: RunContext
    bound: BoundTarget | None = None
    opened_ns: int | None = None
    gone_ns: int | None = None
    closed_ns: int | None = None
    attached_ns: int | None = None
    detached_ns: int | None = None
    stopped_because: str | None = None
    failure: str | None = None
    grid: Grid | None = None
    batches: list[Batch] = attrs.field(factory=list)
    is_read: bool = False
    read_ns: int = 0
    held_bytes: int = 0
    dropped: int = 0
    spent_ns: int = 0
    before: Measurement | None = None
    moved: str | None = None
    _is_prepared: bool = False
    _is_stopped: bool = False

    @property
    def name(self) -> str:
        """The source and the backend, for sentences."""
        return f"{self.resolved.request.source} on {self.resolved.backend.id}"

    @property
    def stages(self) -> tuple[Measurement, ...]:
        """The measurements of its request, the first one first: itself, and those that a budget moved it off."""
        return (self,) if self.before is None else (*self.before.stages, self)

    @property
    def asked_window(self) -> RequestWindow:
        """The request's own window inside the run; no offsets where it has none."""
        return self.resolved.request.window or _WHOLE_RUN

    @property
    def is_waiting(self) -> bool:
        """Whether its window has yet to open."""
        return self.opened_ns is None and self.closed_ns is None

    @property
    def is_open(self) -> bool:
        """Whether its window is open."""
        return self.opened_ns is not None and self.closed_ns is None

    @property
    def is_awaited(self) -> bool:
        """Whether the run still has something to wait for on its behalf."""
        return self.is_waiting or (self.is_open and not (self.resolved.mode == "snapshot" and self.is_read))

    @property
    def reads_at_open(self) -> bool:
        """Whether a reading describes its moment; a collector that does not say describes the interval before it."""
        return bool(getattr(self.collector, "reads_at_open", False))

    def prepare(self) -> None:
        """Prepare the collector. Raises what it refuses with; RunFailed for anything else it raises."""
        self._is_prepared = True
        self._begin("prepare", lambda: self.collector.prepare(self.resolved, self.context))

    def change_environment(self, environment: dict[bytes, bytes]) -> None:
        """Let the collector change what the program is started with. Raises as `prepare` does."""
        change = getattr(self.collector, "change_environment", None)
        if change is not None:
            self._begin("change_environment", lambda: environment.update(change(environment)))

    def attach(self, bound: BoundTarget) -> None:
        """Attach the collector. Raises what it refuses with; RunFailed for anything else it raises."""
        self.bound = bound
        self._begin("attach", lambda: self.collector.attach(bound))
        if self.resolved.request.window is not None:
            self.attached_ns = self.context.clock()

    def attach_late(self, bound: BoundTarget) -> None:
        """Attach inside the run, where a refusal can only fail this request."""
        try:
            self.attach(bound)
        except (Refused, RunFailed) as error:
            self.fail(f"{self.name} could not attach inside the run: {error}")
            self.opened_ns = self.gone_ns

    def give_up(self, why: str, now_ns: int) -> None:
        """End a request whose window never opened, for a reason that is no failure."""
        self.closed_ns, self.stopped_because = now_ns, why

    def open(self, now_ns: int) -> None:
        """Open its window."""
        self.opened_ns = now_ns
        interval_ns = self._find_interval()
        if interval_ns is not None:
            self.grid = Grid(now_ns, interval_ns)

    def read_at_open(self, *, is_snapshot_due: bool) -> Batch | None:
        """Read a gauge, or a snapshot that is due, at the opening. None where nothing is read there."""
        mode = self.resolved.mode
        if mode == "poll" and self.reads_at_open:
            return self.read()
        return self.read() if mode == "snapshot" and is_snapshot_due else None

    def read_at_close(self) -> Batch | None:
        """Make the closing read. None for a snapshot that was taken and a target that has ended."""
        if self.gone_ns is not None or (self.resolved.mode == "snapshot" and self.is_read):
            return None
        if self.grid is not None:
            self.grid.take(self.context.clock())  # ticks that nobody came for before the close are swallowed too
        return self.read()

    def read(self) -> Batch:
        """Sample the collector once and keep what it returns, within the memory bound."""
        self.is_read, self.read_ns = True, self.context.clock()
        began_ns = time.thread_time_ns()
        try:
            return self._keep(self.collector.sample(self.read_ns))
        except TargetGone:
            self.gone_ns = self.context.clock()
        except PLUGIN_FAULTS as error:  # a guarded plugin call: the request ends, and fails the run when all is written
            self.fail(self._describe("sample", error))
        finally:
            self.spent_ns += time.thread_time_ns() - began_ns
        return Batch.empty()

    def close(self, now_ns: int) -> None:
        """Close its window: now, or when its collector failed."""
        failed_ns = None if self.failure is None else self.gone_ns
        self.closed_ns = now_ns if failed_ns is None else failed_ns

    def stop(self) -> None:
        """Stop the collector, once, and keep what it had buffered. One that was never attached only lets go."""
        if self._is_stopped or not self._is_prepared:
            return
        self._is_stopped = True
        if self.bound is None:
            # Its answer is nobody's any more, and so is what it raises.
            with contextlib.suppress(Exception):
                self.collector.stop()
            return
        self._keep(self._ask("stop", getattr(self.collector, "stop", None), Batch.empty()))
        if self.resolved.request.window is not None:
            self.detached_ns = self.context.clock()

    def window(self, run: Window) -> Window:
        """Return when it watched; no time at all, where it never did, at the instant from which it could not."""
        closed_ns = run.closed_ns if self.closed_ns is None else self.closed_ns
        return Window(closed_ns if self.opened_ns is None else self.opened_ns, closed_ns)

    def ask(self, name: str, default: Told) -> Told:
        """Call one of the collector's accounts; one that raises fails the run and answers the default.

        A collector that was never attached has nothing to say.
        """
        if self.bound is None:
            return default
        return self._ask(name, getattr(self.collector, name, None), default)

    def fail(self, reason: str) -> None:
        """Keep why the request failed, the first reason alone: its result says so, and the run fails after it."""
        if self.failure is None:
            self.failure = reason
            self.stopped_because = "its collector failed" if self.closed_ns is None else self.stopped_because
        if self.gone_ns is None:
            self.gone_ns = self.context.clock()

    @property
    def lost(self) -> int:
        """How much the runner has lost of this request so far: readings of a poll swallowed, events not held."""
        is_poll = self.grid is not None and self.resolved.mode == "poll"
        return self.dropped + (self.grid.swallowed if self.grid is not None and is_poll else 0)

    def own_losses(self) -> Losses:
        """Return what the runner lost of this request: late rounds of a poll, and events past the memory bound."""
        losses = Losses(dropped=self.dropped)
        reasons = []
        if self.dropped:
            bound = self.context.memory_bytes
            reasons.append(f"{self.dropped} events came when {bound} bytes, the bound of one request, were held")
        if self.grid is not None and self.grid.late and self.resolved.mode == "poll":
            losses = attrs.evolve(losses, late_ticks=self.grid.late, swallowed=self.grid.swallowed)
            interval_ms = self.grid.interval_ns / 1e6
            reasons.append(f"rounds overran the interval of {interval_ms:g} ms, and readings fell into them")
        return attrs.evolve(losses, reasons=tuple(reasons))

    def _find_interval(self) -> int | None:
        if self.resolved.mode in _STREAMS:
            return DRAIN_INTERVAL_NS
        if self.resolved.mode == "count" and getattr(self.collector, "reads_between", False):
            return READ_BETWEEN_NS
        return self.resolved.interval_ns

    def _keep(self, batch: Batch) -> Batch:
        if len(batch) == 0:
            return batch
        if self.held_bytes + batch.nbytes > self.context.memory_bytes:
            self.dropped += len(batch)
            return batch
        self.held_bytes += batch.nbytes
        self.batches.append(batch)
        return batch

    def _begin(self, call: str, function: Callable[[], None]) -> None:
        try:
            function()
        except Refused:
            raise
        except PLUGIN_FAULTS as error:  # a guarded plugin call: nothing has run yet, so the run fails before it began
            raise RunFailed(self._describe(call, error)) from error

    def _ask(self, call: str, function: Any, default: Told) -> Told:
        try:
            return _check_kind(function(), default)
        except PLUGIN_FAULTS as error:  # a guarded plugin call: what the others say is kept
            self.fail(self._describe(call, error))
            return default

    def _describe(self, call: str, error: BaseException) -> str:
        return f"{self.name} failed: its {call} raised {type(error).__name__}: {error}"


def _check_kind(answer: Any, default: Told) -> Told:
    """Return an answer of its default's kind, a text or nothing where that is None. Raises TypeError for another."""
    kind: Any = (str, type(None)) if default is None else Mapping if isinstance(default, dict) else type(default)
    if not isinstance(answer, kind):
        raise TypeError(f"it returned {answer!r}")
    told: Told = answer
    return told


def make_measurement(index: int, resolved: ResolvedRequest, registry: Registry, context: RunContext) -> Measurement:
    """Make a request's collector. Raises NotCollected where its code does not load."""
    reference = resolved.collector.factory
    try:
        collector = registry.load(reference)()
    except PLUGIN_FAULTS as error:  # a guarded plugin call: a collector that cannot be made is the build's gap
        raise NotCollected(
            f"the collector of {resolved.request.source} on {resolved.backend.id} ({reference}) does not load: "
            f"{type(error).__name__}: {error}"
        ) from error
    return Measurement(index, resolved, collector, context)
