"""io.writeback: inodes whose pages the page cache writes to their device, each when it was written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.columns import (
    Columns,
    keep_where,
    make_named_column,
    make_number_column,
    make_spelled_column,
)
from omn_kernel.bpf.open_files import OpenFiles
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R6
from omn_kernel.bpf.streaming import StreamCollector
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.tasks import TaskFields
from omn_kernel.bpf.transport import STAMP
from omn_kernel.btf.fields import iter_enumerators
from omn_kernel.tracepoints import read_symbols

from omn_core.api import BoundTarget, Column, ResolvedRequest, RunContext
from omn_io.file_calls import describe_paths
from omn_io.programs.writeback import NO_WORK, TypedWritebacks, Writebacks, make_layout, make_state
from omn_io.programs.writeback_records import DEVICE_LAYOUT, RecordedWritebacks
from omn_io.request_names import DeviceNames, compute_device_number

_PREFIX, _END = "WB_REASON_", "WB_REASON_MAX"
_DIRECT = "direct"
_NUMBER = re.compile(r"\d+:\d+")
_MOST_FILES = 1 << 14
"""A sync of a busy machine writes thousands of inodes at once."""


class Writeback(StreamCollector):
    """An event for each inode that was written back, of who asked for it and for what reason."""

    _unnamed = 0

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Find what the answer shows of a task, and open what needs no target."""
        self._fields = TaskFields(resolved)
        super().prepare(resolved, context)

    def open_maps(self) -> None:
        """Open the way that records come, the inodes' names, and the tasks that write back."""
        self._files = self.hold(OpenFiles(self.resolved, _MOST_FILES))
        self._has_device = self.reads_records and self.resolved.shows("dev")
        told = self._files.layout if not self.reads_records else DEVICE_LAYOUT if self._has_device else []
        self.record = np.dtype([(STAMP, "u8"), *make_layout(self._fields, told)], align=True)
        super().open_maps()
        self._states = self.hold(TaskStates("writing_back", make_state(self._fields)))

    def write_programs(self, target: BoundTarget) -> None:
        """Load the programs."""
        self._reasons = {**self._read_reasons(), NO_WORK: _DIRECT}
        self._devices = DeviceNames()
        self._fields.look()
        self.hold(self._make_programs()).load(self, self.record, self._hand_over)

    def _make_programs(self) -> Writebacks:
        if self.reads_records:
            return RecordedWritebacks(self._fields, self._states, has_device=self._has_device)
        return TypedWritebacks(self._fields, self._states, self._files)

    def _read_reasons(self) -> Mapping[int, str]:
        if self.reads_records:
            return read_symbols("writeback/writeback_start", "reason")
        reasons = iter_enumerators(self.types, "wb_reason")
        return {number: _spell_reason(name) for name, number in reasons if name != _END}

    def _hand_over(self, program: TaskAssembly, record: Record) -> None:
        self.transport.write(program, record, R6)

    def detach(self) -> None:
        """Keep the files' names."""
        super().detach()
        self._files.read()
        self._unnamed = self._files.lost.read_count()

    def degradations(self) -> tuple[str, ...]:
        """Say what could not be named."""
        return describe_paths(self._unnamed, self._files)

    def make_columns(self, records: npt.NDArray[Any]) -> Columns:
        """Make columns of inodes that were written back."""
        names = self.context.names
        is_told = records["is_untold"] == 0
        keys, attributes = (
            {name: keep_where(column, is_told) for name, column in columns.items()}
            for columns in self._fields.make_columns(records, names)
        )
        self._devices.look()
        measured = {
            "reason": make_named_column(records["reason"], self._reasons.get, names),
            "pages": make_number_column(records["pages"]),
            "time_ns": Column((records["ns"] - records["began_ns"]).astype(np.int64)),
            "inodes": Column(np.ones(len(records), np.int64)),
        }
        return Columns({**self._make_files(records), **keys}, {**measured, **attributes})

    def _make_files(self, records: npt.NDArray[Any]) -> dict[str, Column]:
        """Make the keys of where inodes are."""
        names = self.context.names
        if self.reads_records:
            return {"dev": make_spelled_column(records["bdi"], self._spell_device, names)} if self._has_device else {}
        made = self._files.make_columns(records, names)
        if self._files.layout:
            made["dev"] = make_named_column(records["device"], self._devices.find, names)
        return made

    def _spell_device(self, name: bytes) -> str:
        """Spell a device by the name of what writes to it: its number, of a file system without one its own word."""
        text = name.rstrip(b"\0").decode()
        return self._devices.find(compute_device_number(text)) or text if _NUMBER.fullmatch(text) else text


def _spell_reason(name: str) -> str:
    return name.removeprefix(_PREFIX).lower()
