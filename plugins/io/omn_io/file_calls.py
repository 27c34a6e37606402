"""Calls on files as events: each one by itself, or all of them added up in the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.call_tables import name_place
from omn_kernel.bpf.collecting import ProgramCollector
from omn_kernel.bpf.columns import Columns, make_named_column
from omn_kernel.bpf.maps import Entries
from omn_kernel.bpf.open_files import OpenFiles
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R6, R7
from omn_kernel.bpf.rows import RowCollector
from omn_kernel.bpf.stacked import StackedRecords
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.tasks import TaskFields
from omn_kernel.bpf.transport import STAMP
from omn_kernel.error_names import name_error

from omn_core.api import BoundTarget, Column, Names, ResolvedRequest, RunContext
from omn_io.programs.file_calls import KIND, READ, WRITE, CallKind, FileCalls, make_layout

Array = npt.NDArray[Any]
Calls = Mapping[str, CallKind]
_DIRECTIONS = {READ: "read", WRITE: "write"}
_ROW = np.dtype([("calls", "u8"), ("bytes", "u8"), ("total_ns", "u8")])


def load_calls(
    collector: ProgramCollector,
    calls: Calls,
    files: OpenFiles,
    states: TaskStates,
    hand_over: Callable[[TaskAssembly, Record], None],
) -> FileCalls:
    """Load the programs of some calls, the last of them first: none is seen to begin without its end."""
    written = collector.hold(FileCalls(calls, collector.tasks.filter, files, states))
    collector.load_states(states)
    collector.load_event("sys_exit", lambda program: written.write_exit(program, hand_over))
    collector.load_event("sys_enter", written.write_enter)
    return written


def describe_paths(lost: int, files: OpenFiles) -> tuple[str, ...]:
    """Say which files are named by their number alone."""
    return (f"{lost} events are of files beyond {files.most}, which are named by device and inode",) if lost else ()


def make_call_columns(told: Array, files: OpenFiles, names: Names) -> dict[str, Column]:
    """Make the keys of calls, of records or of the keys of rows."""
    directions = np.ascontiguousarray(told["kind"]).view(KIND)["dir"]
    return {
        "op": make_named_column(told["place"], name_place, names),
        "dir": make_named_column(directions, _DIRECTIONS.get, names),
        **files.make_columns(told, names),
    }


class FileCallRecords(StackedRecords):
    """An event for each call of the target that returns; what moves bytes between two files is one of each of them."""

    takes_user_stacks_only = True

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._unknown = self._unfinished = self._unnamed = 0

    def open_maps(self) -> None:
        """Open the way that records come, the files that they name, and the calls that have begun."""
        self._files = self.hold(OpenFiles(self.resolved))
        self.layout = make_layout(self._files)
        super().open_maps()
        self._states = self.hold(TaskStates("calls_begun", self.record))

    def write_programs(self, target: BoundTarget) -> None:
        """Load the programs where calls are entered and where they return."""
        self._programs = load_calls(self, self._calls, self._files, self._states, self._hand_over)

    def _hand_over(self, program: TaskAssembly, call: Record) -> None:
        self.take_stack(program, call, R6)
        program.read_process(R1, R7)
        program.set(call, "process", R1)
        self.task_fields.write(program, call, R7)
        self.transport.write(program, call, R6)

    def detach(self) -> None:
        """Keep the files' names, how many calls were not seen to begin, and how many have not returned."""
        super().detach()
        self._files.read()
        self._unnamed = self._files.lost.read_count()
        self._unknown = self._programs.unknown.read_count()
        self._unfinished = self._programs.count_unfinished()

    def fields(self) -> Mapping[str, int]:
        """Return how many of the target's calls had begun before, and how many had not returned at the end."""
        return {**super().fields(), "begun_before": self._unknown, "unfinished": self._unfinished}

    def degradations(self) -> tuple[str, ...]:
        """Say what could not be named."""
        return (*super().degradations(), *describe_paths(self._unnamed, self._files))

    def make_columns(self, records: Array) -> Columns:
        """Make columns of calls: one that fails moves no bytes, and has an error."""
        names = self.context.names
        keys, attributes = self.task_fields.make_columns(records, names)
        result = records["result"]
        failed = result < 0
        measured = {
            "bytes": Column(np.where(failed, 0, result)),
            "time_ns": Column((records["ns"] - records["began_ns"]).astype(np.int64)),
            "calls": Column(np.ones(len(records), np.int64)),
            "failed": Column(failed.astype(np.int64)),
            "error": make_named_column(np.minimum(result, 0), _find_error, names),
        }
        told = {**make_call_columns(records, self._files, names), **keys}
        return Columns(told, {**measured, **attributes}, stack=self.make_stacks(records))


def _find_error(result: int) -> str | None:
    """Name the error of a call that failed, whose number is below zero."""
    return name_error(-result) if result < 0 else None


class FileCallRows(RowCollector):
    """A row for each call by name, direction, outcome and file, and what else divides the answer."""

    row = _ROW
    entries = 1 << 15

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._unknown = self._unfinished = self._unnamed = 0

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Find what the answer shows of a task, and open what needs no target."""
        self._fields = TaskFields(resolved)
        super().prepare(resolved, context)

    def open_maps(self) -> None:
        """Open the rows, the files that they name, and the calls that have begun."""
        self._files = self.hold(OpenFiles(self.resolved))
        own = [("place", "u4"), ("kind", "u4"), ("error", "u4"), *self._files.layout]
        self.key = np.dtype([*own, *self._fields.layout], align=True)
        super().open_maps()
        state = np.dtype([(STAMP, "u8"), *make_layout(self._files)], align=True)
        self._states = self.hold(TaskStates("calls_begun", state))

    def write_programs(self, target: BoundTarget) -> None:
        """Load the programs where calls are entered and where they return."""
        self._programs = load_calls(self, self._calls, self._files, self._states, self._hand_over)
        self._fields.look()

    def _hand_over(self, program: TaskAssembly, call: Record) -> None:
        key, empty = program.reserve(self.key), program.reserve(_ROW)
        failed, counted = program.make_label("failed"), program.make_label("counted")
        program.clear(key)
        program.clear(empty)
        for field in ("place", "kind", *(name for name, _ in self._files.layout)):
            program.get(R1, call, field)
            program.set(key, field, R1)
        program.get(R1, call, "result")
        with program.when(R1, "s<", 0):
            program.move(R2, 0)
            program.compute(R2, "-=", R1)
            program.set(key, "error", R2)
        self._fields.write(program, key, R7)
        self.rows.find_or_make(program, key, empty)
        program.jump_if(R0, "==", 0, counted)
        row = Record(R0, _ROW)
        program.move(R1, 1)
        program.add_to(row, "calls", R1)
        program.get(R1, call, STAMP)
        program.get(R2, call, "began_ns")
        program.compute(R1, "-=", R2)
        program.add_to(row, "total_ns", R1)
        program.get(R1, call, "result")
        program.jump_if(R1, "s<", 0, failed)
        program.add_to(row, "bytes", R1)
        program.label(failed)
        program.label(counted)

    def detach(self) -> None:
        """Keep how many calls were not seen to begin, and how many have not returned."""
        super().detach()
        self._unnamed = self._files.lost.read_count()
        self._unknown = self._programs.unknown.read_count()
        self._unfinished = self._programs.count_unfinished()

    def fields(self) -> Mapping[str, int]:
        """Return how many of the target's calls had begun before, and how many had not returned at the end."""
        return {**super().fields(), "begun_before": self._unknown, "unfinished": self._unfinished}

    def degradations(self) -> tuple[str, ...]:
        """Say what could not be named."""
        return (*super().degradations(), *describe_paths(self._unnamed, self._files))

    def make_columns(self, entries: Entries) -> Columns:
        """Make columns of rows: what a row added up is that of two, so that bytes in whole numbers are exact."""
        rows, weight, measured = split_evenly(entries.values)
        told = entries.keys[rows]
        names = self.context.names
        self._files.read()
        keys, attributes = self._fields.make_columns(told, names)
        error = told["error"].astype(np.int64)
        answered = {
            "failed": Column((error != 0).astype(np.int64)),
            "error": make_named_column(-error, _find_error, names),
            "calls": Column(np.ones(len(rows), np.int64)),
        }
        made = {**make_call_columns(told, self._files, names), **keys}
        return Columns(made, {**measured, **answered, **attributes}, weight)


def split_evenly(values: Array) -> tuple[Array, Array, dict[str, Column]]:
    """Split rows so that each part's calls moved the same number of bytes each, and return them with their weights.

    The first array says which row each part is of. A part's time is its share of the row's, none of it lost.
    """
    calls, moved, total_ns = (values[name].astype(np.int64) for name in ("calls", "bytes", "total_ns"))
    more = moved % calls
    divided = np.flatnonzero(more)
    rows = np.concatenate([np.arange(len(values)), divided])
    weight = np.concatenate([calls - more, more[divided]])
    each = np.concatenate([moved // calls, (moved // calls + 1)[divided]])
    taken_ns = total_ns // calls * more
    time_ns = np.concatenate([total_ns - taken_ns, taken_ns[divided]])
    measured = {"bytes": Column(each), "time_ns": Column(time_ns // weight), "total_ns": Column(time_ns)}
    return rows, weight, measured
