"""io.bytes and io.iops of tasks: what block requests moved, added up in the kernel by device, operation and task."""

from __future__ import annotations

from abc import ABC
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.columns import Columns, make_named_column
from omn_kernel.bpf.maps import Entries
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R8
from omn_kernel.bpf.rows import RowCollector

from omn_core.api import Batch, Column, ResolvedRequest, RunContext
from omn_io import transfers
from omn_io.programs.requests import OPERATION_BITS
from omn_io.traced_requests import TracedRequests
from omn_io.transfers import Account

_ROW = np.dtype([("requests", "u8"), ("bytes", "u8")])
_NO_TRANSFERS = frozenset({"drv-in", "drv-out", "scsi-in", "scsi-out"})
"""Commands that programs send to a device themselves, which the kernel's own counters leave out."""


class RequestSums(TracedRequests, RowCollector, ABC):
    """A row for each device, and for each of what divides the answer, in each interval.

    `account` says in which parts the value is told, `counted` which sum of requests it is. What began before the
    programs were attached is in no row, but in a field.
    """

    account: Account
    counted: str
    row = _ROW

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Open what needs no target."""
        self._facts: dict[str, None] = {}
        super().prepare(resolved, context)

    def open_maps(self) -> None:
        """Open the maps of rows under what divides the answer."""
        self.key = np.dtype([("device", "u4"), ("operation", "u4"), *self.task_fields.layout], align=True)
        super().open_maps()

    def take(self, program: TaskAssembly, seen: Record) -> None:
        """Emit what adds a request, whose entry R8 points to, to its row."""
        key, empty = program.reserve(self.key), program.reserve(_ROW)
        end = program.make_label("added")
        program.clear(key)
        program.clear(empty)
        program.get(R1, seen, "device")
        program.set(key, "device", R1)
        program.get(R1, seen, "flags")
        program.compute(R1, "&=", (1 << OPERATION_BITS) - 1)
        program.set(key, "operation", R1)
        self.task_fields.copy(program, key, seen)
        self.rows.find_or_make(program, key, empty)
        program.jump_if(R0, "==", 0, end)
        row = Record(R0, _ROW)
        program.move(R1, 1)
        program.add_to(row, "requests", R1)
        program.get(R1, Record(R8, seen.layout), "bytes")
        program.add_to(row, "bytes", R1)
        program.label(end)

    def facts(self) -> tuple[str, ...]:
        """Say which devices were left out."""
        return tuple(self._facts)

    def sample(self, now_ns: int) -> Batch:
        """Take what was added up; where nothing was and nothing divides the answer, that is a row of its own."""
        batch = super().sample(now_ns)
        if len(batch) or self.resolved.keys:
            return batch
        return Batch(np.array([self.context.clock()]), None, {}, {self.account.value: Column(np.zeros(1, np.int64))})

    def make_columns(self, entries: Entries) -> Columns:
        """Make columns of rows: by direction where that is asked, else whole with its parts beside it."""
        by_direction = self.resolved.is_divided_by("dir")
        directions = self.account.directions
        told, values = self._select(entries)
        places = told["operation"].astype(np.int64)
        if not by_direction:
            told["operation"] = 0
        rows, codes = np.unique(told, return_inverse=True)
        parts = np.zeros((len(directions), len(rows)), np.int64)
        np.add.at(parts, (places, codes.reshape(-1)), values)
        own, attributes = self.task_fields.make_columns(rows, self.context.names)
        keys = {"dev": make_named_column(rows["device"], self.devices.find, self.context.names), **own}
        if by_direction:
            ways = [one.way for one in directions]
            keys["dir"] = make_named_column(rows["operation"], ways.__getitem__, self.context.names)
            return Columns(keys, {self.account.value: Column(parts.sum(axis=0)), **attributes})
        told_apart = {one.part: Column(part) for one, part in zip(directions, parts, strict=True)}
        return Columns(keys, {self.account.value: Column(parts[0] + parts[1]), **told_apart, **attributes})

    def _select(self, entries: Entries) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Return the keys of rows that count, in place of their operation that of its direction, and their values."""
        self.devices.look()
        ways = [one.way for one in self.account.directions]
        told = entries.keys.copy()
        found = [self._find_way(number) for number in told["operation"].tolist()]
        is_wanted = [
            way in ways and self._is_wanted(device) for way, device in zip(found, told["device"].tolist(), strict=True)
        ]
        told["operation"] = [ways.index(way) if way in ways else 0 for way in found]
        kept = np.array(is_wanted, bool)
        return told[kept], entries.values[self.counted][kept].astype(np.int64)

    def _find_way(self, number: int) -> str | None:
        """Find the direction that the kernel's own counters have a request under, by its operation."""
        name = self.operations.get(number)
        if name is None or name in _NO_TRANSFERS:
            return None
        # The lowest bit of an operation says that it writes (op_is_write).
        return name if name in ("discard", "flush") else "write" if number & 1 else "read"

    def _is_wanted(self, device: int) -> bool:
        """Tell whether a device's requests count: what stands on others is done again by those, unless told apart."""
        below = self.devices.find_below(device)
        if not below or self.resolved.is_divided_by("dev"):
            return True
        fact = f"{self.devices.find(device)} is left out of the figure: it stands on {' and '.join(below)}"
        self._facts[fact] = None
        return False


class Bytes(RequestSums):
    """io.bytes: what requests of tasks moved."""

    account = transfers.Bytes.account
    counted = "bytes"


class Requests(RequestSums):
    """io.iops: requests of tasks."""

    account = transfers.Requests.account
    counted = "requests"
