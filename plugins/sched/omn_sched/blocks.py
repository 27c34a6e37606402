"""sched.offcpu: threads off the cpu, each time from where they go into the scheduler to their next switch in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.columns import Columns, make_named_column
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.maps import NO_EXIST, Map
from omn_kernel.bpf.spans import SpanRecords
from omn_kernel.bpf.task_states import TaskStates

from omn_core.api import BoundTarget, Column
from omn_sched.off_cpu_times import end_at, name_state
from omn_sched.programs.entry import TRACEPOINT, SchedulerEntry
from omn_sched.programs.offcpu import FIELDS, OffCpuProgram
from omn_sched.sleepers import is_off_cpu, list_tasks, make_sleeper


class Blocks(SpanRecords):
    """An event for each time that a thread of the target was off the cpu, when it comes back.

    A thread that is still off it when the window closes has an event then, of its time until there: so has one that was
    off it when the window began, from there on and with no stack.
    """

    layout = FIELDS
    began = "left_ns"
    lasted = "off_ns"
    _begins_at_entry = False

    def open_maps(self) -> None:
        """Open the way that records come, and the threads that are off the cpu."""
        super().open_maps()
        self._states = self.hold(TaskStates("off_cpu", self.record))

    def get_spans(self) -> Map:
        """Return the threads that are off the cpu."""
        return self._states.table

    def write_programs(self, target: BoundTarget) -> None:
        """Load the program, and what forgets threads."""
        self.load_states(self._states)
        tells_entry = not self.reads_records and self.types.find_tracepoint(TRACEPOINT) is not None
        entry = self.hold(SchedulerEntry()) if tells_entry else None
        self._begins_at_entry = entry is not None
        unseen = self.hold(LostCounter())
        self.count_lost(unseen, "blocks ended where no tracepoint was passed")
        written = OffCpuProgram(
            tasks=self.tasks,
            states=self._states,
            take_task=self.take_task,
            transport=self.transport,
            entry=entry,
            unseen=unseen,
        )
        if entry is not None:
            self.load_tracepoint(TRACEPOINT, entry.write_entry)
        self.load_event("sched_switch", written.write_switch)
        if self.reads_records:
            self.load_event("sched_wakeup", written.write_wakeup)

    def attach(self, target: BoundTarget) -> None:
        """Attach, and begin with who is off the cpu."""
        super().attach(target)
        if not self.resolved.begins_held(target):
            self._begin_with_sleepers(target)

    def _begin_with_sleepers(self, target: BoundTarget) -> None:
        """Remember the threads of the target's processes that are off the cpu now: their time counts from here on."""
        for process, thread in list_tasks(target, self.tasks):
            row = make_sleeper(self.record, process, thread, self.context.clock())
            if row is None:
                continue
            self.task_fields.read_task(row, process, thread)
            try:
                self._states.table.update((thread,), row, NO_EXIST)
            except FileExistsError:  # it left again meanwhile, which the program saw
                continue
            if not is_off_cpu(process, thread):
                # It came back before it was remembered, which the program did not see.
                self._states.forget(thread)

    def end_at(self, records: npt.NDArray[Any], left: npt.NDArray[Any], closed_ns: int) -> tuple[npt.NDArray[Any], int]:
        """End at the close what had not ended, the wait for a cpu told from what was before it."""
        return end_at(records, left, closed_ns)

    def facts(self) -> tuple[str, ...]:
        """Say where a block begins, on kernels that do not tell when a task goes into the scheduler."""
        said = "a block begins at the switch: this kernel does not tell when a task enters the scheduler (Linux 6.16)"
        return (*super().facts(), *(() if self._begins_at_entry else (said,)))

    def make_columns(self, records: npt.NDArray[Any]) -> Columns:
        """Make columns of the times off the cpu."""
        names = self.context.names
        keys, attributes = self.task_fields.make_columns(records, names)
        measured = {
            "off_ns": Column(records["off_ns"].astype(np.int64)),
            "queued_ns": Column(records["queued_ns"].astype(np.int64)),
            "blocks": Column(np.ones(len(records), np.int64)),
            "state": make_named_column(records["state"], name_state, names),
        }
        return Columns(keys, {**measured, **attributes, **self.find_waits(records)}, stack=self.make_stacks(records))
