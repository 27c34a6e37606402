"""The processes of a target and all that they start, kept by programs as they are started and end.

What a program asks of a task is whether its process stands in a map. Processes come into it where their parents are in
it already, and leave it when the last of them is let go by the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import numpy as np

from omn_core.api import ProcessHandle
from omn_kernel.bpf.assembly import Assembly, Record
from omn_kernel.bpf.hooks import RawTracepoint, Tracepoint
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.reading import KernelAssembly, RecordAssembly, TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, Register
from omn_kernel.btf.types import Btf
from omn_kernel.procfs.process import ProcessGone, list_threads
from omn_kernel.procfs.tree import ProcessTree
from omn_kernel.tracepoints import read_format

MOST_PROCESSES = 1 << 14
"""How many processes are followed at a time."""
_MOST_THREADS = 1 << 16
_ID = np.dtype([("id", np.uint32)])
_PROCESS = np.dtype([("start_ns", np.uint64)])
_THREAD = np.dtype([("process", np.uint32)])
_CLONE_THREAD = 0x00010000


class Follower:
    """Follows processes by the raw tracepoints of a task's start and of its end (sched_process_fork, _free).

    `lost` counts processes that found no room among those that are followed.
    """

    def __init__(self) -> None:
        self.processes = Map(MapType.HASH, "processes", _ID, _PROCESS, MOST_PROCESSES)
        self.lost = LostCounter()

    def write_programs(self, types: Btf) -> list[tuple[Assembly, RawTracepoint]]:
        """Write the programs, to be attached before those that ask. Raises FieldMissing."""
        fork, free = (f"sched_process_{event}" for event in ("fork", "free"))
        return [(self._write_fork(types), RawTracepoint(fork)), (self._write_free(types), RawTracepoint(free))]

    def _write_fork(self, types: Btf) -> Assembly:
        program = KernelAssembly("follow_fork", types, has_typed_pointers=False)
        key, process = program.reserve(_ID), program.reserve(_PROCESS)
        program.read_argument(R6, R1, 1)
        program.read_argument(R7, R1, 0)
        program.read_field(R1, R7, "task_struct", "tgid")
        program.set(key, "id", R1)
        program.look_up(self.processes, key)
        program.jump_if(R0, "==", 0, "done")
        # A thread of a process that is followed already.
        program.read_field(R8, R6, "task_struct", "pid")
        program.read_field(R1, R6, "task_struct", "tgid")
        program.jump_if(R1, "!=", R8, "done")
        program.set(key, "id", R1)
        program.read_field(R1, R6, "task_struct", "start_time")
        program.set(process, "start_ns", R1)
        program.update(self.processes, key, process)
        with program.when(R0, "!=", 0):
            self.lost.emit_count(program)
        program.label("done")
        program.leave(0)
        return program

    def _write_free(self, types: Btf) -> Assembly:
        program = KernelAssembly("follow_free", types, has_typed_pointers=False)
        key = program.reserve(_ID)
        program.read_argument(R6, R1, 0)
        program.read_field(R7, R6, "task_struct", "tgid")
        program.read_field(R1, R6, "task_struct", "pid")
        program.jump_if(R1, "!=", R7, "done")
        program.set(key, "id", R7)
        program.read_field(R8, R6, "task_struct", "start_time")
        program.look_up(self.processes, key)
        program.jump_if(R0, "==", 0, "done")
        # A task is let go some time after its number: a later process that has it is told by its start.
        program.get(R1, Record(R0, _PROCESS), "start_ns")
        with program.when(R1, "!=", 0):
            program.jump_if(R1, "!=", R8, "done")
        program.delete(self.processes, key)
        program.label("done")
        program.leave(0)
        return program

    def keep(self, program: TaskAssembly, task: Register, otherwise: str) -> None:
        """Emit what goes to a label where a task's process is not followed. R0 to R5 hold nothing after it."""
        key = program.reserve(_ID)
        program.read_process(R1, task)
        program.set(key, "id", R1)
        program.look_up(self.processes, key)
        program.jump_if(R0, "==", 0, otherwise)

    def add(self, processes: Sequence[ProcessHandle]) -> None:
        """Follow processes and what descends from them already, once the programs are attached.

        What one starts meanwhile is found by a program where it was added before, else by the next look.
        """
        known: set[int] = set()
        with closing(ProcessTree("/", processes)) as tree:
            while found := tree.find_members() - known:
                for pid in found:
                    self._add(pid)
                known |= found

    def _add(self, pid: int) -> None:
        self.processes.update((pid,), (0,))

    def close(self) -> None:
        """Let go of the maps."""
        self.processes.close()
        self.lost.close()


class RecordFollower(Follower):
    """Follows processes by the records of task/task_newtask and sched/sched_process_free, without the kernel's types.

    A record names a thread, so that the process of each thread that is followed is kept too. One whose number was given
    out again before the kernel let its last bearer go is forgotten with that one: no record tells the two apart. The
    kernel passes a record over that comes while its cpu reads or writes a map (trace_call_bpf in bpf_trace.c), and an
    end's may be one: a thread that starts under a number that was left behind is not taken for what had it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.threads = Map(MapType.HASH, "threads", _ID, _THREAD, _MOST_THREADS)

    def write_record_programs(self) -> list[tuple[Assembly, Tracepoint]]:
        """Write the programs, to be attached before those that ask. Raises MachineRefused where tracefs is closed."""
        started, freed = "task/task_newtask", "sched/sched_process_free"
        return [(self._write_start(started), Tracepoint(started)), (self._write_end(freed), Tracepoint(freed))]

    def _write_start(self, name: str) -> Assembly:
        program, record = RecordAssembly("follow_start"), read_format(name)
        key, process, thread = (program.reserve(layout) for layout in (_ID, _PROCESS, _THREAD))
        program.read_record(R6, R1, record["pid"])
        program.read_record(R7, R1, record["clone_flags"])
        program.call("get_current_pid_tgid")
        program.compute(R0, ">>=", 32)
        program.set(key, "id", R0)
        program.set(thread, "process", R0)
        program.look_up(self.processes, key)
        program.jump_if(R0, "==", 0, "unfollowed")
        program.set(key, "id", R6)
        program.jump_if(R7, "&", _CLONE_THREAD, "thread")
        program.set(thread, "process", R6)
        program.set(process, "start_ns", 0)
        program.update(self.processes, key, process)
        program.jump_if(R0, "!=", 0, "lost")
        program.label("thread")
        program.update(self.threads, key, thread)
        program.jump_if(R0, "==", 0, "done")
        program.label("lost")
        self.lost.emit_count(program)
        program.jump("done")
        program.label("unfollowed")
        program.set(key, "id", R6)
        program.delete(self.threads, key)
        program.delete(self.processes, key)
        program.label("done")
        program.leave(0)
        return program

    def _write_end(self, name: str) -> Assembly:
        program, record = RecordAssembly("follow_end"), read_format(name)
        key = program.reserve(_ID)
        program.read_record(R6, R1, record["pid"])
        program.set(key, "id", R6)
        program.delete(self.threads, key)
        program.delete(self.processes, key)
        program.leave(0)
        return program

    def keep(self, program: TaskAssembly, task: Register, otherwise: str) -> None:
        """Emit what goes to a label where a task is not followed. R0 to R5 hold nothing after it."""
        self.find_process(program, task)
        program.jump_if(R0, "==", 0, otherwise)

    def find_process(self, program: Assembly, thread: Register) -> None:
        """Emit what sets R0 to where the process of a thread stands, by its number; to zero where it is not followed.

        R1 to R5 hold nothing after it.
        """
        key = program.reserve(_ID)
        program.set(key, "id", thread)
        program.look_up(self.threads, key)

    def get_process(self, program: Assembly, target: Register, found: Register) -> None:
        """Emit what sets a register to the process that was found there."""
        program.get(target, Record(found, _THREAD), "process")

    def keep_thread(self, program: Assembly, thread: Register, otherwise: str) -> None:
        """Emit what sets R0 to the process of a thread, by its number, or goes to a label where that is not followed.

        R1 to R5 hold nothing after it.
        """
        self.find_process(program, thread)
        program.jump_if(R0, "==", 0, otherwise)
        self.get_process(program, R0, R0)

    def write_begin(self, pid: int) -> Assembly:
        """Write the program on sched_process_exec that begins to follow a process there, and its one thread."""
        program = RecordAssembly("begin_at_exec")
        key, process, thread = (program.reserve(layout) for layout in (_ID, _PROCESS, _THREAD))
        program.call("get_current_pid_tgid")
        program.compute(R0, ">>=", 32)
        program.jump_if(R0, "!=", pid, "done")
        program.set(key, "id", pid)
        program.set(process, "start_ns", 0)
        program.set(thread, "process", pid)
        program.update(self.processes, key, process)
        program.update(self.threads, key, thread)
        program.label("done")
        program.leave(0)
        return program

    def _add(self, pid: int) -> None:
        super()._add(pid)
        try:
            threads = list_threads("/", pid)
        except ProcessGone:
            return
        for tid in threads:
            self.threads.update((tid,), (pid,))

    def close(self) -> None:
        """Let go of the maps."""
        super().close()
        self.threads.close()
