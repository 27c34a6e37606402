"""A budget: what a run spends held under a share of what its target uses, by moving its requests, then by stopping.

What is spent is omn's own cpu and what mechanisms spent inside the target, as far as that is accounted for. It is a
share of the scheduler's nanoseconds of the target's processes, less what was spent inside them; where no process is the
target, of the time that passes. It is weighed anew from each move: what was spent before cannot be had back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from omn_core.errors import Refused, RunFailed
from omn_core.model.batch import Batch
from omn_core.model.collector import BoundTarget, InTargetCost
from omn_core.model.target import Target
from omn_core.model.watched import Window
from omn_core.plugins import Registry
from omn_core.run.cost import TargetCpu, add_up
from omn_core.run.measurement import Measurement
from omn_core.run.moves import Move, move

if TYPE_CHECKING:
    from omn_core.model.result import Cost

CHECK_INTERVAL_NS = 100_000_000
"""How often a budget is weighed, at most."""

MOST_INTERVAL_NS = 1_000_000_000
"""How often at least."""

WEIGHING_SHARE = 0.1
"""How much of what a run may spend goes into weighing it, as long as the rest of what it spends is within its share."""

SLACK_NS = 10_000_000
"""How much more than its share a run must have spent before anything is stopped: less is the cost of beginning."""

_Read = tuple[int, Batch | None]


@attrs.frozen
class Weighed:
    """What was spent, and what it is a share of, in nanoseconds."""

    spent_ns: int
    work_ns: int

    def since(self, other: Weighed) -> Weighed:
        """Return what was spent and used since another weighing."""
        return Weighed(self.spent_ns - other.spent_ns, self.work_ns - other.work_ns)

    def compute_excess(self, percent: float) -> float:
        """Return how many nanoseconds were spent beyond a share; below zero where fewer were."""
        return self.spent_ns - percent / 100 * max(self.work_ns, 0)

    def describe(self) -> str:
        """Return the share in words."""
        if self.work_ns <= 0:
            return f"{self.spent_ns / 1e6:.3g} ms beside a target that used none"
        return f"{100 * self.spent_ns / self.work_ns:.3g} %"


@attrs.frozen
class Stop:
    """A request that the budget stopped: its name, when, and at what share."""

    name: str
    at_ns: int
    share: str


@attrs.define(eq=False)
class Budget:
    """The budget of one run, in percent of what its `targets` use. `measurements` are the run's, replaced by moves.

    `due_ns` is the instant of its next check.
    """

    percent: float
    targets: Sequence[TargetCpu]
    measurements: list[Measurement]
    bound: Mapping[Target, BoundTarget]
    registry: Registry
    clock: Callable[[], int] = time.process_time_ns
    due_ns: int = 0
    opened_ns: int = 0
    moves: list[tuple[str, Move, str]] = attrs.field(factory=list)
    stops: list[Stop] = attrs.field(factory=list)
    passed: list[str] = attrs.field(factory=list)
    _base: Weighed = Weighed(0, 0)
    _based_ns: int = 0
    _weighing_ns: int = 0

    def open(self, opened_ns: int) -> None:
        """Begin to weigh, as the window opens."""
        self.opened_ns, self.due_ns = opened_ns, opened_ns + CHECK_INTERVAL_NS
        self._rebase(Weighed(self.clock(), 0), opened_ns)

    def _rebase(self, weighed: Weighed, now_ns: int) -> None:
        self._base, self._based_ns, self._weighing_ns = weighed, now_ns, 0

    def hold(self, now_ns: int) -> list[_Read]:
        """Weigh what was spent, where that is due, and act on the request that spent most. Returns what was read.

        It goes onto its next rung, and where it has none it is stopped, once `SLACK_NS` more than its share was spent.
        """
        if now_ns < self.due_ns:
            return []
        self.due_ns = now_ns + CHECK_INTERVAL_NS
        weighed = self._weigh_and_pause(now_ns)
        open_ones = [one for one in self.measurements if one.is_open and one.gone_ns is None and one.is_awaited]
        if weighed is None or not open_ones:
            return []
        over = weighed.since(self._base)
        excess_ns = over.compute_excess(self.percent)
        dearest = max(open_ones, key=_compute_spent)
        read: list[_Read] = []
        if excess_ns > 0 and dearest.resolved.rungs:
            read = self._move(dearest, over)
        elif excess_ns >= SLACK_NS:
            read = self._stop(dearest, over)
        if read:
            after_ns = time.monotonic_ns()
            self._rebase(self._weigh(after_ns) or weighed, after_ns)
        return read

    def _weigh_and_pause(self, now_ns: int) -> Weighed | None:
        """Weigh, and put the next check off where weighing itself would take much of what may be spent."""
        begun_ns = self.clock()
        weighed = self._weigh(now_ns)
        took_ns = self.clock() - begun_ns
        self._weighing_ns += took_ns
        if weighed is not None:
            over = weighed.since(self._base)
            allowed_ns = self.percent / 100 * max(over.work_ns, 0)
            # A run that is over its share for anything else is watched closely.
            if over.spent_ns - self._weighing_ns <= allowed_ns:
                pause_ns = took_ns * (now_ns - self._based_ns) / (WEIGHING_SHARE * max(allowed_ns, 1))
                self.due_ns = now_ns + int(min(max(pause_ns, CHECK_INTERVAL_NS), MOST_INTERVAL_NS))
        return weighed

    def _weigh(self, now_ns: int) -> Weighed | None:
        """Read what was spent and used so far; None where what was used is not known."""
        in_target_ns = sum(_read_in_target(stage) for one in self.measurements for stage in one.stages)
        used_ns = add_up([target.read_ns() for target in self.targets]) if self.targets else now_ns - self.opened_ns
        if used_ns is None:
            return None
        return Weighed(self.clock() + in_target_ns, used_ns - (in_target_ns if self.targets else 0))

    def _move(self, measurement: Measurement, over: Weighed) -> list[_Read]:
        """Move a request onto its next rung; one that cannot begin is passed over, and named."""
        rung = measurement.resolved.rungs[0]
        bound = self.bound[measurement.resolved.asked_target]
        name = _name(measurement)
        try:
            taken, made, batch = move(measurement, rung, bound, self.registry, self.opened_ns)
        except (Refused, RunFailed) as error:
            self.passed.append(f"{name}: {rung.backend.id} in mode {rung.mode}: {error}")
            measurement.resolved = attrs.evolve(measurement.resolved, rungs=rung.rungs)
            return []
        self.measurements[self.measurements.index(measurement)] = taken
        self.moves.append((name, made, over.describe()))
        return [(measurement.index, batch)]

    def _stop(self, measurement: Measurement, over: Weighed) -> list[_Read]:
        """Stop a request that nothing cheaper measures. The program goes on."""
        read = (measurement.index, measurement.read_at_close())
        now_ns = time.monotonic_ns()
        stop = Stop(_name(measurement), now_ns, over.describe())
        measurement.stopped_because = f"the budget of {self.percent:g} % was spent: {stop.share}"
        measurement.close(now_ns)
        measurement.stop()
        self.stops.append(stop)
        return [read]

    def say_stops(self) -> list[str]:
        """Return a sentence for each request that was stopped."""
        against = "the target's cpu" if self.targets else "the window"
        return [
            f"the budget of {self.percent:g} % of {against} stopped {stop.name} "
            f"{(stop.at_ns - self.opened_ns) / 1e9:.3g} s into the run, at {stop.share}"
            for stop in self.stops
        ]

    def to_plain(self, cost: Cost, window: Window) -> dict[str, Any]:
        """Return the budget's block of the document, `within` None where a part of what was spent is not known."""
        return {
            "percent": self.percent,
            "within": self._is_within(cost, window),
            "against": "target_cpu" if self.targets else "window",
            "is_floor": bool(cost.in_target_unknown),
            "stopped": bool(self.stops),
            "said": self.say_stops(),
            "moves": [
                {
                    "request": name,
                    "from": {"backend": made.left.backend.id, "mode": made.left.mode},
                    "to": {"backend": made.taken.backend.id, "mode": made.taken.mode},
                    "at_ns": made.started_ns,
                    "overlap_ns": made.ended_ns - made.started_ns,
                    "share": share,
                }
                for name, made, share in self.moves
            ],
            "passed_over": [
                *(f"{_name(one)}: {reason}" for one in self.measurements for reason in one.resolved.passed_rungs),
                *self.passed,
            ],
        }

    def _is_within(self, cost: Cost, window: Window) -> bool | None:
        """Return whether the whole run was held: not where it was stopped, and not known where a part is unknown."""
        if self.targets:
            known, floor = cost.percent, cost.own_percent
        else:
            floor = 100 * (cost.window_ns + (cost.in_target_ns or 0)) / max(window.length_ns, 1)
            known = None if cost.in_target_ns is None else floor
        if self.stops or (floor is not None and floor > self.percent):
            return False
        return None if known is None else known <= self.percent


def _name(measurement: Measurement) -> str:
    request = measurement.resolved.request
    return request.id or request.source


def _read_in_target(measurement: Measurement) -> int:
    """Read what a mechanism has spent inside the target so far, nothing where nothing accounts for it."""
    return measurement.ask("in_target_cost", InTargetCost(None)).cpu_ns or 0


def _compute_spent(measurement: Measurement) -> int:
    return measurement.spent_ns + _read_in_target(measurement)
