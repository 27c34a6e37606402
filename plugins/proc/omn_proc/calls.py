"""proc.calls: system calls one by one, each from where it is entered to where it returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.columns import Columns, make_named_column
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.spans import SpanRecords
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.syscalls import name_syscall

from omn_core.api import BoundTarget, Column
from omn_proc.call_text import ArgumentNames, name_error, quote, spell_arguments, spell_number
from omn_proc.programs.call_records import ARGUMENTS, FIELDS, PATH_BYTES, PENDING, CallPrograms, open_paths

Records = npt.NDArray[Any]
_COMPAT_BIT = 32


class Calls(SpanRecords):
    """An event for each call that returns, and of each that has not when the window closes, for its time until there.

    A call that never returns is in none.
    """

    layout = FIELDS
    began = "began_ns"
    lasted = "time_ns"
    # The kernel's part is that of entering a call, the same of each.
    takes_user_stacks_only = True
    _begun_before = 0

    def open_maps(self) -> None:
        """Open the way that records come, the calls that threads are in, and which arguments are paths."""
        super().open_maps()
        self._states = self.hold(TaskStates("calls", self.record))
        self._paths = self.hold(open_paths())
        self._unknown = self.hold(LostCounter())
        self._names = ArgumentNames()

    def get_spans(self) -> Map:
        """Return the calls that threads are in."""
        return self._states.table

    def write_programs(self, target: BoundTarget) -> None:
        """Load the programs, and what forgets threads."""
        self.load_states(self._states)
        written = CallPrograms(self, self._states, self._paths, self._unknown)
        self.load_event("sys_exit", written.write_exit)
        self.load_event("sys_enter", written.write_enter)

    def detach(self) -> None:
        """Keep how many calls returned that were not seen to begin."""
        super().detach()
        self._begun_before = self._unknown.read_count()

    def make_columns(self, records: Records) -> Columns:
        """Make columns of calls. A result is absent of one that failed, an error of one that did not."""
        names = self.context.names
        keys, attributes = self.task_fields.make_columns(records, names)
        result = records["result"].astype(np.int64)
        has_failed = (result < 0) & (result >= -4095)
        numbers = records["number"].astype(np.int64) | records["is_compat"].astype(np.int64) << _COMPAT_BIT
        made = {
            "time_ns": Column(records["time_ns"].astype(np.int64)),
            "op": make_named_column(numbers, _name_call, names),
            "result": Column(result, ~has_failed & (result != PENDING)),
            "error": make_named_column(result, name_error, names),
        }
        if self.resolved.shows("arguments"):
            made["arguments"] = Column.of([self._spell(one).encode() for one in records], names)
        return Columns(keys, {**made, **attributes}, stack=self.make_stacks(records))

    def _spell(self, record: Any) -> str:
        values = [spell_number(int(record[name])) for name in ARGUMENTS]
        length = int(record["path_bytes"])
        if length > 0:
            values[int(record["path_argument"]) - 1] = quote(bytes(record["path"]), is_whole=length < PATH_BYTES)
        return spell_arguments(values, self._names.find(int(record["number"]), is_compat=bool(record["is_compat"])))

    def fields(self) -> Mapping[str, int]:
        """Return how many events there are, and how many calls returned that began before the window, in no event."""
        return {**super().fields(), "begun_before": self._begun_before}

    def facts(self) -> tuple[str, ...]:
        """Say where nobody tells how many arguments a call has."""
        untold = "what the arguments of some calls are, and how many, nobody tells here (tracefs): six are shown"
        return (*super().facts(), *(() if self._names.is_told else (untold,)))


def _name_call(number: int) -> str:
    return name_syscall(number & 0xFFFFFFFF, is_compat=bool(number >> _COMPAT_BIT))
