"""System calls one by one: what each was entered with, kept with its thread until it returns.

The path that a call names is read where it is entered, before another thread can write over it, up to its end or as
much of it as a record holds: reading stops at its last byte, whatever lies behind that.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import measure_span, read_clock
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R3, R6, R7, R8, R9
from omn_kernel.bpf.stacked import StackedRecords
from omn_kernel.bpf.system_calls import read_call_argument, read_call_number, read_compat
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.syscalls import find_syscall

ARGUMENTS = tuple(f"argument{position}" for position in range(6))
PATH_BYTES = 128
FIELDS = [
    ("began_ns", "u8"),
    ("time_ns", "i8"),
    ("number", "u4"),
    ("is_compat", "u4"),
    ("result", "i8"),
    *((name, "u8") for name in ARGUMENTS),
    ("path_argument", "i4"),
    ("path_bytes", "i4"),
    ("path", f"S{PATH_BYTES}"),
]
"""What is kept of a call: `began_ns` is when it was entered, 0 for none; `path_argument` is the one that is a path,
plus 1, 0 for none; `path_bytes` counts its closing zero byte, and is below zero where it could not be read."""

PENDING = 1 << 62
"""A result of a call that has not returned."""

_PATHS = {
    0: "open stat lstat access rename mkdir rmdir creat link unlink symlink readlink chmod chown lchown truncate "
    "statfs utime utimes mknod chdir chroot execve umount2 swapon swapoff getxattr lgetxattr setxattr lsetxattr "
    "listxattr llistxattr removexattr lremovexattr memfd_create symlinkat mq_open mq_unlink",
    1: "openat openat2 newfstatat statx mkdirat mknodat fchownat futimesat unlinkat renameat renameat2 linkat "
    "readlinkat fchmodat fchmodat2 faccessat faccessat2 execveat utimensat inotify_add_watch name_to_handle_at "
    "open_tree mount",
}
"""Which argument of a call is a path, or another name that ends in a zero byte; the first of them."""
_ENDLESS = ("exit", "exit_group")
_BIRTHS = ("clone", "clone3", "fork", "vfork")
_POSITION = np.dtype([("position", np.uint32)])
_NUMBER = np.dtype([("number", np.uint32)])
_MOST_NUMBERS = 1024


def open_paths() -> Map:
    """Open the array that says of each call of 64-bit code which argument is a path, plus 1."""
    paths = Map(MapType.ARRAY, "paths", _NUMBER, _POSITION, _MOST_NUMBERS)
    for number, position in find_paths().items():
        paths.update((number,), (position + 1,))
    return paths


def find_paths() -> Mapping[int, int]:
    """Find which argument of a call is a path, by the call's number on this machine."""
    found = {find_syscall(name): position for position, names in _PATHS.items() for name in names.split()}
    return {number: position for number, position in found.items() if number is not None}


@attrs.frozen
class CallPrograms:
    """Writes the programs on sys_enter and sys_exit. `unknown` counts calls that return and were not seen to begin."""

    collector: StackedRecords
    states: TaskStates
    paths: Map
    unknown: LostCounter

    def write_enter(self, program: TaskAssembly) -> None:
        """Write sys_enter(registers, number)."""
        call = program.reserve(self.states.state)
        program.move(R6, R1)
        program.point_to_current(R7)
        self.collector.tasks.filter.keep(program, R7, "done")
        program.clear(call)
        program.read_argument(R8, R6, 0)
        program.read_argument(R9, R6, 1)
        program.set(call, "number", R9)
        read_compat(program, R1, R7)
        program.set(call, "is_compat", R1)
        program.jump_if(R1, "!=", 0, "compat")
        self._leave_endless(program, is_compat=False)
        self._set_arguments(program, call, is_compat=False)
        self._read_path(program, call)
        program.jump("begin")
        program.label("compat")
        if isinstance(program, KernelAssembly) and program.has_field("pt_regs", "orig_ax"):
            self._leave_endless(program, is_compat=True)
            self._set_arguments(program, call, is_compat=True)
        program.label("begin")
        program.move(R1, PENDING)
        program.set(call, "result", R1)
        self.collector.take_task(program, call, R7, R6)
        read_clock(program, R0)
        program.set(call, "began_ns", R0)
        self.states.put(program, R7, call)
        program.label("done")
        program.leave(0)

    def _leave_endless(self, program: TaskAssembly, *, is_compat: bool) -> None:
        for name in _ENDLESS:
            number = find_syscall(name, is_compat=is_compat)
            if number is not None:
                program.jump_if(R9, "==", number, "done")

    def _set_arguments(self, program: TaskAssembly, call: Record, *, is_compat: bool) -> None:
        for position, name in enumerate(ARGUMENTS):
            read_call_argument(program, R1, R8, position, is_compat=is_compat)
            program.set(call, name, R1)

    def _read_path(self, program: TaskAssembly, call: Record) -> None:
        """Read the path that the call of R9 names, where it names one."""
        number, end = program.reserve(_NUMBER), program.make_label("path")
        program.set(number, "number", R9)
        program.look_up(self.paths, number)
        program.jump_if(R0, "==", 0, end)
        program.get(R1, Record(R0, _POSITION), "position")
        program.jump_if(R1, "==", 0, end)
        program.set(call, "path_argument", R1)
        program.get(R3, call, ARGUMENTS[0])
        for position in _PATHS:
            with program.when(R1, "==", position + 1):
                program.get(R3, call, ARGUMENTS[position])
        program.point_at(R1, call, "path")
        program.move(R2, PATH_BYTES)
        program.call("probe_read_user_str")
        program.set(call, "path_bytes", R0)
        program.label(end)

    def _leave_born(self, program: TaskAssembly) -> None:
        """Leave out a task's first return, of the call that its parent made: it has begun nothing."""
        counted = program.make_label("counted")
        program.read_argument(R1, R6, 1)
        program.jump_if(R1, "!=", 0, counted)
        program.read_argument(R8, R6, 0)
        read_call_number(program, R9, R8)
        for name in _BIRTHS:
            number = find_syscall(name)
            if number is not None:
                program.jump_if(R9, "==", number, "done")
        program.label(counted)

    def write_exit(self, program: TaskAssembly) -> None:
        """Write sys_exit(registers, result)."""
        program.move(R6, R1)
        program.point_to_current(R7)
        call = self.states.find_begun(program, R7, "began_ns", at=R8, began=R9, otherwise="unknown")
        measure_span(program, call, R9, "time_ns")
        program.read_argument(R1, R6, 1)
        program.set(call, "result", R1)
        self.collector.transport.write(program, call, R6)
        program.set(call, "began_ns", 0)
        program.jump("done")
        program.label("unknown")
        self._leave_born(program)
        self.collector.tasks.filter.keep(program, R7, "done")
        self.unknown.emit_count(program)
        program.label("done")
        program.leave(0)
