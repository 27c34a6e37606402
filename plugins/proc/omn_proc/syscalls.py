"""proc.syscall: system calls by name, counted and timed where they are made, by the power of two of their time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.columns import Columns, make_named_column, make_number_column, make_text_column
from omn_kernel.bpf.identity import PROCESS_FIELDS, copy_process, make_process_column
from omn_kernel.bpf.maps import Entries
from omn_kernel.bpf.pieces import compute_bucket, read_clock
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R3, R6, R7, R8, R9
from omn_kernel.bpf.rows import RowCollector
from omn_kernel.cgroup_names import CgroupNames
from omn_kernel.syscalls import name_syscall

from omn_core.api import BoundTarget, Column
from omn_proc.programs.calls import BEGUN, NumberedBegun, hook_calls, open_begun, write_enter

_COMPAT_BIT = 32
_LAST_ERROR = -4096
"""A call fails with one of the 4095 numbers below zero (MAX_ERRNO of <linux/err.h>)."""


class SystemCalls(RowCollector):
    """A row for each process, task name, call, outcome and power of two of the time that it took.

    A call is counted when it returns. One that began before the window, or has not returned at its end, is in no row.
    """

    key = np.dtype(
        [
            ("cgroup", np.uint64),
            ("process", np.uint32),
            ("task", np.uint32),
            ("number", np.uint32),
            ("is_compat", np.uint8),
            ("has_failed", np.uint8),
            ("bucket", np.uint16),
            ("comm", "S16"),
        ]
    )
    row = np.dtype([("calls", np.uint64), ("total_ns", np.uint64), *PROCESS_FIELDS, ("parent", np.uint64)])
    entries = 1 << 15

    def write_programs(self, target: BoundTarget) -> None:
        """Write the programs where calls are entered and where they return."""
        self._begun = self.hold(NumberedBegun() if self.reads_records else open_begun(self.types))
        self.count_lost(self._begun.lost, "calls began where the kernel had no memory to keep when")
        self._cgroups = CgroupNames()
        self._load("sys_exit", self._write_exit)
        self._load("sys_enter", lambda program: write_enter(program, self._begun, self.tasks.filter))

    def _load(self, name: str, write: Callable[[TaskAssembly], None]) -> None:
        """Load a program, with pointers as the calls that are kept take them."""
        if self.reads_records:
            self.load_event(name, write)
            return
        program = KernelAssembly(f"omn_{name}", self.types, has_typed_pointers=self._begun.has_typed_pointers)
        write(program)
        self.programs.load(program, hook_calls(name, self._begun, self.types))

    def _write_exit(self, program: TaskAssembly) -> None:
        """Write the program on sys_exit(registers, result)."""
        key, empty = program.reserve(self.key), program.reserve(self.row)
        program.move(R6, R1)
        program.point_to_current(R7)
        self._begun.find(program, R7)
        program.jump_if(R0, "==", 0, "done")
        program.move(R8, R0)
        call = Record(R8, BEGUN)
        program.get(R9, call, "ns")
        program.jump_if(R9, "==", 0, "done")
        read_clock(program, R0)
        program.compute(R0, "-=", R9)
        program.move(R9, R0)
        program.set(call, "ns", 0)
        program.clear(key)
        self._set_call(program, key, call)
        self._set_task(program, key)
        program.clear(empty)
        self.rows.find_or_make(program, key, empty, lambda: self._fill(program, empty))
        with program.when(R0, "!=", 0):
            program.move(R1, 1)
            program.add_to(Record(R0, self.row), "calls", R1)
            program.add_to(Record(R0, self.row), "total_ns", R9)
        program.label("done")
        program.leave(0)

    def _set_call(self, program: TaskAssembly, key: Record, call: Record) -> None:
        """Emit which call it was, how it ended and how long it took, of which R9 has the nanoseconds."""
        program.get(R1, call, "number")
        program.set(key, "number", R1)
        program.get(R1, call, "is_compat")
        program.set(key, "is_compat", R1)
        program.read_argument(R1, R6, 1)
        with program.when(R1, ">", _LAST_ERROR):
            program.set(key, "has_failed", 1)
        program.move(R2, R9)
        compute_bucket(program, R1, R2, R3)
        program.set(key, "bucket", R1)

    def _set_task(self, program: TaskAssembly, key: Record) -> None:
        """Emit who made it, the task and its cgroup only where the answer tells them apart."""
        program.call("get_current_pid_tgid")
        if self._divides_by("task"):
            program.set(key, "task", R0)
        program.compute(R0, ">>=", 32)
        program.set(key, "process", R0)
        program.point_at(R1, key, "comm")
        program.move(R2, self.key["comm"].itemsize)
        program.call("get_current_comm")
        if isinstance(program, KernelAssembly) and self._divides_by("cgroup"):
            program.read_field(R1, R7, "task_struct", "cgroups.dfl_cgrp.kn.id")
            program.set(key, "cgroup", R1)

    def _fill(self, program: TaskAssembly, row: Record) -> None:
        """Emit what a new row says of its process, where the answer can show it."""
        if not isinstance(program, KernelAssembly):
            return
        if self.resolved.shows("proc"):
            copy_process(program, row, R7)
        if self.resolved.shows("ppid"):
            program.read_field(R1, R7, "task_struct", "real_parent.tgid")
            program.set(row, "parent", R1)

    def _divides_by(self, key: str) -> bool:
        return self.resolved.is_divided_by(key)

    def make_columns(self, entries: Entries) -> Columns:
        """Make a row stand for as many calls as it counted, each of their mean time, with the exact total beside it."""
        calls = entries.values["calls"].astype(np.int64)
        total_ns = entries.values["total_ns"].astype(np.int64)
        counted = np.maximum(calls, 1)
        attributes = {
            "time_ns": Column(total_ns // counted),
            "total_ns": Column(total_ns),
            "calls": Column(np.ones(len(calls), np.int64)),
            "failed": make_number_column(entries.keys["has_failed"]),
            "comm": make_text_column(entries.keys["comm"], self.context.names),
            "pid": make_number_column(entries.keys["process"]),
        }
        if self.resolved.shows("ppid"):
            attributes["ppid"] = make_number_column(entries.values["parent"])
        return Columns(self._make_keys(entries), attributes, calls)

    def _make_keys(self, entries: Entries) -> dict[str, Column]:
        keys, names = entries.keys, self.context.names
        numbers = keys["number"].astype(np.int64) | keys["is_compat"].astype(np.int64) << _COMPAT_BIT
        made = {"op": make_named_column(numbers, _name_call, names)}
        if self._divides_by("task"):
            made["task"] = make_number_column(keys["task"])
        if self._divides_by("cgroup"):
            self._cgroups.look()
            made["cgroup"] = make_named_column(keys["cgroup"], self._cgroups.find, names)
        if self.resolved.shows("proc"):
            made["proc"] = make_process_column(entries.values, names)
        return made


def _name_call(number: int) -> str:
    return name_syscall(number & 0xFFFFFFFF, is_compat=bool(number >> _COMPAT_BIT))
