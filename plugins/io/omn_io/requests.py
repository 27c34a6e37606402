"""Block requests one by one, each an event when it completes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.columns import Columns, make_named_column, make_number_column
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R6
from omn_kernel.bpf.streaming import StreamCollector

from omn_core.api import Column
from omn_io.programs.requests import OPERATION_BITS, make_record
from omn_io.traced_requests import TracedRequests

_DIRECTIONS = frozenset({"read", "write", "discard", "flush"})


class Requests(TracedRequests, StreamCollector):
    """An event for each request of the target that completes, with whoever inserted it.

    A request that was issued before the programs were attached has no beginning and is in no event, but in a field.
    """

    def open_maps(self) -> None:
        """Open the way that the entries of completed requests come."""
        self.record = make_record(self.task_fields)
        super().open_maps()

    def take(self, program: TaskAssembly, seen: Record) -> None:
        """Emit what hands a request over."""
        self.transport.write(program, seen, R6)

    def make_columns(self, records: npt.NDArray[Any]) -> Columns:
        """Make columns of completed requests; what one waited in a queue is absent where it was never inserted."""
        names = self.context.names
        keys, attributes = self.task_fields.make_columns(records, names)
        inserted_ns, issued_ns, ended_ns = (
            records[name].astype(np.int64) for name in ("inserted_ns", "issued_ns", "ns")
        )
        operations = records["flags"] & ((1 << OPERATION_BITS) - 1)
        self.devices.look()
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
            "dev": make_named_column(records["device"], self.devices.find, names),
            "dir": make_named_column(operations, self._find_direction, names),
            "op": make_named_column(operations, self.operations.get, names),
        }
        return Columns({**made, **keys}, {**measured, **attributes})

    def _find_direction(self, operation: int) -> str | None:
        name = self.operations.get(operation)
        return name if name in _DIRECTIONS else None
