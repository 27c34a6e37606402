"""mem.heap.alloc: what a program asks of its allocator, call by call, and what of it is not given back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
from omn_kernel.bpf.columns import Columns
from omn_kernel.bpf.probed import ProbedRecords
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.user_functions import Chooses, SameFunctions

from omn_core.api import Batch, BoundTarget
from omn_mem.heap_events import compute_calls
from omn_mem.programs.heap import FIELDS, HeapPrograms

Records = npt.NDArray[Any]


class Allocations(ProbedRecords):
    """An event for each call that was asked for a block: what it made, and whether that is live at the close."""

    sought = "function malloc by its symbols"
    remedy = "ask mem.faults, which sees the pages that any allocator takes"
    layout = FIELDS
    _closed_ns = 0

    def open_maps(self) -> None:
        """Open the way that records come, and the calls that threads are in."""
        super().open_maps()
        self._calls = self.hold(TaskStates("heap_calls", self.record))
        self._counts: Mapping[str, int] = {}

    def choose_functions(self, target: BoundTarget) -> Chooses:
        """Choose the programs on the functions of allocators, and load what forgets threads."""
        self.load_states(self._calls)
        made = HeapPrograms(self.tasks.filter, self._calls, self.take_task, self.transport)
        return SameFunctions(made.list_functions())

    def sample(self, now_ns: int) -> Batch:
        """Copy what came, and remember when the window closes: at the last reading."""
        self._closed_ns = now_ns
        return super().sample(now_ns)

    def make_events(self, records: Records) -> Batch:
        """Make an event of each call that was to make a block, with when this was given back."""
        self._made = compute_calls(records, records["ns"], self._closed_ns)
        self._counts = self._made.counts
        return super().make_events(self._made.calls)

    def make_columns(self, records: Records) -> Columns:
        """Make columns of the calls: what each made and how long that lived, or what it was refused."""
        keys, attributes = self.task_fields.make_columns(records, self.context.names)
        made = self._made.make_columns(self.context.names)
        return Columns(keys, {**made, **attributes}, stack=self.make_stacks(records))

    def fields(self) -> Mapping[str, int]:
        """Return how many events there are, what was given back, and what is live at the close."""
        return {**super().fields(), **self._counts}


class AllocationLinks(Allocations):
    """The same programs, the places of each in one link."""

    is_multi = True
