"""Switches from one task to another, by choice or by force, told as the kernel's own counts tell them (__schedule).

A task that is about to wait leaves its cpu by choice; one that nobody made give way and that goes on at once, or that
was made to, leaves it by force.
"""

from __future__ import annotations

from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.hooks import TypedTracepoint
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R1, R6, R7
from omn_kernel.bpf.tracing import Tracer, Tracing
from omn_kernel.btf.spelling import spell_tracepoint

_STATE = 3
"""Which argument of sched_switch is the state of the task that leaves, on kernels that hand it over (Linux 5.18)."""
_BOOLEAN, _WORD = 0xFF, 32


class SwitchesAway(Tracer):
    """Switches away from the tasks of a target."""

    measured = ("voluntary", "involuntary")
    unit = "switches"

    def load(self, tracing: Tracing) -> None:
        """Load what sees a task leave its cpu."""
        tracing.load_tracepoint("sched_switch", lambda program: self.write_switch(program, tracing))

    def write_switch(self, program: KernelAssembly, tracing: Tracing) -> None:
        """Write sched_switch(preempt, prev, next, state)."""
        event = tracing.reserve(program)
        program.move(R6, R1)
        program.read_argument(R7, R6, 1)
        tracing.tasks.filter.keep(program, R7, "done")
        program.set(event, "voluntary", 0)
        program.set(event, "involuntary", 1)
        program.read_argument(R1, R6, 0)
        program.compute(R1, "&=", _BOOLEAN)
        program.jump_if(R1, "!=", 0, "told")
        self._tell_waiting(program, event)
        program.label("told")
        tracing.write(program, event, R7, R6)
        program.label("done")
        program.leave(0)

    def _tell_waiting(self, program: KernelAssembly, event: Record) -> None:
        """Emit what takes a task that nobody made give way for one that waits, where its state is not to run."""
        hook = TypedTracepoint("sched_switch", program.types)
        if len(spell_tracepoint(program.types, hook.get_attach_id())) > _STATE:
            program.read_argument(R1, R6, _STATE)
            program.compute(R1, "<<=", _WORD)
        else:
            # Linux 5.14 gave the state this name.
            is_renamed = program.has_field("task_struct", "__state")
            program.read_field(R1, R7, "task_struct", "__state" if is_renamed else "state")
        with program.when(R1, "!=", 0):
            program.set(event, "voluntary", 1)
            program.set(event, "involuntary", 0)
