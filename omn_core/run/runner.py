"""A run: everything prepared, the program held, everything attached, one window, and what it all came to."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import attrs

from omn_core.errors import Refused, RunFailed, combine_refusals, name_refusal
from omn_core.model.batch import Names
from omn_core.model.collector import MEMORY_BYTES, BoundTarget, RunContext
from omn_core.model.resolved import ResolvedSession
from omn_core.model.target import Target
from omn_core.model.watched import Window
from omn_core.plugins import Registry
from omn_core.resolve.targets import bind_target
from omn_core.run import linux
from omn_core.run.announce import Announcer, Observer
from omn_core.run.binding import add_process, close_handles
from omn_core.run.cost import CostAccount, ProgramCpu, TargetCpu, make_accounts
from omn_core.run.environment import read_environment
from omn_core.run.events import Moment
from omn_core.run.interrupts import Aborted, Interrupts
from omn_core.run.launcher import LaunchPlan
from omn_core.run.linux_exec import make_program_environment
from omn_core.run.loop import Loop
from omn_core.run.measurement import Measurement, make_measurement
from omn_core.run.program import Program, start_program
from omn_core.run.search import get_program
from omn_core.run.watch import Watch

if TYPE_CHECKING:
    from omn_core.model.result import Document
    from omn_core.run.budget import Budget


@attrs.frozen(repr=False)
class RunOptions:
    """How a run is carried out; what it asks is the session's.

    `sysroot` stands before /proc and /sys for binders and collectors. Events of one request past `memory_bytes` are
    dropped and counted. `become_subreaper` takes over the orphans of the launched program, so that nothing it started
    survives the run: the command line does, a library's caller is not made one unasked. `started_cpu_ns` is the
    reading of omn's process clock from which `before` is counted: 0 when the process exists for this run alone, None
    for the reading at the call. `observers` are told of the run what plugins' `omn_run_event` are told.
    """

    sysroot: str = "/"
    memory_bytes: int = MEMORY_BYTES
    become_subreaper: bool = False
    started_cpu_ns: int | None = None
    observers: tuple[Observer, ...] = ()


def run(resolved: ResolvedSession, registry: Registry, options: RunOptions | None = None) -> Document:
    """Carry out a resolved session and return its document.

    SIGINT, SIGTERM and SIGHUP are handled for the time of the call, in Python's main thread: the first ends the window
    in good order, a second aborts. A request whose collector raised, or says so in `failure()`, has `Result.failure`
    set: the caller writes everything, and fails then.

    Raises Refused where the run could not begin, with nothing left running, and RunFailed where it began and could
    not be finished.
    """
    with Interrupts() as interrupts:
        return carry_out(resolved, registry, options or RunOptions(), interrupts)


def carry_out(resolved: ResolvedSession, registry: Registry, options: RunOptions, interrupts: Interrupts) -> Document:
    """Carry out a resolved session under signals that are watched already, and return its document.

    Raises as `run` does.
    """
    interrupts.begin()
    with contextlib.ExitStack() as stack:
        if options.become_subreaper:
            stack.enter_context(linux.subreaper())
        open_files = stack.enter_context(linux.raise_open_files())
        announcer = Announcer(registry, resolved, options.observers)
        this = _Run(resolved, registry, options, interrupts, announcer, open_files)
        stack.callback(this.clean_up)
        try:
            return this.execute()
        except Aborted as aborted:
            when = "a second time" if interrupts.first is not None else "before the window opened"
            raise RunFailed(f"{aborted.name} came {when} and aborted the run") from None


@attrs.define(eq=False, repr=False)
class _Run:
    """The state of one call of `run`."""

    resolved: ResolvedSession
    registry: Registry
    options: RunOptions
    interrupts: Interrupts
    announcer: Announcer
    open_files: int
    measurements: list[Measurement] = attrs.field(factory=list)
    bound: dict[Target, BoundTarget] = attrs.field(factory=dict)
    program: Program | None = None
    watch: Watch | None = None
    budget: Budget | None = None
    ended_by: str | None = None
    notes: list[str] = attrs.field(factory=list)
    refused: dict[int, str] = attrs.field(factory=dict)

    def execute(self) -> Document:
        """Go through the run in its order."""
        started_ns = self.options.started_cpu_ns
        cost = CostAccount(time.process_time_ns() if started_ns is None else started_ns)
        plan = self._plan_launch()
        self._bind_targets()
        self._prepare()
        self.announcer.tell(Moment.RESOLVED)
        if plan is not None:
            self._launch(plan)
        self._attach()
        window = self._measure(cost)
        if self.program is not None:
            self.program.finish()
        return self._make_document(window, cost)

    def clean_up(self) -> None:
        """Let go of everything, whatever happened; after a whole run only descriptors are left to close."""
        self.interrupts.stop_aborting()
        for measurement in self.measurements:
            measurement.stop()
        if self.program is not None:
            self.program.give_up()
        for bound in self.bound.values():
            if not bound.launched:
                close_handles(bound.processes)
        if self.watch is not None:
            self.watch.close()

    def _plan_launch(self) -> LaunchPlan | None:
        session = self.resolved.session
        if session.program is None:
            return None
        return LaunchPlan(
            get_program(session.program[0]),
            session.program,
            session.program_stdout,
            session.program_stderr,
            self.interrupts.ignored_before,
            open_files=self.open_files,
        )

    def _bind_targets(self) -> None:
        for request in self.resolved.requests:
            target = request.asked_target
            if target not in self.bound:
                self.bound[target] = request.bound or bind_target(target, self.registry, self.options.sysroot)

    def _prepare(self) -> None:
        context = RunContext(Names(), time.monotonic_ns, self.options.sysroot, self.options.memory_bytes)
        self._begin(self._iter_made(context), Measurement.prepare)

    def _iter_made(self, context: RunContext) -> Iterator[Measurement]:
        for index, request in enumerate(self.resolved.requests):
            measurement = make_measurement(index, request, self.registry, context)
            self.measurements.append(measurement)
            yield measurement

    def _launch(self, plan: LaunchPlan) -> None:
        environment = make_program_environment()
        self._begin(self.measurements, lambda measurement: measurement.change_environment(environment))
        plan = attrs.evolve(plan, environment=environment)
        self.program = start_program(plan, adopts=self.options.become_subreaper)
        self.announcer.pid = self.program.launched.pid
        for target, bound in self.bound.items():
            if bound.launched:
                self.bound[target] = add_process(bound, self.program.launched, self.program.tree.find_orphans)
        self.announcer.tell(Moment.LAUNCHED)

    def _attach(self) -> None:
        def attach(measurement: Measurement) -> None:
            if not measurement.asked_window.start_ns:
                measurement.attach(self.bound[measurement.resolved.asked_target])

        self._begin(self.measurements, attach)
        self.announcer.tell(Moment.ATTACHED)

    def _begin(self, measurements: Iterable[Measurement], step: Callable[[Measurement], None]) -> None:
        """Take a step towards the window with each of these, which are all there are once each has taken it.

        Every refusal is raised at once. What a family's name asked, and is refused, is left out; it is raised where
        nothing else remains.
        """
        refused: list[tuple[Measurement, Refused]] = []
        for measurement in measurements:
            try:
                step(measurement)
            except Refused as refusal:
                refused.append((measurement, refusal))
        is_composed = self.resolved.session.composition is not None
        if refused and (not is_composed or len(refused) == len(self.measurements)):
            raise combine_refusals([self._name(measurement, why) for measurement, why in refused])
        for measurement, why in refused:
            measurement.stop()
            self.measurements.remove(measurement)
            self.refused[measurement.index] = str(why)

    def _name(self, measurement: Measurement, refusal: Refused) -> Refused:
        request = measurement.resolved.request
        is_alone = len(self.resolved.requests) == 1
        return refusal if is_alone else name_refusal(request.id or request.source, refusal)

    def _measure(self, cost: CostAccount) -> Window:
        """Open the windows, let the program run, watch over it all, and close."""
        launched = None if self.program is None else self.program.launched
        self.watch = Watch(self.interrupts, launched, list(self.bound.values()))
        accounts = make_accounts(self.bound.values(), None if self.program is None else self.program.tree)
        self.budget = self._make_budget(accounts)
        loop = Loop(
            self.measurements,
            self.bound,
            self.watch,
            self.announcer,
            None if self.program is None else self.program.tree,
            duration_ns=self.resolved.session.duration_ns,
            budget=self.budget,
        )
        cost.open(accounts)
        self.interrupts.open_window()
        loop.open()
        if launched is not None:
            launched.release()
        loop.read_at_open()
        self.ended_by = loop.watch_over()
        if self.ended_by == self.interrupts.first:
            self.notes.append(f"{self.ended_by} ended the window")
        window = loop.close()
        cost.close()
        self.announcer.tell(Moment.CLOSED)
        for measurement in self.measurements:
            measurement.stop()
        return window

    def _make_budget(self, accounts: list[TargetCpu]) -> Budget | None:
        percent = self.resolved.session.budget_percent
        if percent is None:
            return None
        from omn_core.run.budget import Budget

        return Budget(percent, accounts, self.measurements, self.bound, self.registry)

    def _make_document(self, window: Window, cost: CostAccount) -> Document:
        # Loaded after the window: what an answer is made of begins no run.
        from omn_core.model.result import Document
        from omn_core.run.answers import compute_result, get_in_target_cost

        # Asked first: an account that cannot be given fails its request, whose result says so.
        stages = [stage for measurement in self.measurements for stage in measurement.stages]
        in_target = [get_in_target_cost(stage) for stage in stages]
        results = tuple(
            compute_result(measurement, self.registry, window, has_program=self.program is not None)
            for measurement in self.measurements
        )
        if self.options.sysroot != "/":
            self.notes.append(f"{self.options.sysroot!r} stood in for / in this run")
        program_cpu = next((account for account in cost.targets if isinstance(account, ProgramCpu)), None)
        spent = cost.compute(in_target, sum(one.ask("one_time_cpu_ns", 0) for one in stages))
        resolved = self.resolved.leave_out(self.refused)
        ended = self.program
        return Document(
            session=resolved,
            environment=self.resolved.environment or read_environment(self.options.sysroot),
            window=window,
            results=results,
            cost=spent,
            ended_by=self.ended_by,
            program=None if ended is None else ended.result(program_cpu),
            adopted=() if ended is None else ended.adopted(),
            plugins=self.registry.versions(),
            emits=self.registry.emits,
            extras={} if self.budget is None else {"budget": self.budget.to_plain(spent, window)},
            notes=(
                *_say_refused(resolved),
                *self.notes,
                *(() if ended is None else ended.notes),
                *self.announcer.notes,
                *cost.notes(),
            ),
        )


def _say_refused(resolved: ResolvedSession) -> list[str]:
    """Name what a family's name would have asked, had this machine served it."""
    composition = resolved.session.composition
    if composition is None:
        return []
    return [
        f"{composition.family} asks {one.request.source} too, which is left out here: {one.reason}"
        for one in composition.refused
    ]
