"""Wakeups where they are made (try_to_wake_up): who woke whom, in whose time, and how long it took to run.

The task that a cpu runs is who wakes, unless an interrupt came over it: that is the waker then, and the task is the one
that it was served in. A softirq that the task itself let begin (local_bh_enable) is served in the task that caused it;
an interrupt is served in whoever was there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.contexts import CpuContext, read_cpu_context
from omn_kernel.bpf.filters import AnyTask
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9, Register
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.tracing import ABSENT, Label, Tracer, Tracing

from omn_sched.programs.served import Served
from omn_sched.softirqs import name_softirq

_CONTEXTS = {context: context.name.lower() for context in CpuContext}
LABELS = (
    Label("waker"),
    Label("waker_pid"),
    Label("waker_comm", "S16"),
    Label("wakee"),
    Label("wakee_pid"),
    Label("wakee_comm", "S16"),
    Label("cpu"),
    Label("waker_context", spell=lambda number: _CONTEXTS.get(CpuContext(number))),
    Label("served_in_tid"),
    Label("irq"),
    Label("softirq", spell=name_softirq),
)
UNRECORDED = frozenset({"waker_context", "served_in_tid", "irq", "softirq"})
"""The labels that the kernel's types alone tell."""


class Wakeups(Tracer):
    """Wakeups of which either thread is the target's; one that an interrupt makes, where the woken thread is.

    `labels` are those that the answer shows, the only ones that cost anything.
    """

    unit = "wakeups"

    def __init__(self, labels: Sequence[Label]) -> None:
        self.labels = tuple(labels)
        self._names = frozenset(label.name for label in labels)

    def load(self, tracing: Tracing) -> None:
        """Load what sees a wakeup, and before it what keeps which interrupt a cpu serves."""
        self._load_served(tracing)
        tracing.load_event("sched_waking", lambda program: self.write_waking(program, tracing))

    def _load_served(self, tracing: Tracing) -> None:
        self._served = tracing.hold(Served())
        for kind in ("irq", "softirq"):
            if kind in self._names:
                self._served.load(tracing, kind)

    def write_waking(self, program: TaskAssembly, tracing: Tracing) -> None:
        """Write sched_waking(task), which is passed on the waker's cpu."""
        event = tracing.reserve(program)
        self.begin(program, tracing)
        self.describe(program, event)
        tracing.write(program, event, R7, R6)
        program.label("done")
        program.leave(0)

    def begin(self, program: TaskAssembly, tracing: Tracing) -> None:
        """Emit what sets R6 to the context, R7 to who is woken, R8 to the task that runs, R9 to the cpu's context.

        A wakeup that is not the target's goes to `done`.
        """
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        program.point_to_current(R8)
        if isinstance(program, KernelAssembly):
            read_cpu_context(program, R9)
        else:
            _guess_context(program)
        keeper = tracing.tasks.filter
        if isinstance(keeper, AnyTask):
            return
        keeper.keep(program, R7, "other_wakee")
        program.jump("kept")
        program.label("other_wakee")
        program.jump_if(R9, "!=", CpuContext.TASK, "done")
        keeper.keep(program, R8, "done")
        program.label("kept")

    def describe(self, program: TaskAssembly, event: Record) -> None:
        """Emit what sets the labels in a record that is all zero."""
        self._set_task(program, event, "wakee", R7)
        if "cpu" in self._names:
            program.call("get_smp_processor_id")
            program.set(event, "cpu", R0)
        if "waker_context" in self._names:
            program.set(event, "waker_context", R9)
        for name in {"served_in_tid", "irq", "softirq"} & self._names:
            program.set(event, name, ABSENT)
        program.jump_if(R9, "!=", CpuContext.TASK, "interrupt")
        self._set_task(program, event, "waker", R8)
        program.jump("described")
        program.label("interrupt")
        self._set_interrupt(program, event)
        program.label("described")

    def _set_task(self, program: TaskAssembly, event: Record, party: str, task: Register) -> None:
        if party in self._names:
            program.read_thread(R1, task)
            program.set(event, party, R1)
        if f"{party}_pid" in self._names:
            program.read_process(R1, task)
            if not isinstance(program, KernelAssembly):
                with program.when(R1, "==", 0):
                    program.move(R1, ABSENT)
            program.set(event, f"{party}_pid", R1)
        if f"{party}_comm" in self._names:
            program.copy_comm(event, f"{party}_comm", task)

    def _set_interrupt(self, program: TaskAssembly, event: Record) -> None:
        """Set what an interrupt is, in whose place it is served; as a waker it is number 0, with no process or name."""
        if "waker_pid" in self._names:
            program.set(event, "waker_pid", ABSENT)
        if "served_in_tid" in self._names:
            program.read_thread(R1, R8)
            program.set(event, "served_in_tid", R1)
        for kind, context in (("irq", CpuContext.HARDIRQ), ("softirq", CpuContext.SOFTIRQ)):
            if kind in self._names:
                with program.when(R9, "==", context):
                    self._served.read(program, R1, kind)
                    program.set(event, kind, R1)


def _guess_context(program: TaskAssembly) -> None:
    """Set R9 to the cpu's context as far as R8 tells it: nobody but an interrupt wakes on an idle cpu."""
    end = program.make_label("context")
    program.move(R9, CpuContext.TASK)
    program.jump_if(R8, "!=", 0, end)
    program.move(R9, CpuContext.HARDIRQ)
    program.label(end)


class WakeupTimes(Wakeups):
    """Wakeups with the time until the woken thread runs, each handed over then: stamped when it was woken.

    One that had not left its cpu goes on there, and has no such time. Nor has one that was woken again before it was
    seen to run: kernels have been seen to hide a switch from every tracepoint.
    """

    measured = ("wake_to_run_ns",)

    def load(self, tracing: Tracing) -> None:
        """Load what forgets threads, what sees them woken, and what sees them run."""
        self._state = np.dtype([("woken_ns", "u8"), *((label.name, label.layout) for label in self.labels)])
        self._states = tracing.hold(TaskStates("woken", self._state))
        tracing.load_states(self._states)
        tracing.load_event("sched_switch", lambda program: self.write_switch(program, tracing))
        super().load(tracing)

    def write_waking(self, program: TaskAssembly, tracing: Tracing) -> None:
        """Write sched_waking(task)."""
        event, woken = tracing.reserve(program), program.reserve(self._state)
        self.begin(program, tracing)
        program.clear(woken)
        self.describe(program, woken)
        read_clock(program, R9)
        program.set(woken, "woken_ns", R9)
        if isinstance(program, KernelAssembly):
            # One that has not left its cpu may go on there, without a switch, even from within the scheduler.
            program.read_field(R1, R7, "task_struct", "on_cpu")
            program.jump_if(R1, "==", 0, "waits")
            self._copy_labels(program, event, woken)
            program.jump("untimed")

        program.label("waits")
        self._states.look_up(program, R7)
        program.jump_if(R0, "==", 0, "first")
        program.move(R8, R0)
        earlier = Record(R8, self._state)
        program.get(R9, earlier, "woken_ns")
        program.jump_if(R9, "==", 0, "first")
        self._copy_labels(program, event, earlier)
        self._states.put(program, R7, woken)
        program.jump("untimed")
        program.label("first")
        self._states.put(program, R7, woken)
        program.jump("done")

        program.label("untimed")
        program.set(event, "wake_to_run_ns", ABSENT)
        tracing.write(program, event, R7, R6, at=R9)
        program.label("done")
        program.leave(0)

    def write_switch(self, program: TaskAssembly, tracing: Tracing) -> None:
        """Write sched_switch(preempt, prev, next)."""
        event = tracing.reserve(program)
        program.move(R6, R1)
        if not isinstance(program, KernelAssembly):
            # One that leaves its cpu as it was woken had not left it then, and went on without a switch.
            program.read_argument(R7, R6, 1)
            self._take(program, event, "arriving")
            program.set(event, "wake_to_run_ns", ABSENT)
            tracing.write(program, event, R7, R6, at=R9)
            program.label("arriving")
        program.read_argument(R7, R6, 2)
        self._take(program, event, "done")
        read_clock(program, R0)
        program.compute(R0, "-=", R9)
        program.set(event, "wake_to_run_ns", R0)
        tracing.write(program, event, R7, R6, at=R9)
        program.label("done")
        program.leave(0)

    def _take(self, program: TaskAssembly, event: Record, otherwise: str) -> None:
        """Emit what takes the wakeup of the task in R7, made at R9; goes to a label where it was not woken."""
        self._states.look_up(program, R7)
        program.jump_if(R0, "==", 0, otherwise)
        program.move(R8, R0)
        woken = Record(R8, self._state)
        program.get(R9, woken, "woken_ns")
        program.jump_if(R9, "==", 0, otherwise)
        program.set(woken, "woken_ns", 0)
        self._copy_labels(program, event, woken)

    def _copy_labels(self, program: TaskAssembly, event: Record, woken: Record) -> None:
        for label in self.labels:
            program.copy_words(event, woken, label.name)

    def read_fields(self) -> dict[str, int]:
        """Return how many threads that were woken had not run yet; no event is of them."""
        return {"unfinished": int(np.count_nonzero(self._states.table.read().values["woken_ns"]))}
