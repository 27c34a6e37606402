"""Collectors of records of tasks, each with the stack that it was made on where the answer shows stacks."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from omn_core.api import Batch, BoundTarget, Column, ResolvedRequest, RunContext
from omn_kernel.bpf.assembly import Assembly, Record
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R1, Register
from omn_kernel.bpf.stacks import STACK_FIELDS, StackTable
from omn_kernel.bpf.streaming import StreamCollector
from omn_kernel.bpf.tasks import TaskFields
from omn_kernel.bpf.transport import STAMP
from omn_kernel.perf.followed_tasks import FollowedTasks
from omn_kernel.perf.task_records import TaskRecords
from omn_kernel.symbols.choice import choose_sources


class TakesTasks(Protocol):
    """What emits whose a record is, and where in its code that was."""

    def __call__(self, program: TaskAssembly, record: Record, task: Register, context: Register) -> None:
        """Emit it (`StackedRecords.take_task`)."""


class StackedRecords(StreamCollector, ABC):
    """A collector of records that say what the answer shows of a task and of where it was in its code.

    `layout` are the fields of its own that a record has. A subclass writes programs that set them, take whose the
    record is (`take_task`) and hand it over. A field `caller` among them is who called
    the function that a program is at the entry of (`StackTable.make_stacks`). `takes_user_stacks_only` leaves the
    kernel's part of stacks out, `passed_over` (`StackTable`) some of its innermost; `takes_kernel_stacks_only` leaves
    out what is the program's, of events that come in whoever's time.
    """

    layout: Sequence[tuple[str, str]]
    takes_user_stacks_only = takes_kernel_stacks_only = False
    passed_over: tuple[str, ...] = ()

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Find what the answer shows of a task and of its stack, and open what needs no target."""
        self.task_fields = TaskFields(resolved)
        self._sources = choose_sources(resolved.request.symbols)
        # A count's only reading is that of the close, until when its records would fill their memory.
        self.reads_between = resolved.mode == "count"
        super().prepare(resolved, context)

    def open_maps(self) -> None:
        """Open the way that records come, and stacks where they are asked for."""
        own = [(STAMP, "u8"), *self.layout, ("process", "i4"), *STACK_FIELDS]
        self.record = np.dtype([*own, *self.task_fields.layout], align=True)
        super().open_maps()
        self._stacks = self.hold(StackTable(self.passed_over)) if self._asks_stacks() else None
        self._stackless = 0
        self._followed: FollowedTasks | None = None
        self._task_records: TaskRecords | None = None

    def _asks_stacks(self) -> bool:
        shown = {emit.name for emit in self.resolved.emits} & {"stack", "raw"}
        is_walked = self.resolved.walk is not None and self.resolved.walk.walk != "none"
        return is_walked and bool(shown or self.resolved.stack_keys)

    def take_task(self, program: TaskAssembly, record: Record, task: Register, context: Register) -> None:
        """Emit what sets a record's process, what the answer shows of a task, and the stack of the task that runs.

        `task`, one of R6 to R9, stands for the task, and `context` is a register that holds what R1 held when the
        program began. R0 to R5 hold nothing after it. Raises FieldMissing.
        """
        program.read_process(R1, task)
        program.set(record, "process", R1)
        self.task_fields.write(program, record, task)
        self.take_stack(program, record, context)

    def take_stack(self, program: Assembly, record: Record, context: Register) -> None:
        """Emit what sets a record's stack to that of the task that runs, where stacks are asked for.

        `context` is a register that holds what R1 held when the program began. R0 to R5 hold nothing after it.
        """
        if self._stacks is not None:
            self._stacks.take(
                program,
                record,
                context,
                is_user_only=self.takes_user_stacks_only,
                is_kernel_only=self.takes_kernel_stacks_only,
            )

    def attach(self, target: BoundTarget) -> None:
        """Follow what the target maps where stacks are asked for, load the programs and attach them."""
        if self._stacks is not None:
            self._followed = FollowedTasks(self.context.sysroot, self._sources)
        if self._followed is not None and not self.takes_kernel_stacks_only:
            is_held = self.resolved.begins_held(target)
            self._task_records = TaskRecords(target, self._followed, self.context.clock(), is_held=is_held)
        super().attach(target)
        self.task_fields.look()

    def sample(self, now_ns: int) -> Batch:
        """Copy what came, and what tasks mapped."""
        if self._task_records is not None:
            self._task_records.take(self.context.clock())
        return super().sample(now_ns)

    def detach(self) -> None:
        """Keep the stacks that were taken."""
        super().detach()
        if self._stacks is not None:
            self._stacks.read()
            self._stackless = self._stacks.lost.read_count()
        if self._task_records is not None:
            self._task_records.finish(self.context.clock())

    def stop(self) -> Batch:
        """Detach the programs, name the stacks, and return what was handed over."""
        try:
            return super().stop()
        finally:
            if self._task_records is not None:
                self._task_records.close()

    def make_stacks(self, records: npt.NDArray[Any]) -> npt.NDArray[np.int64] | None:
        """Return the number of each record's stack in the run's table, None where no stacks are asked for."""
        if self._stacks is None or self._followed is None:
            return None
        callers = records["caller"] if "caller" in (records.dtype.names or ()) else None
        symboliser = self._followed.symboliser
        return self._stacks.make_stacks(records, records["process"], symboliser, self.context.stacks, callers)

    def find_waits(self, records: npt.NDArray[Any]) -> dict[str, Column]:
        """Find the function that each record's thread waits in, as `func`, where that is asked for.

        It stands in the place of the stack's innermost function, which is the scheduler's of every thread that waits.
        """
        if self._stacks is None or self._followed is None or "func" not in self.resolved.stack_keys:
            return {}
        return {"func": self._stacks.find_waits(records, self._followed.symboliser, self.context.names)}

    def fields(self) -> Mapping[str, int]:
        """Return how many records were delivered, and what looking for names came to."""
        return {**super().fields(), **self._sources.count()}

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
