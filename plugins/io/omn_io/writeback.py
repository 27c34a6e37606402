"""io.writeback: inodes whose pages the page cache writes to their device, each when it was written."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.columns import Columns, make_named_column, make_number_column
from omn_kernel.bpf.open_files import OpenFiles
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R6
from omn_kernel.bpf.streaming import StreamCollector
from omn_kernel.bpf.task_states import MOST_THREADS, TaskStates
from omn_kernel.bpf.tasks import TaskFields
from omn_kernel.bpf.transport import STAMP
from omn_kernel.btf.fields import iter_enumerators

from omn_core.api import BoundTarget, Column, ResolvedRequest, RunContext
from omn_io.file_calls import describe_paths
from omn_io.programs.writeback import NO_WORK, Writebacks, make_layout, make_state
from omn_io.request_names import DeviceNames

_PREFIX, _END = "WB_REASON_", "WB_REASON_MAX"
_DIRECT = "direct"
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
        self.record = np.dtype([(STAMP, "u8"), *make_layout(self._fields, self._files)], align=True)
        super().open_maps()
        self._states = self.hold(TaskStates("writing_back", make_state(self._fields)))

    def write_programs(self, target: BoundTarget) -> None:
        """Load the programs."""
        reasons = iter_enumerators(self.types, "wb_reason")
        self._reasons = {number: _spell_reason(name) for name, number in reasons if name != _END}
        self._reasons[NO_WORK] = _DIRECT
        self._devices = DeviceNames()
        self._fields.look()
        self.count_lost(self._states.lost, f"tasks found no room among the {MOST_THREADS} that are remembered")
        written = self.hold(Writebacks(self._fields, self._files, self._states))
        written.load(self, self.record, self._hand_over)

    def _hand_over(self, program: KernelAssembly, record: Record) -> None:
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
        keys, attributes = self._fields.make_columns(records, names)
        self._devices.look()
        made = self._files.make_columns(records, names)
        if self._files.layout:
            made["dev"] = make_named_column(records["device"], self._devices.find, names)
        measured = {
            "reason": make_named_column(records["reason"], self._reasons.get, names),
            "pages": make_number_column(records["pages"]),
            "time_ns": Column((records["ns"] - records["began_ns"]).astype(np.int64)),
            "inodes": Column(np.ones(len(records), np.int64)),
        }
        return Columns({**made, **keys}, {**measured, **attributes})


def _spell_reason(name: str) -> str:
    return name.removeprefix(_PREFIX).lower()
