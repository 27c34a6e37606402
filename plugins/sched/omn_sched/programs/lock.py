"""Waits for locks of the kernel, from the first try that fails to where the lock is had or given up.

A task may wait for a lock while it waits for another: to sleep for a mutex it takes the spinlock of its queue, and an
interrupt comes upon a task that waits. So a wait stands under the task and the lock. A mutex that is spun for first and
then slept for begins twice, and counts from its first beginning.
"""

from __future__ import annotations

import attrs
import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.maps import NO_EXIST, Map
from omn_kernel.bpf.pieces import measure_span, read_clock
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9
from omn_kernel.bpf.stacked import TakesTasks
from omn_kernel.bpf.target_tasks import TargetTasks
from omn_kernel.bpf.transport import Transport

FIELDS = [("began_ns", "u8"), ("wait_ns", "i8"), ("addr", "u8"), ("flags", "u4")]
"""What is kept of a wait; `flags` are LCB_F_SPIN and the others of <trace/events/lock.h>."""
KEY = np.dtype([("addr", np.uint64), ("task", np.uint64)])
MOST_WAITS = 1 << 14
"""How many waits are remembered at a time."""


@attrs.frozen(kw_only=True)
class LockPrograms:
    """Writes the programs on contention_begin and contention_end.

    `lost` counts waits that found no room, `unknown` those that end and were not seen to begin.
    """

    tasks: TargetTasks
    waits: Map
    take_task: TakesTasks
    transport: Transport
    lost: LostCounter
    unknown: LostCounter

    def write_begin(self, program: TaskAssembly) -> None:
        """Write contention_begin(lock, flags)."""
        program.move(R6, R1)
        program.point_to_current(R7)
        self.tasks.filter.keep(program, R7, "done")
        key = self._make_key(program)
        program.look_up(self.waits, key)
        program.jump_if(R0, "!=", 0, "done")
        wait = program.reserve(self.waits.value)
        program.clear(wait)
        program.set(wait, "addr", R9)
        program.read_argument(R1, R6, 1)
        program.set(wait, "flags", R1)
        self.take_task(program, wait, R7, R6)
        read_clock(program, R0)
        program.set(wait, "began_ns", R0)
        program.update(self.waits, key, wait, NO_EXIST)
        with program.when(R0, "!=", 0):
            self.lost.emit_count(program)
        program.label("done")
        program.leave(0)

    def write_end(self, program: TaskAssembly) -> None:
        """Write contention_end(lock, error)."""
        program.move(R6, R1)
        program.point_to_current(R7)
        key = self._make_key(program)
        program.look_up(self.waits, key)
        program.jump_if(R0, "==", 0, "unknown")
        program.move(R8, R0)
        wait = Record(R8, self.waits.value)
        program.get(R9, wait, "began_ns")
        measure_span(program, wait, R9, "wait_ns")
        self.transport.write(program, wait, R6)
        program.delete(self.waits, key)
        program.jump("done")
        program.label("unknown")
        self.tasks.filter.keep(program, R7, "done")
        self.unknown.emit_count(program)
        program.label("done")
        program.leave(0)

    def _make_key(self, program: TaskAssembly) -> Record:
        """Make the key of the wait for the lock that is the first argument by the task in R7; R9 holds the lock."""
        key = program.reserve(KEY)
        program.read_argument(R9, R6, 0)
        program.set(key, "addr", R9)
        program.read_thread(R1, R7)
        program.set(key, "task", R1)
        return key
