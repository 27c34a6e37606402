"""Time on a cpu as the scheduler accounts it: each time that it adds to what a task has run (sum_exec_runtime).

It does so at ticks, at switches, and where somebody asks for the time of a task that runs.
"""

from __future__ import annotations

from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R1, R6, R7
from omn_kernel.bpf.tracing import Tracer, Tracing


class RunTime(Tracer):
    """Additions to the time that the tasks of a target have run."""

    measured = ("oncpu_ns",)

    def load(self, tracing: Tracing) -> None:
        """Load what sees time added."""
        tracing.load_event("sched_stat_runtime", lambda program: self.write_runtime(program, tracing))

    def write_runtime(self, program: TaskAssembly, tracing: Tracing) -> None:
        """Write sched_stat_runtime(task, nanoseconds), before Linux 6.8 with the task's virtual time besides."""
        event = tracing.reserve(program)
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        tracing.tasks.filter.keep(program, R7, "done")
        program.read_argument(R1, R6, 1)
        program.set(event, "oncpu_ns", R1)
        tracing.write(program, event, R7, R6)
        program.label("done")
        program.leave(0)
