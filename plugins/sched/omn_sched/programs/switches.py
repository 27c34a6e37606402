"""Switches from one task to another, by choice or by force, told as the kernel's own counts tell them (__schedule).

A task that is about to wait leaves its cpu by choice; one that nobody made give way and that goes on at once, or that
was made to, leaves it by force.
"""

from __future__ import annotations

from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R1, R6, R7, R8
from omn_kernel.bpf.tracing import Tracer, Tracing

from omn_sched.programs.leaving import read_leaving_state


class SwitchesAway(Tracer):
    """Switches away from the tasks of a target."""

    measured = ("voluntary", "involuntary")
    unit = "switches"

    def load(self, tracing: Tracing) -> None:
        """Load what sees a task leave its cpu."""
        tracing.load_event("sched_switch", lambda program: self.write_switch(program, tracing))

    def write_switch(self, program: TaskAssembly, tracing: Tracing) -> None:
        """Write sched_switch(preempt, prev, next, state)."""
        event = tracing.reserve(program)
        program.move(R6, R1)
        program.read_argument(R7, R6, 1)
        tracing.tasks.filter.keep(program, R7, "done")
        read_leaving_state(program, R8, R6, R7)
        program.set(event, "voluntary", 0)
        program.set(event, "involuntary", 1)
        with program.when(R8, "!=", 0):
            program.set(event, "voluntary", 1)
            program.set(event, "involuntary", 0)
        tracing.write(program, event, R7, R6)
        program.label("done")
        program.leave(0)
