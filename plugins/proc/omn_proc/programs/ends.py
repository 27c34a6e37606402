"""Processes that end, each at the end of its last thread (do_exit), with what wait(2) will say of it.

The status is that of an exit of the whole process where there was one (exit_group, a deadly signal), else that of its
first thread, whenever that ended (wait_task_zombie).
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

    measured = ("lifetime_ns",)
    unit = "exits"
    labels = (Label("code"), Label("signal", spell=_name_signal))

    def load(self, tracing: Tracing) -> None:
        """Load what sees a thread end."""
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
        self._leave_unless_last(program)
        self._set_status(program, event)
        program.read_field(R9, R8, "task_struct", "start_time")
        read_clock(program, R0)
        program.compute(R0, "-=", R9)
        program.set(event, "lifetime_ns", R0)
        tracing.write(program, event, R8, R6)
        program.label("done")
        program.leave(0)

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
