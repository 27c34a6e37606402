"""Tasks that are made, seen where the kernel has one ready and has not started it yet (copy_process).

The task that runs there is the one that asked for it.
"""

from __future__ import annotations

from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R1, R6, R7, R8
from omn_kernel.bpf.tracing import Label, Tracer, Tracing

CLONE_THREAD = 0x00010000
"""CLONE_THREAD of <linux/sched.h>: what is made is a thread of the process that makes it."""
_KINDS = ("process", "thread")


class TaskMakings(Tracer):
    """Processes and threads that tasks of a target make, each under the task that makes it."""

    unit = "forks"
    labels = (Label("child", is_own=True), Label("kind", spell=_KINDS.__getitem__))

    def load(self, tracing: Tracing) -> None:
        """Load what sees a task made."""
        tracing.load_tracepoint("task_newtask", lambda program: self.write_new(program, tracing))

    def write_new(self, program: KernelAssembly, tracing: Tracing) -> None:
        """Write task_newtask(task, flags of clone(2))."""
        event = tracing.reserve(program)
        program.move(R6, R1)
        program.point_to_current(R7)
        tracing.tasks.filter.keep(program, R7, "done")
        program.read_argument(R8, R6, 0)
        program.read_field(R1, R8, "task_struct", "pid")
        program.set(event, "child", R1)
        program.set(event, "kind", 0)
        program.read_argument(R1, R6, 1)
        program.compute(R1, "&=", CLONE_THREAD)
        with program.when(R1, "!=", 0):
            program.set(event, "kind", 1)
        tracing.write(program, event, R7, R6)
        program.label("done")
        program.leave(0)
