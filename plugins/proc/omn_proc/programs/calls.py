"""System calls from where they are entered to where they return, added up in the kernel.

Where a call began is kept with its task: in the task's own storage (Linux 5.13), or in a hash by the task's number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.attaching import AnyHook
from omn_kernel.bpf.filters import TaskFilter
from omn_kernel.bpf.hooks import RawTracepoint, TypedTracepoint
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R3, R4, R6, R7, R8, Register
from omn_kernel.bpf.system_calls import read_compat
from omn_kernel.btf.fields import has_field
from omn_kernel.btf.types import Btf

BEGUN = np.dtype([("ns", np.uint64), ("number", np.uint32), ("is_compat", np.uint32)])
"""A call that has begun: when, by which number, and whether 32-bit code made it. No time means none has."""

_TASK = np.dtype([("task", np.uint32)])
MOST_TASKS = 1 << 15
_CREATE = 1


class Begun(ABC):
    """Where the calls stand that tasks are in. `has_typed_pointers` says how programs reach a task there.

    `lost` counts the calls that found no room.
    """

    has_typed_pointers: bool

    def __init__(self, table: Map) -> None:
        self._table = table
        self.lost = LostCounter()

    @abstractmethod
    def make(self, program: TaskAssembly, task: Register) -> None:
        """Emit what sets R0 to the call of a task, made where it has none; zero where that has no room, counted."""

    @abstractmethod
    def find(self, program: TaskAssembly, task: Register) -> None:
        """Emit what sets R0 to the call of a task, zero where it was in none that was seen to begin."""

    def close(self) -> None:
        """Let go of the maps."""
        self._table.close()
        self.lost.close()


class TaskBegun(Begun):
    """Calls in the storage of each task, which ends with it."""

    has_typed_pointers = True

    def __init__(self) -> None:
        super().__init__(Map(MapType.TASK_STORAGE, "begun", np.int32, BEGUN, 0))

    def make(self, program: TaskAssembly, task: Register) -> None:
        """Emit the look-up that makes what it does not find."""
        self._look_up(program, task, _CREATE)
        with program.when(R0, "==", 0):
            self.lost.emit_count(program)

    def find(self, program: TaskAssembly, task: Register) -> None:
        """Emit the look-up."""
        self._look_up(program, task, 0)

    def _look_up(self, program: TaskAssembly, task: Register, flags: int) -> None:
        program.load_map(R1, self._table)
        program.move(R2, task)
        program.move(R3, 0)
        program.move(R4, flags)
        program.call("task_storage_get")


class NumberedBegun(Begun):
    """Calls in a hash, under the number of each task; the longest unused give way to others when it is full."""

    has_typed_pointers = False

    def __init__(self) -> None:
        super().__init__(Map(MapType.LRU_HASH, "begun", _TASK, BEGUN, MOST_TASKS))

    def make(self, program: TaskAssembly, task: Register) -> None:
        """Emit the look-up, and where it finds nothing the entry that it finds then."""
        empty, end = program.reserve(BEGUN), program.make_label("begun")
        key = self._look_up(program, task)
        program.jump_if(R0, "!=", 0, end)
        program.clear(empty)
        program.update(self._table, key, empty)
        program.look_up(self._table, key)
        program.jump_if(R0, "!=", 0, end)
        self.lost.emit_count(program)
        program.label(end)

    def find(self, program: TaskAssembly, task: Register) -> None:
        """Emit the look-up."""
        self._look_up(program, task)

    def _look_up(self, program: TaskAssembly, task: Register) -> Record:
        key = program.reserve(_TASK)
        program.read_thread(R1, task)
        program.set(key, "task", R1)
        program.look_up(self._table, key)
        return key


def open_begun(types: Btf) -> Begun:
    """Open the storage of tasks where programs may use it, else the hash."""
    return TaskBegun() if has_field(types, "task_struct", "bpf_storage") else NumberedBegun()


def write_enter(program: TaskAssembly, begun: Begun, tasks: TaskFilter) -> None:
    """Write the program on sys_enter(registers, number)."""
    program.move(R6, R1)
    program.point_to_current(R7)
    tasks.keep(program, R7, otherwise="done")
    begun.make(program, R7)
    program.jump_if(R0, "==", 0, "done")
    program.move(R8, R0)
    call = Record(R8, BEGUN)
    program.read_argument(R1, R6, 1)
    program.set(call, "number", R1)
    read_compat(program, R1, R7)
    program.set(call, "is_compat", R1)
    read_clock(program, R1)
    program.set(call, "ns", R1)
    program.label("done")
    program.leave(0)


def hook_calls(name: str, begun: Begun, types: Btf) -> AnyHook:
    """Return the tracepoint of system calls, with pointers as its programs take them."""
    return TypedTracepoint(name, types) if begun.has_typed_pointers else RawTracepoint(name)
