"""Processes that end, each at the end of its last thread (do_exit), with what wait(2) will say of it.

The status is that of an exit of the whole process where there was one (exit_group, a deadly signal), else that of its
first thread, whenever that ended (wait_task_zombie). What a process used is added up thread by thread as they end: the
kernel adds a thread to its process's sums only after its end was told, and several may be between the two at once.
"""

from __future__ import annotations

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.hooks import TypedTracepoint
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import NO_EXIST, Map
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9
from omn_kernel.bpf.tracing import ABSENT, Label, Tracer, Tracing
from omn_kernel.btf.spelling import spell_tracepoint

from omn_proc.signal_names import spell_signal

_KEY = np.dtype([("signal", np.uint64)])
_SUMS = {"cpu_ns": "se.sum_exec_runtime", "read_bytes": "ioac.read_bytes", "write_bytes": "ioac.write_bytes"}
"""What is added up of a process, and where a thread has its own; CONFIG_TASK_IO_ACCOUNTING has the last two.

Of threads long gone the process has the sum of the first alone: in its account of bytes are those of the children that
it waited for (wait_task_zombie).
"""
_USED = np.dtype([(name, np.uint64) for name in _SUMS])
_PROCESS = np.dtype([("start_ns", np.uint64), ("id", np.uint64)])
_MOST_ENDED = 1 << 14
_GROUP_EXIT = 0x4
"""SIGNAL_GROUP_EXIT of <linux/sched/signal.h>: the process as a whole has a status."""
_SIGNAL, _CODE = 0x7F, 0xFF
_BOOLEAN = 0xFF


def _name_signal(number: int) -> str | None:
    return spell_signal(number) if number > 0 else None


class ProcessEnds(Tracer):
    """Processes of a target that end, each under the number of its first thread."""

    measured = ("lifetime_ns", *_SUMS)
    unit = "exits"
    labels = (Label("code"), Label("signal", spell=_name_signal))

    def load(self, tracing: Tracing) -> None:
        """Load what sees a thread end."""
        self._used = tracing.hold(Map(MapType.LRU_HASH, "used", _KEY, _USED, _MOST_ENDED))
        hook = TypedTracepoint("sched_process_exit", tracing.types)
        self._is_told = len(spell_tracepoint(tracing.types, hook.get_attach_id())) > 1
        if not self._is_told:
            self._ended = tracing.hold(Map(MapType.LRU_HASH, "ended", _PROCESS, np.uint32, _MOST_ENDED))
        tracing.load_tracepoint("sched_process_exit", lambda program: self.write_exit(program, tracing))

    def write_exit(self, program: KernelAssembly, tracing: Tracing) -> None:
        """Write sched_process_exit(task, is the last of its process); the second only since Linux 6.16."""
        event = tracing.reserve(program)
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        tracing.tasks.filter.keep(program, R7, "done")
        program.read_field(R8, R7, "task_struct", "group_leader")
        key = self._add_thread(program)
        self._leave_unless_last(program)
        self._set_used(program, event, key)
        self._set_status(program, event)
        program.read_field(R9, R8, "task_struct", "start_time")
        read_clock(program, R0)
        program.compute(R0, "-=", R9)
        program.set(event, "lifetime_ns", R0)
        tracing.write(program, event, R8, R6)
        program.label("done")
        program.leave(0)

    def _add_thread(self, program: KernelAssembly) -> Record:
        """Add the thread in R7 to what its process used, and return the process's key in the map of that."""
        key, before = program.reserve(_KEY), program.reserve(_USED)
        program.read_field(R1, R7, "task_struct", "signal")
        program.set(key, "signal", R1)
        program.clear(before)
        program.read_field(R1, R7, "task_struct", "signal.sum_sched_runtime")
        program.set(before, "cpu_ns", R1)
        program.update(self._used, key, before, NO_EXIST)
        program.look_up(self._used, key)
        with program.when(R0, "!=", 0):
            program.move(R9, R0)
            for name, path in self._list_sums(program).items():
                program.read_field(R1, R7, "task_struct", path)
                program.add_to(Record(R9, _USED), name, R1)
        return key

    def _list_sums(self, program: KernelAssembly) -> dict[str, str]:
        """List what this kernel has of a thread's sums."""
        return {name: path for name, path in _SUMS.items() if program.has_field("task_struct", path)}

    def _set_used(self, program: KernelAssembly, event: Record, key: Record) -> None:
        """Set what the process of a key used, and forget it: another may have its place next."""
        for name in _SUMS:
            program.set(event, name, ABSENT)
        program.look_up(self._used, key)
        with program.when(R0, "!=", 0):
            for name in self._list_sums(program):
                program.get(R1, Record(R0, _USED), name)
                program.set(event, name, R1)
        program.delete(self._used, key)

    def _leave_unless_last(self, program: KernelAssembly) -> None:
        """Go to `done` where the thread in R7 is not the last one of the process of R8."""
        if self._is_told:
            program.read_argument(R1, R6, 1)
            program.compute(R1, "&=", _BOOLEAN)
            program.jump_if(R1, "==", 0, "done")
            return
        program.read_field(R1, R7, "task_struct", "signal.live.counter")
        program.jump_if(R1, "!=", 0, "done")
        # Two that end at once both find that nobody is left: the first to say so is the one that is counted.
        key, one = program.reserve(_PROCESS), program.reserve(np.dtype([("one", np.uint32)]))
        program.read_field(R1, R8, "task_struct", "start_time")
        program.set(key, "start_ns", R1)
        program.read_field(R1, R8, "task_struct", "pid")
        program.set(key, "id", R1)
        program.set(one, "one", 1)
        program.update(self._ended, key, one, NO_EXIST)
        program.jump_if(R0, "!=", 0, "done")

    def _set_status(self, program: KernelAssembly, event: Record) -> None:
        """Set how the process of R8 ended: a code, or the signal that ended it."""
        program.read_field(R9, R8, "task_struct", "exit_code")
        program.read_field(R1, R7, "task_struct", "signal.flags")
        program.compute(R1, "&=", _GROUP_EXIT)
        with program.when(R1, "!=", 0):
            program.read_field(R9, R7, "task_struct", "signal.group_exit_code")
        program.set(event, "code", ABSENT)
        program.move(R1, R9)
        program.compute(R1, "&=", _SIGNAL)
        program.set(event, "signal", R1)
        with program.when(R1, "==", 0):
            program.compute(R9, ">>=", 8)
            program.compute(R9, "&=", _CODE)
            program.set(event, "code", R9)
