"""What records and rows say of a task: the fields that an answer shows, written by programs and made into columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omn_core.api import Column, Names, ResolvedRequest
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.columns import make_named_column, make_text_column
from omn_kernel.bpf.identity import PROCESS_FIELDS, copy_process, make_process_column
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.record_arguments import reads_records
from omn_kernel.bpf.registers import R0, R1, R2, R3, Register
from omn_kernel.cgroup_names import CgroupNames
from omn_kernel.procfs.process import find_comm, find_parent, find_process_key

_UNRECORDED = frozenset({"ppid", "cgroup", "proc"})
"""The fields that the kernel's types alone tell."""
_LAYOUTS = {
    "task": [("task", "u4")],
    "pid": [("pid", "u4")],
    "ppid": [("ppid", "u4")],
    "cpu": [("cpu", "u4")],
    "cgroup": [("cgroup", "u8")],
    "comm": [("comm", "S16")],
    "proc": PROCESS_FIELDS,
}
_WORDS = frozenset({4, 8})
_KEYS = ("task", "proc", "cpu", "cgroup")
_ATTRIBUTES = ("pid", "ppid")
Fields: TypeAlias = Mapping[str, Column]


class TaskFields:
    """The fields of a task that the answer to a request shows, of those that programs read: keys, and comm and pids.

    `cpu` is the one that the program runs on, `comm` what the task calls itself then. `proc` is its process's pid
    namespace and its number there, read in the kernel: what ends before anybody looks has its name too. `cgroup` is
    its cgroup2 cgroup, by its path. Where records are read there is none of these two, nor a parent. `others` are
    fields that the source has of something else under these names.
    """

    def __init__(self, resolved: ResolvedRequest, others: Collection[str] = ()) -> None:
        entry = resolved.entry
        had = {*entry.keys_of(resolved.backend), *entry.attributes}.difference(others)
        if reads_records(resolved):
            had -= _UNRECORDED
        self.shown = tuple(name for name in _LAYOUTS if name in had and resolved.shows(name))
        self.layout = [part for name in self.shown for part in _LAYOUTS[name]]
        self._cgroups = CgroupNames()

    def look(self) -> None:
        """Read which cgroups there are, where they are shown."""
        if "cgroup" in self.shown:
            self._cgroups.look()

    def write(self, program: TaskAssembly, record: Record, task: Register) -> None:
        """Emit what sets the fields in a record. R0 to R5 hold nothing of the program's after it. Raises FieldMissing.

        The register stands for the task, and is one of R6 to R9.
        """
        if "task" in self.shown:
            program.read_thread(R1, task)
            program.set(record, "task", R1)
        if "pid" in self.shown:
            program.read_process(R1, task)
            program.set(record, "pid", R1)
        if "cpu" in self.shown:
            program.call("get_smp_processor_id")
            program.set(record, "cpu", R0)
        if "comm" in self.shown:
            program.copy_comm(record, "comm", task)
        if isinstance(program, KernelAssembly):
            self._write_typed(program, record, task)

    def _write_typed(self, program: KernelAssembly, record: Record, task: Register) -> None:
        for name, path in {"ppid": "real_parent.tgid", "cgroup": "cgroups.dfl_cgrp.kn.id"}.items():
            if name in self.shown:
                program.read_field(R1, task, "task_struct", path)
                program.set(record, name, R1)
        if "proc" in self.shown:
            copy_process(program, record, task)

    def copy(self, program: TaskAssembly, record: Record, source: Record) -> None:
        """Emit what copies the fields from another record that has them. R0 to R5 hold nothing after it.

        Both records' registers are of R6 to R10.
        """
        for name, _ in self.layout:
            offset, size = source.locate(name)
            if size in _WORDS:
                program.get(R1, source, name)
                program.set(record, name, R1)
                continue
            program.point_at(R1, record, name)
            program.move(R2, size)
            program.move(R3, source.base)
            program.compute(R3, "+=", offset)
            program.call("probe_read_kernel")

    def read_task(self, row: npt.NDArray[Any], process: int, thread: int) -> None:
        """Set the fields in a record of a task that there is, from /proc; of what is gone meanwhile they stay zero.

        Not `cpu` and `cgroup`, which say where a program ran.
        """
        key = find_process_key("/", process)
        inode, number = (int(part) for part in key.split(":")) if key is not None else (0, 0)
        read: Mapping[str, Any] = {
            "task": thread,
            "pid": process,
            "ppid": find_parent("/", process) or 0,
            "comm": find_comm("/", process, thread) or b"",
            "proc_inode": inode,
            "proc_number": number,
        }
        for name in read.keys() & set(row.dtype.names or ()):
            row[name] = read[name]

    def make_columns(self, records: npt.NDArray[Any], names: Names) -> tuple[Fields, Fields]:
        """Make the keys and the attributes of records."""
        self.look()
        keys = {name: self._make_key(name, records, names) for name in _KEYS if name in self.shown}
        attributes = {name: _make_process(records[name]) for name in _ATTRIBUTES if name in self.shown}
        if "comm" in self.shown:
            # It is a key that divides, and a label of those that do.
            keys["comm"] = make_text_column(records["comm"], names)
        return keys, attributes

    def _make_key(self, name: str, records: npt.NDArray[Any], names: Names) -> Column:
        if name == "cgroup":
            return make_named_column(records["cgroup"], self._cgroups.find, names)
        if name == "proc":
            return make_process_column(records, names)
        return Column(records[name].astype(np.int64))


def _make_process(numbers: npt.NDArray[Any]) -> Column:
    """Make a column of processes; one that nobody told, 0, is absent."""
    return Column(numbers.astype(np.int64), numbers != 0)
