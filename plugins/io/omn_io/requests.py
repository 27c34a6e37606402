"""Block requests one by one, each an event when it completes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.columns import Columns, make_named_column, make_number_column
from omn_kernel.bpf.filters import AnyTask
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R6
from omn_kernel.bpf.streaming import StreamCollector
from omn_kernel.bpf.tasks import TaskFields

from omn_core.api import BoundTarget, Column, ResolvedRequest, RunContext
from omn_io.programs.requests import MOST_REQUESTS, OPERATION_BITS, RequestPrograms, make_record
from omn_io.request_names import RECORDED_OPERATIONS, DeviceNames, find_device, read_operations

_DIRECTIONS = frozenset({"read", "write", "discard", "flush"})


class Requests(StreamCollector):
    """An event for each request of the target that completes, with whoever inserted it.

    A request that was issued before the programs were attached has no beginning and is in no event, but in a field.
    """

    _unknown = _unfinished = 0

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Find what the answer shows of a task, and open what needs no target."""
        self._fields = TaskFields(resolved)
        super().prepare(resolved, context)

    def open_maps(self) -> None:
        """Open the way that the entries of completed requests come."""
        self.record = make_record(self._fields)
        super().open_maps()

    def write_programs(self, target: BoundTarget) -> None:
        """Load the programs on the life of a request."""
        self._operations = RECORDED_OPERATIONS if self.reads_records else read_operations(self.types)
        self._devices = DeviceNames()
        self._devices.look()
        tasks = None if isinstance(self.tasks.filter, AnyTask) else self.tasks.filter
        device = find_device(target)
        self._requests = self.hold(RequestPrograms(tasks, self._fields, device, reads_records=self.reads_records))
        reason = f"requests began while {MOST_REQUESTS} others, as many as are remembered, were under way"
        self.count_lost(self._requests.lost, reason)
        self._requests.load(self, self._hand_over)

    def _hand_over(self, program: TaskAssembly, seen: Record) -> None:
        self.transport.write(program, seen, R6)

    def detach(self) -> None:
        """Keep how many requests were not seen to begin, and how many have not completed."""
        super().detach()
        self._unknown = self._requests.unknown.read_count()
        self._unfinished = self._requests.count_unfinished()

    def fields(self) -> Mapping[str, int]:
        """Return how many requests had begun before, of whomever, and how many of the target's had not completed."""
        return {**super().fields(), "begun_before": self._unknown, "unfinished": self._unfinished}

    def make_columns(self, records: npt.NDArray[Any]) -> Columns:
        """Make columns of completed requests; what one waited in a queue is absent where it was never inserted."""
        names = self.context.names
        keys, attributes = self._fields.make_columns(records, names)
        inserted_ns, issued_ns, ended_ns = (
            records[name].astype(np.int64) for name in ("inserted_ns", "issued_ns", "ns")
        )
        operations = records["flags"] & ((1 << OPERATION_BITS) - 1)
        self._devices.look()
        was_queued = inserted_ns != 0
        measured = {
            "latency_ns": Column(ended_ns - issued_ns),
            "queue_ns": Column(
                np.where(was_queued, issued_ns - inserted_ns, 0), None if was_queued.all() else was_queued
            ),
            "bytes": make_number_column(records["bytes"]),
            "sector": make_number_column(records["sector"]),
            "requests": Column(np.ones(len(records), np.int64)),
        }
        # The status is the block layer's own number, where a record has an error that was made of it.
        if not self.reads_records:
            measured["status"] = make_number_column(records["status"])
        made = {
            "dev": make_named_column(records["device"], self._devices.find, names),
            "dir": make_named_column(operations, self._find_direction, names),
            "op": make_named_column(operations, self._operations.get, names),
        }
        return Columns({**made, **keys}, {**measured, **attributes})

    def _find_direction(self, operation: int) -> str | None:
        name = self._operations.get(operation)
        return name if name in _DIRECTIONS else None
