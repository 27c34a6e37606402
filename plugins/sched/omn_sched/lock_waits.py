"""sched.lock: tasks that wait for locks of the kernel, each wait from its first try to its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.columns import Columns, make_address_column, make_named_column
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.spans import SpanRecords

from omn_core.api import BoundTarget, Column
from omn_sched.programs.lock import FIELDS, KEY, MOST_WAITS, LockPrograms

_SPIN, _READ, _WRITE, _REALTIME, _PER_CPU, _MUTEX = (1 << bit for bit in range(6))
"""LCB_F_SPIN and the others of <trace/events/lock.h>."""
_SLEEPING = {_REALTIME: "rt-mutex", _PER_CPU: "pcpu-sem", _READ: "rwsem", _WRITE: "rwsem", _MUTEX: "mutex"}
_LOCKING = (
    "native_queued_",
    "__pv_queued_",
    "pv_queued_",
    "queued_read_",
    "queued_write_",
    "_raw_",
    "__raw_",
    "__mutex_",
    "mutex_",
    "rwsem_",
    "down_",
    "__down",
    "percpu_",
    "__percpu_",
    "rt_mutex_",
    "__rt_mutex_",
    "osq_",
    "ww_mutex_",
    "__ww_mutex_",
)
"""How the kernel's functions are called that take locks for others."""


def name_lock(flags: int) -> str:
    """Name the kind of a lock by what its waiter does, as perf lock names it: `spinlock`, `mutex`, `rwsem:W`."""
    side = ":R" if flags & _READ else ":W" if flags & _WRITE else ""
    if flags & _SPIN and not flags & _MUTEX:
        return f"rwlock{side}" if side else "spinlock"
    if flags & _REALTIME and side:
        return f"rwlock-rt{side}"
    return next((name for bit, name in _SLEEPING.items() if flags & bit), "semaphore") + side


class LockWaits(SpanRecords):
    """An event for each wait that ends, and for each that has not when the window closes."""

    layout = FIELDS
    began = "began_ns"
    lasted = "wait_ns"
    passed_over = _LOCKING
    _begun_before = 0

    def open_maps(self) -> None:
        """Open the way that records come, and the waits that are on."""
        super().open_maps()
        self._waits = self.hold(Map(MapType.HASH, "lock_waits", KEY, self.record, MOST_WAITS))
        self._lost, self._unknown = self.hold(LostCounter()), self.hold(LostCounter())

    def get_spans(self) -> Map:
        """Return the waits that are on."""
        return self._waits

    def write_programs(self, target: BoundTarget) -> None:
        """Load the programs, that on a wait's end first."""
        self.count_lost(self._lost, f"waits found no room among the {MOST_WAITS} that are remembered")
        written = LockPrograms(
            tasks=self.tasks,
            waits=self._waits,
            take_task=self.take_task,
            transport=self.transport,
            lost=self._lost,
            unknown=self._unknown,
        )
        self.load_event("contention_end", written.write_end)
        self.load_event("contention_begin", written.write_begin)

    def detach(self) -> None:
        """Keep the waits that are on still, and how many ended that were not seen to begin."""
        super().detach()
        self._begun_before = self._unknown.read_count()

    def make_columns(self, records: npt.NDArray[Any]) -> Columns:
        """Make columns of the waits."""
        names = self.context.names
        keys, attributes = self.task_fields.make_columns(records, names)
        made = {
            "wait_ns": Column(records["wait_ns"].astype(np.int64)),
            "contentions": Column(np.ones(len(records), np.int64)),
            "addr": make_address_column(records["addr"], names),
            "lock": make_named_column(records["flags"].astype(np.int64), name_lock, names),
        }
        return Columns(keys, {**made, **attributes}, stack=self.make_stacks(records))

    def fields(self) -> Mapping[str, int]:
        """Return how many events there are, and how many waits ended whose beginning was not seen, in no event."""
        return {**super().fields(), "begun_before": self._begun_before}
