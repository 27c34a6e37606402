"""How long each thread was ready and had no cpu, measured at the switch that ends the wait.

The figure is the kernel's own (struct sched_info, kernel/sched/stats.h). A thread that is put on a queue is stamped
with the queue's clock (`last_queued`); what it waited there is added to its `run_delay` where it is taken off, whether
it gets the cpu or is moved to the queue of another. The tracepoint comes just before the kernel closes the wait, so
that at it

    run_delay + (rq->clock - last_queued)

is what `run_delay` will be in a moment, and what that grew by since the thread last got a cpu is this wait.

A switch may pass no tracepoint (`docs/limits.md`): the wait that it ended is in its thread's next, so that the total is
the kernel's whatever was seen. How many there were the kernel's count of arrivals tells (`pcount`).

The tracepoints' figure stands beside it: from the wakeup to the switch, by CLOCK_MONOTONIC. A thread that was made to
give way was not woken, and has none.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R6, R7, R8, R9
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.tracing import ABSENT, Tracer, Tracing

from omn_sched.programs.queue_time import read_queue_time

STATE = np.dtype([("waited_ns", np.uint64), ("woken_ns", np.uint64), ("arrivals", np.uint64)])
"""Of each thread: its `run_delay` when it last got a cpu, when it was woken, 0 for not since then, and how often it had
got a cpu then."""


class RunQueueWaits(Tracer):
    """Waits for a cpu, each whole when it ends."""

    measured = ("wait_ns", "wake_to_run_ns")
    unit = "slices"

    def load(self, tracing: Tracing) -> None:
        """Load what forgets threads, what sees them woken, and what sees them get a cpu."""
        self.states = tracing.hold(TaskStates("waits", STATE))
        self._merged = tracing.hold(LostCounter())
        tracing.load_states(self.states)
        tracing.load_tracepoint("sched_wakeup", lambda program: self.write_wakeup(program, tracing))
        tracing.load_tracepoint("sched_wakeup_new", lambda program: self.write_new(program, tracing))
        tracing.load_tracepoint("sched_switch", lambda program: self.write_switch(program, tracing))

    def write_wakeup(self, program: KernelAssembly, tracing: Tracing) -> None:
        """Write sched_wakeup(task): it is on a queue from now on, or was on one already."""
        program.read_argument(R7, R1, 0)
        tracing.tasks.filter.keep(program, R7, "done")
        read_clock(program, R8)
        state = self.states.look_up(program, R7)
        program.jump_if(R0, "==", 0, "new")
        program.set(state, "woken_ns", R8)
        program.jump("done")
        program.label("new")
        self._put_state(program)
        program.label("done")
        program.leave(0)

    def write_new(self, program: KernelAssembly, tracing: Tracing) -> None:
        """Write sched_wakeup_new(task): whatever stands under its number was another thread's."""
        program.read_argument(R7, R1, 0)
        tracing.tasks.filter.keep(program, R7, "done")
        read_clock(program, R8)
        self._put_state(program)
        program.label("done")
        program.leave(0)

    def _put_state(self, program: KernelAssembly) -> None:
        """Remember the task in R7 as woken at R8. It slept until then, so that its account is closed."""
        state = program.reserve(STATE)
        program.read_field(R1, R7, "task_struct", "sched_info.run_delay")
        program.set(state, "waited_ns", R1)
        program.read_field(R1, R7, "task_struct", "sched_info.pcount")
        program.set(state, "arrivals", R1)
        program.set(state, "woken_ns", R8)
        self.states.put(program, R7, state)

    def write_switch(self, program: KernelAssembly, tracing: Tracing) -> None:
        """Write sched_switch(preempt, prev, next)."""
        event = tracing.reserve(program)
        program.move(R6, R1)

        # Who leaves the cpu was running: no wakeup before this begins its next wait.
        program.read_argument(R7, R6, 1)
        state = self.states.look_up(program, R7)
        with program.when(R0, "!=", 0):
            program.set(state, "woken_ns", 0)

        program.read_argument(R7, R6, 2)
        tracing.tasks.filter.keep(program, R7, "done")
        self._read_waited(program)
        program.set(event, "wake_to_run_ns", ABSENT)
        self.states.look_up(program, R7)
        program.jump_if(R0, "==", 0, "unknown")
        program.move(R9, R0)
        state = Record(R9, STATE)
        program.get(R1, state, "waited_ns")
        program.set(state, "waited_ns", R8)
        program.compute(R8, "-=", R1)
        # The clocks of two queues that it stood in may differ by more than it waited.
        with program.when(R8, "s<", 0):
            program.move(R8, 0)
        program.set(event, "wait_ns", R8)
        program.get(R8, state, "woken_ns")
        program.set(state, "woken_ns", 0)
        with program.when(R8, "!=", 0):
            read_clock(program, R0)
            program.compute(R0, "-=", R8)
            program.set(event, "wake_to_run_ns", R0)
        self._count_merged(program, state)
        program.jump("measured")

        # It was queued before anybody looked: what it waited on this queue is all that can be known of the wait.
        program.label("unknown")
        program.read_field(R1, R7, "task_struct", "sched_info.run_delay")
        program.move(R9, R8)
        program.compute(R9, "-=", R1)
        program.set(event, "wait_ns", R9)
        first = program.reserve(STATE)
        program.set(first, "waited_ns", R8)
        program.read_field(R1, R7, "task_struct", "sched_info.pcount")
        program.compute(R1, "+=", 1)
        program.set(first, "arrivals", R1)
        program.set(first, "woken_ns", 0)
        self.states.put(program, R7, first)

        program.label("measured")
        tracing.write(program, event, R7, R6)
        program.label("done")
        program.leave(0)

    def _count_merged(self, program: KernelAssembly, state: Record) -> None:
        """Count how often the task in R7 got a cpu since it was last seen to, but for now, which is not counted yet."""
        program.read_field(R8, R7, "task_struct", "sched_info.pcount")
        program.get(R1, state, "arrivals")
        program.move(R2, R8)
        program.compute(R2, "+=", 1)
        program.set(state, "arrivals", R2)
        program.compute(R8, "-=", R1)
        with program.when(R8, "s>", 0):
            self._merged.emit_count(program, R8)

    def read_fields(self) -> Mapping[str, int]:
        """Return how many waits ended unseen, each in the event of its thread's next."""
        return {"merged": self._merged.read_count()}

    def _read_waited(self, program: KernelAssembly) -> None:
        """Set R8 to all that the task in R7 ever waited; done where it is on no queue."""
        program.read_field(R1, R7, "task_struct", "sched_info.last_queued")
        program.jump_if(R1, "==", 0, "done")
        read_queue_time(program, R8, R7)
