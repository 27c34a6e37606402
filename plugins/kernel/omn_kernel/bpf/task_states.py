"""What programs remember of each thread from one event to the next, until the kernel lets the thread go."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from omn_kernel.bpf.assembly import Assembly, Record
from omn_kernel.bpf.hooks import RawTracepoint
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R6, Register
from omn_kernel.btf.types import Btf

MOST_THREADS = 1 << 15
"""Of how many threads something is remembered at a time."""
FORGETTING = "sched_process_free"
_ID = np.dtype([("id", np.uint32)])


class TaskStates:
    """A state of each thread, by its number. Raises MachineRefused where the kernel makes no such map.

    A thread's number may be given to another before the kernel lets the thread go. Whoever needs to know puts a new
    state where a task starts (sched_wakeup_new). `lost` counts states that found no room.
    """

    def __init__(self, name: str, state: np.dtype[Any]) -> None:
        self.state = state
        self.table = Map(MapType.HASH, name, _ID, state, MOST_THREADS)
        self.lost = LostCounter()

    def write_programs(self, types: Btf) -> list[tuple[Assembly, RawTracepoint]]:
        """Write the program that forgets threads, to be attached before those that remember. Raises FieldMissing."""
        program = KernelAssembly("forget_task", types, has_typed_pointers=False)
        self.write_forgetting(program)
        return [(program, RawTracepoint(FORGETTING))]

    def write_forgetting(self, program: TaskAssembly) -> None:
        """Write the program on the tracepoint `FORGETTING`, sched_process_free(task)."""
        key = program.reserve(_ID)
        program.read_argument(R6, R1, 0)
        self._set_key(program, key, R6)
        program.delete(self.table, key)
        program.leave(0)

    def look_up(self, program: TaskAssembly, task: Register) -> Record:
        """Emit what sets R0 to a task's state, or to zero where there is none. R1 to R5 hold nothing after it."""
        key = program.reserve(_ID)
        self._set_key(program, key, task)
        program.look_up(self.table, key)
        return Record(R0, self.state)

    def find_begun(
        self, program: TaskAssembly, task: Register, field: str, *, at: Register, began: Register, otherwise: str
    ) -> Record:
        """Emit what finds the state of a task in which something has begun, and goes to a label where nothing has.

        `field` of the state says when or where it began, 0 for nothing. `at`, one of R6 to R9, is set to where the
        state lies, and `began` to that field. R0 to R5 hold nothing else of the program's after it.
        """
        self.look_up(program, task)
        program.jump_if(R0, "==", 0, otherwise)
        program.move(at, R0)
        state = Record(at, self.state)
        program.get(began, state, field)
        program.jump_if(began, "==", 0, otherwise)
        return state

    def put(self, program: TaskAssembly, task: Register, state: Record) -> None:
        """Emit what remembers a task's state, and counts where there is no room. R0 to R5 hold nothing after it."""
        key = program.reserve(_ID)
        self._set_key(program, key, task)
        program.update(self.table, key, state)
        with program.when(R0, "!=", 0):
            self.lost.emit_count(program)

    def forget(self, thread: int) -> None:
        """Forget a thread, where it is remembered."""
        with suppress(FileNotFoundError):
            self.table.delete((thread,))

    def _set_key(self, program: TaskAssembly, key: Record, task: Register) -> None:
        program.read_thread(R1, task)
        program.set(key, "id", R1)

    def close(self) -> None:
        """Let go of the map. What it holds is forgotten."""
        self.table.close()
        self.lost.close()
