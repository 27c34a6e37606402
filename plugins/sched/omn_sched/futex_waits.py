"""sched.futex: threads in futex calls, each wait from where it is entered to where it is left."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.columns import Columns, make_address_column, make_named_column
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.maps import NO_EXIST, Map
from omn_kernel.bpf.spans import SpanRecords
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.tracepoints import is_described

from omn_core.api import BoundTarget, Column
from omn_sched.futex_sleepers import find_wait, make_waiter
from omn_sched.programs.futex import FIELDS, OPERATIONS, WAITING, WAITS, FutexPrograms, list_calls
from omn_sched.sleepers import list_tasks

_INTERRUPTED = frozenset({errno.EINTR, *range(512, 517)})
"""How a wait ends that a signal has ended: ERESTARTSYS and its kind are the kernel's own for it."""
_RESULTS = {0: "woken", errno.EAGAIN: "changed", errno.ETIMEDOUT: "timed-out"}
_BITS = 32


def name_result(result: int) -> str | None:
    """Name how a wait ended; None for one that has not.

    `changed` is one that did not begin, since the value at its address was another already (EAGAIN). Another error
    bears its name.
    """
    if result == WAITING:
        return None
    number = -result if result < 0 else 0
    if number in _INTERRUPTED:
        return "interrupted"
    return _RESULTS.get(number) or errno.errorcode.get(number, str(result))


class FutexWaits(SpanRecords):
    """An event for each wait that ends, and for each that has not when the window closes.

    A thread of a process that waits when the window begins counts from there, without a stack. Calls that wake are
    events too where the answer shows how many they woke, and have no wait.
    """

    layout = FIELDS
    began = "began_ns"
    lasted = "wait_ns"
    # The kernel's part is that of entering a call, the same of each.
    takes_user_stacks_only = True
    _begun_before = 0

    def open_maps(self) -> None:
        """Open the way that records come, the threads that wait, and the count of waits that were not seen to begin."""
        super().open_maps()
        self._states = self.hold(TaskStates("futex_waits", self.record))
        self._unknown = self.hold(LostCounter())
        self._with_wakes = self.resolved.shows("woken")

    def get_spans(self) -> Map:
        """Return the threads that wait."""
        return self._states.table

    def write_programs(self, target: BoundTarget) -> None:
        """Load the programs, and what forgets threads."""
        self.load_states(self._states)
        written = FutexPrograms(
            tasks=self.tasks,
            states=self._states,
            take_task=self.take_task,
            transport=self.transport,
            unknown=self._unknown,
            with_wakes=self._with_wakes,
        )
        # Without types each call has tracepoints of its own, which 32-bit code does not pass.
        calls = [name for name in list_calls(with_wakes=self._with_wakes) if is_described(f"syscalls/sys_enter_{name}")]
        for call in calls if self.reads_records else (None,):
            self.load_event("sys_exit", written.write_exit, call=call)
            self.load_event("sys_enter", written.write_enter, call=call)

    def attach(self, target: BoundTarget) -> None:
        """Attach, and begin with who waits already."""
        super().attach(target)
        if not self.resolved.begins_held(target):
            self._begin_with_waiters(target)

    def _begin_with_waiters(self, target: BoundTarget) -> None:
        """Remember the threads of the target's processes that wait now: their time counts from here on."""
        for process, thread in list_tasks(target, self.tasks):
            wait = find_wait(process, thread)
            if wait is None:
                continue
            row = make_waiter(self.record, process, wait, self.context.clock())
            self.task_fields.read_task(row, process, thread)
            try:
                self._states.table.update((thread,), row, NO_EXIST)
            except FileExistsError:  # it has begun another wait meanwhile, which the program saw
                continue
            if find_wait(process, thread) != wait:
                # It went on before it was remembered, which the program did not see.
                self._states.forget(thread)

    def detach(self) -> None:
        """Keep who waits still, and how many waits ended that were not seen to begin."""
        super().detach()
        self._begun_before = self._unknown.read_count()

    def make_columns(self, records: npt.NDArray[Any]) -> Columns:
        """Make columns of the waits, and of the calls that woke."""
        names = self.context.names
        keys, attributes = self.task_fields.make_columns(records, names)
        operation, result = records["op"].astype(np.int64), records["result"].astype(np.int64)
        is_wait = np.isin(operation, list(WAITS))
        present = None if is_wait.all() else is_wait
        ended = make_named_column(np.where(is_wait, result, WAITING), name_result, names)
        made = {
            "wait_ns": Column(records["wait_ns"].astype(np.int64), present),
            "waits": Column(np.ones(len(records), np.int64), present),
            "addr": make_address_column(records["addr"], names),
            "op": make_named_column(operation, OPERATIONS.get, names),
            "result": ended,
        }
        if self._with_wakes:
            made["woken"] = Column(result, ~is_wait & (result >= 0) & (result != WAITING))
        return Columns(keys, {**made, **attributes}, stack=self.make_stacks(records))

    def fields(self) -> Mapping[str, int]:
        """Return how many events there are, and how many waits ended that began before the window, in no event.

        No record of a return tells whether it was a wait's, so that these are not known where records are read.
        """
        return {**super().fields(), **({} if self.reads_records else {"begun_before": self._begun_before})}
