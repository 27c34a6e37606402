"""Collectors that sample perf events: who ran, where in the code, and how much of the event each sample stands for."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from omn_core.api import (
    Batch,
    BoundTarget,
    CollectorBase,
    Column,
    Drain,
    InTargetCost,
    Losses,
    ResolvedRequest,
    RunContext,
)
from omn_kernel.distinct import list_distinct
from omn_kernel.perf.attributes import EventAttributes, can_read_lost
from omn_kernel.perf.call_stacks import CallStacks
from omn_kernel.perf.chains import make_stacks
from omn_kernel.perf.events import PerfEvent, Raised, get_event
from omn_kernel.perf.followed_tasks import FollowedTasks
from omn_kernel.perf.held_samples import HeldSamples
from omn_kernel.perf.opening import EventOpener
from omn_kernel.perf.paranoia import describe_paranoia
from omn_kernel.perf.rates import check_rate, choose_sampling
from omn_kernel.perf.records import Lost, Throttled, parse_records
from omn_kernel.perf.sampled import SampledEvents, Totals
from omn_kernel.perf.samples import Samples
from omn_kernel.perf.unwinding import Unwinder
from omn_kernel.perf.weights import compute_periods
from omn_kernel.perf.wholeness import Wholeness
from omn_kernel.symbols.choice import choose_sources
from omn_kernel.unwind.choosing import NONE, WALKS

_LOW = (1 << 32) - 1


class SamplingCollector(CollectorBase, ABC):
    """A collector of samples of one event, each a row that carries how much of it the sample stands for.

    `event` is its spelling, `value` the attribute that is the measurement. Of an event that is a clock the value is the
    time that the sample stands for, of any other the sample is one occurrence that weighs as many as it stands for; in
    mode trace each occurrence is one. `has_accesses` asks for the address that each accessed, as the attribute `addr`.
    """

    event: str
    value: str
    has_accesses = False

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Refuse servers of symbols that nobody configured, and begin with nothing taken."""
        super().prepare(resolved, context)
        self._sources = choose_sources(resolved.request.symbols)
        walk = NONE if resolved.walk is None else WALKS[resolved.walk.walk]
        self._event = get_event(self.event)
        self.sampling = choose_sampling(resolved, self._event, walk, has_accesses=self.has_accesses)
        self._tasks = FollowedTasks(context.sysroot, self._sources)
        self._symboliser = self._tasks.symboliser
        self._unwinder = None if walk == NONE else Unwinder(walk, self._symboliser, context.sysroot)
        self._wholeness = Wholeness(walk, self._unwinder)
        self._held = HeldSamples(self._unwinder, context.memory_bytes)
        self._idle = self._throttled = self._overrun = self._stood_for = 0
        self._totals = Totals()
        self._drains: list[Drain] = []
        self._notes: tuple[str, ...] = ()
        self._events: SampledEvents | None = None

    def attach(self, target: BoundTarget) -> None:
        """Open the event wherever the target is, and begin; a launched program's begins at its execve."""
        is_held = self.resolved.begins_held(target)
        check_rate(self.sampling)
        reads_lost = can_read_lost()

        def make(event: PerfEvent, is_user_only: bool) -> EventAttributes:
            return EventAttributes(
                event.kind,
                event.config,
                is_disabled=True,
                inherits=bool(target.processes) and target.tid is None,
                enable_on_exec=is_held,
                exclude_kernel=is_user_only,
                reads_times=True,
                reads_lost=reads_lost,
                sampling=self.sampling,
            )

        self._opener = EventOpener(self._event, make)
        self._is_of_tasks = bool(target.processes)
        self._events = SampledEvents(target, self._opener, self.sampling, reads_lost=reads_lost)
        pids = [handle.pid for handle in target.processes]
        self._tasks.follow_target(pids, self.context.clock(), is_held=is_held)
        self._ids = self._events.read_ids() if self.sampling.has_streams else []
        if not is_held:
            self._events.enable()

    def sample(self, now_ns: int) -> Batch:
        """Take what the rings hold, and read what is gone when it is asked for later. Nothing is named yet."""
        if self._events is not None:
            until_ns = self.context.clock()
            self._take(self._events.drain(), until_ns)
            self._symboliser.read_growth()
        return Batch.empty()

    def stop(self) -> Batch:
        """Let go of the events, name what was sampled, and return it in the order of its time."""
        if self._events is None:
            return Batch.empty()
        self._events.disable()
        self._take(self._events.drain(), self.context.clock())
        self._totals = self._events.read_totals()
        self._events.close()
        self._events = None
        self._tasks.note_late()
        # Named all together, so that each mapping is looked up once.
        finished = self._held.finish()
        batch = Batch.empty() if finished is None else self._make_batch(*finished)
        self._notes = (*self._symboliser.notes, *(() if self._unwinder is None else self._unwinder.notes))
        self._symboliser.close()
        return batch

    def _take(self, data: np.ndarray[tuple[int], np.dtype[np.uint8]], until_ns: int) -> None:
        # A program that waits leaves nothing at most ticks.
        if not len(data):
            return
        records = parse_records(data, self.sampling)
        lost = sum(one.count for one in records.others if isinstance(one, Lost))
        if lost:
            self._drains.append(Drain(until_ns, lost))
        self._throttled += sum(isinstance(one, Throttled) for one in records.others)
        others = [one for one in records.others if not isinstance(one, Lost | Throttled)]
        self._tasks.note(others, until_ns)
        self._keep(records.samples)

    def _keep(self, samples: Samples) -> None:
        """Keep samples within the memory bound, those of the idle task left out, and look at tasks that are new."""
        is_idle = samples.pid == 0
        self._idle += int(is_idle.sum())
        if not len(samples) or is_idle.all():
            return
        if not self._held.add(samples):
            self._overrun += int((~is_idle).sum())
            return
        pids, tids = (one[~is_idle].astype(np.int64) for one in (samples.pid, samples.tid))
        now_ns = self.context.clock()
        for pair in list_distinct(pids << 32 | tids & _LOW):
            self._tasks.follow(pair >> 32, pair & _LOW, now_ns)

    def _make_batch(self, samples: Samples, calls: CallStacks | None) -> Batch:
        stack = None
        times = samples.time.astype(np.int64)
        if calls is not None:
            made = make_stacks(samples.pid, times, calls, self._symboliser, self.context.stacks)
            stack = made.numbers
            self._wholeness.note(made.endings[samples.pid != 0], int(calls.is_recovered.sum()))
        names = self.context.names
        pids, of_pid = np.unique(samples.pid, return_inverse=True)
        comms, of_task = self._tasks.names.list_at(samples.tid, times)
        period = self._compute_periods(samples)
        self._stood_for = int(period.sum())
        is_clock = self._event.raised is Raised.CLOCK
        batch = Batch(
            times,
            keys={
                "task": Column(samples.tid.astype(np.int64)),
                "cpu": Column(samples.cpu.astype(np.int64)),
                "proc": Column.of([self._tasks.find_process(pid) for pid in pids.tolist()], names).select(of_pid),
                "comm": Column.of(comms, names).select(of_task),
            },
            attributes={
                self.value: Column(period if is_clock else np.ones(len(samples), np.int64)),
                "pid": Column(samples.pid.astype(np.int64)),
                **({"addr": Column(samples.accessed)} if self.has_accesses else {}),
            },
            weight=None if is_clock or self.resolved.mode == "trace" else period,
            stack=stack,
        )
        in_time = np.argsort(samples.time, kind="stable")
        return batch.select(in_time[samples.pid[in_time] != 0])

    def _compute_periods(self, samples: Samples) -> npt.NDArray[np.int64]:
        if self.sampling.has_streams:
            return compute_periods(samples, self._ids)
        return samples.period.astype(np.int64)

    def losses(self) -> Losses:
        """Return what found no room in a ring or in memory, and the periods in which the kernel held samples back."""
        lost = max(sum(drain.dropped for drain in self._drains), self._count_unheard())
        reasons = []
        if lost:
            reasons.append("records found no room in a ring of the kernel's")
        if self._overrun:
            reasons.append(f"samples came when {self.context.memory_bytes} bytes, the bound of one request, were held")
        if self._throttled:
            reasons.append("the kernel held samples back that came faster than kernel.perf_event_max_sample_rate")
        return Losses(
            dropped=lost + self._overrun,
            throttled=self._throttled,
            reasons=tuple(reasons),
            drains=tuple(self._drains),
        )

    def _count_unheard(self) -> int:
        """Count the records that found no room, by the events' own account: records tell of it once another has room.

        A kernel that keeps none counts what occurred, of which each was to be a record in a trace of tasks; of a cpu it
        counts some switches that no record is ever made of.
        """
        if self._totals.lost is not None or self.sampling.period != 1 or not self._is_of_tasks:
            return self._totals.lost or 0
        return max(self._totals.counted - self._held.count() - self._overrun, 0)

    def fields(self) -> Mapping[str, int]:
        """Return how many samples were delivered, those of the idle task apart, and for how long the tasks ran.

        Of what occurs and is no time also how often it did, by the event's own count; of stacks how many are not whole.
        """
        fields = {"delivered": self._held.count(), **self._sources.count()}
        if self._event.raised is not Raised.CLOCK:
            fields["counted"] = self._totals.counted
        fields |= self._wholeness.count()
        if self._is_of_tasks:
            return {**fields, "ran_ns": self._totals.running_ns}
        return {**fields, "idle": self._idle}

    def facts(self) -> tuple[str, ...]:
        """Say the rate that was asked for and the one that came, and what could not be named."""
        said = [] if self.resolved.mode == "trace" else [*self._say_rate(), *self._say_sum()]
        if self._idle:
            said.append(f"{self._idle} samples of idle cpus are left out")
        if self._held.walked_early:
            said.append(f"{self._held.walked_early} stacks were walked in the window, where their copies filled memory")
        return (*said, *self._sources.describe(), *self._notes)

    def in_target_cost(self) -> InTargetCost:
        """Return that it is unknown: the kernel takes a sample while the task runs, and keeps no account of that."""
        return InTargetCost(None)

    def one_time_cpu_ns(self) -> int:
        """Return what fetching symbols cost."""
        return self._sources.cpu_ns

    def _say_rate(self) -> Iterator[str]:
        if self._is_of_tasks and self._totals.running_ns:
            hz, period = self.sampling.hz, self.sampling.period
            asked = f"{hz} samples a second were" if period is None else f"a sample of each {period} was"
            came = self._held.count() / (self._totals.running_ns / 1e9)
            yield f"{asked} asked for, and {came:.1f} a second came of the time that ran"

    def _say_sum(self) -> Iterator[str]:
        """Say how much the samples of what occurs stand for: what came after the last of each task is in none."""
        if self._event.raised is not Raised.CLOCK and self._stood_for != self._totals.counted:
            counted = self._totals.counted
            yield f"the samples stand for {self._stood_for} occurrences, of {counted} that the event counted"

    def degradations(self) -> tuple[str, ...]:
        """Say that the kernel's own code was not sampled, where it was not, and what stacks lack their outer calls."""
        said = [f"the kernel's own code is not sampled ({describe_paranoia()})"] if self._opener.is_user_only else []
        return (*said, *self._wholeness.describe())
