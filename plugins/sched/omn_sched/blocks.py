"""sched.offcpu: threads off the cpu, each time from their switch out to their next in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.columns import Columns, make_named_column
from omn_kernel.bpf.maps import NO_EXIST
from omn_kernel.bpf.stacks import StackTable
from omn_kernel.bpf.streaming import StreamCollector
from omn_kernel.bpf.task_states import MOST_THREADS, TaskStates
from omn_kernel.bpf.tasks import TaskFields
from omn_kernel.perf.followed_tasks import FollowedTasks
from omn_kernel.perf.task_records import TaskRecords
from omn_kernel.symbols.choice import choose_sources

from omn_core.api import Batch, BoundTarget, Column, ResolvedRequest, RunContext
from omn_sched.off_cpu_times import end_at, name_state
from omn_sched.programs.offcpu import OffCpuProgram, make_record
from omn_sched.sleepers import is_off_cpu, list_tasks, make_sleeper


class Blocks(StreamCollector):
    """An event for each time that a thread of the target was off the cpu, when it comes back.

    A thread that is still off it when the window closes has an event then, of its time until there: so has one that was
    off it when the window began, from there on and with no stack.
    """

    _unfinished = _stackless = 0

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Find what the answer shows of a thread and of where it left, and open what needs no target."""
        self._fields = TaskFields(resolved)
        self._sources = choose_sources(resolved.request.symbols)
        # A count's only reading is that of the close, until when its records would fill their memory.
        self.reads_between = resolved.mode == "count"
        self._closed_ns = 0
        self._left: npt.NDArray[Any] | None = None
        super().prepare(resolved, context)

    def open_maps(self) -> None:
        """Open the way that records come, the threads that are off the cpu, and stacks where they are asked for."""
        self.record = make_record(self._fields)
        super().open_maps()
        self._states = self.hold(TaskStates("off_cpu", self.record))
        self._stacks = self.hold(StackTable()) if self._asks_stacks() else None
        self._followed: FollowedTasks | None = None
        self._task_records: TaskRecords | None = None

    def _asks_stacks(self) -> bool:
        shown = {emit.name for emit in self.resolved.emits} & {"stack", "raw"}
        is_walked = self.resolved.walk is not None and self.resolved.walk.walk != "none"
        return is_walked and bool(shown or self.resolved.stack_keys)

    def write_programs(self, target: BoundTarget) -> None:
        """Load the program, and what forgets threads."""
        self.count_lost(self._states.lost, f"threads found no room among the {MOST_THREADS} that are remembered")
        for program, hook in self._states.write_programs(self.types):
            self.programs.load(program, hook)
        written = OffCpuProgram(self.tasks, self._fields, self._states, self._stacks, self.transport)
        self.load_tracepoint("sched_switch", written.write_switch)

    def attach(self, target: BoundTarget) -> None:
        """Follow what the target maps where stacks are asked for, attach, and begin with who is off the cpu."""
        is_held = self.resolved.begins_held(target)
        if self._stacks is not None:
            self._followed = FollowedTasks(self.context.sysroot, self._sources)
            now_ns = self.context.clock()
            self._task_records = TaskRecords(target, self._followed, now_ns, is_held=is_held)
        super().attach(target)
        self._fields.look()
        if not is_held:
            self._begin_with_sleepers(target)

    def _begin_with_sleepers(self, target: BoundTarget) -> None:
        """Remember the threads of the target's processes that are off the cpu now: their time counts from here on."""
        for process, thread in list_tasks(target, self.tasks):
            row = make_sleeper(self.record, process, thread, self.context.clock())
            if row is None:
                continue
            self._fields.read_task(row, process, thread)
            try:
                self._states.table.update((thread,), row, NO_EXIST)
            except FileExistsError:  # it left again meanwhile, which the program saw
                continue
            if not is_off_cpu(process, thread):
                # It came back before it was remembered, which the program did not see.
                self._states.forget(thread)

    def sample(self, now_ns: int) -> Batch:
        """Copy what came, and what tasks mapped."""
        self._closed_ns = now_ns
        if self._task_records is not None:
            self._task_records.take(self.context.clock())
        return super().sample(now_ns)

    def detach(self) -> None:
        """Keep the stacks that were taken, and the threads that are off the cpu still."""
        super().detach()
        left = self._states.table.read().values
        self._left = left[left["left_ns"] != 0]
        if self._stacks is not None:
            self._stacks.read()
            self._stackless = self._stacks.lost.read_count()
        if self._task_records is not None:
            self._task_records.finish(self.context.clock())

    def stop(self) -> Batch:
        """Detach the program, name the stacks, and return what was handed over."""
        try:
            return super().stop()
        finally:
            if self._task_records is not None:
                self._task_records.close()

    def make_events(self, records: npt.NDArray[Any]) -> Batch:
        """Make the events of records, and of the threads that are off the cpu when the window closes."""
        left = np.zeros(0, self.record) if self._left is None else self._left
        whole, self._unfinished = end_at(records, left, self._closed_ns)
        return super().make_events(whole)

    def make_columns(self, records: npt.NDArray[Any]) -> Columns:
        """Make columns of the times off the cpu."""
        names = self.context.names
        keys, attributes = self._fields.make_columns(records, names)
        measured = {
            "off_ns": Column(records["off_ns"].astype(np.int64)),
            "queued_ns": Column(records["queued_ns"].astype(np.int64)),
            "blocks": Column(np.ones(len(records), np.int64)),
            "state": make_named_column(records["state"], name_state, names),
        }
        stack = None
        if self._stacks is not None and self._followed is not None:
            symboliser = self._followed.symboliser
            stack = self._stacks.make_stacks(records, records["process"], symboliser, self.context.stacks)
        return Columns(keys, {**measured, **attributes}, stack=stack)

    def fields(self) -> Mapping[str, int]:
        """Return how many events were delivered, and how many of them had not ended when the window closed."""
        return {**super().fields(), "unfinished": self._unfinished, **self._sources.count()}

    def facts(self) -> tuple[str, ...]:
        """Say where names came from, and what could not be named."""
        notes = () if self._followed is None else self._followed.symboliser.notes
        return (*self._sources.describe(), *notes)

    def degradations(self) -> tuple[str, ...]:
        """Say how many stacks could not be kept, and how much of what names them."""
        said = [f"{self._stackless} stacks found no room and are not there"] if self._stackless else []
        unheard = 0 if self._task_records is None else self._task_records.lost
        if unheard:
            said.append(f"{unheard} records of what tasks mapped found no room: what they would name may be unknown")
        return tuple(said)

    def one_time_cpu_ns(self) -> int:
        """Return what fetching symbols cost."""
        return self._sources.cpu_ns
