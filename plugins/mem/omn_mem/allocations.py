"""mem.heap.alloc: what a program asks of its allocator, call by call, and what of it is not given back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.columns import Columns, make_address_column, make_named_column
from omn_kernel.bpf.probed import ProbedRecords
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.user_functions import Chooses, SameFunctions

from omn_core.api import Batch, BoundTarget, Column
from omn_mem.block_lives import LIVE, compute_lives
from omn_mem.programs.heap import FIELDS, FREE, OPERATIONS, REALLOC, HeapPrograms

_MOST = np.uint64(np.iinfo(np.int64).max)
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
        self._counts: dict[str, int] = {}

    def choose_functions(self, target: BoundTarget) -> Chooses:
        """Choose the programs on the functions of allocators, and load what forgets threads."""
        self.load_states(self._calls)
        made = HeapPrograms(self.tasks.filter, self.task_fields, self._calls, self.take_stack, self.transport)
        return SameFunctions(made.list_functions())

    def sample(self, now_ns: int) -> Batch:
        """Copy what came, and remember when the window closes: at the last reading."""
        self._closed_ns = now_ns
        return super().sample(now_ns)

    def make_events(self, records: Records) -> Batch:
        """Make an event of each call that was to make a block, with when this was given back."""
        lives = compute_lives(records, self._closed_ns)
        is_call = (records["op"] != FREE) & ~_find_frees_by_realloc(records)
        self._ended_ns = lives.ended_ns[is_call]
        calls = records[is_call]
        is_live = (self._ended_ns == LIVE) & (calls["addr"] != 0) & (calls["ns"] <= self._closed_ns)
        self._counts = {
            "frees": int(np.count_nonzero((records["op"] == FREE) & (records["ns"] <= self._closed_ns))),
            "frees_of_unknown": lives.unknown,
            "live": int(np.count_nonzero(is_live)),
            "live_bytes": int(calls["bytes"][is_live].sum()),
        }
        return super().make_events(calls)

    def make_columns(self, records: Records) -> Columns:
        """Make columns of the calls: what each made and how long that lived, or what it was refused."""
        names = self.context.names
        keys, attributes = self.task_fields.make_columns(records, names)
        is_made = records["addr"] != 0
        asked, ended = np.minimum(records["bytes"], _MOST).astype(np.int64), self._ended_ns
        is_live = is_made & (ended == LIVE)
        made = {
            "bytes": Column(np.where(is_made, asked, 0)),
            "allocations": Column(is_made.astype(np.int64)),
            "live_bytes": Column(np.where(is_live, asked, 0)),
            "lifetime_ns": Column(ended - records["ns"].astype(np.int64), is_made & (ended >= 0)),
            "failed_bytes": Column(asked, ~is_made),
            "op": make_named_column(records["op"].astype(np.int64), OPERATIONS.get, names),
            "addr": make_address_column(records["addr"], names),
        }
        return Columns(keys, {**made, **attributes}, stack=self.make_stacks(records))

    def fields(self) -> Mapping[str, int]:
        """Return how many events there are, what was given back, and what is live at the close."""
        return {**super().fields(), **self._counts}


class AllocationLinks(Allocations):
    """The same programs, the places of each in one link."""

    is_multi = True


def _find_frees_by_realloc(records: Records) -> npt.NDArray[np.bool_]:
    """Find the calls of realloc that were asked for nothing: they give a block back, and fail at nothing."""
    is_asked_nothing = (records["op"] == REALLOC) & (records["bytes"] == 0) & (records["given"] != 0)
    found: npt.NDArray[np.bool_] = is_asked_nothing & (records["addr"] == 0)
    return found
