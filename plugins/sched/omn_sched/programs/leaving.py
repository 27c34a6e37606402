"""In what state a task leaves its cpu, as sched_switch tells it."""

from __future__ import annotations

from omn_kernel.bpf.hooks import TypedTracepoint
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R1, Register
from omn_kernel.btf.spelling import spell_tracepoint

_STATE = 3
"""Which argument of sched_switch is the state of the task that leaves, on kernels that hand it over (Linux 5.18)."""
_BOOLEAN, _WORD = 0xFF, 32
DEAD = 0x80
"""TASK_DEAD of <linux/sched.h>: the state in which a thread leaves for the last time."""


def read_leaving_state(program: KernelAssembly, target: Register, context: Register, task: Register) -> None:
    """Emit what sets a register to the state in which a task leaves: 0 where it is ready to run, or was made to leave.

    A thread that is made to give way is ready to run, whatever it was about to do. `context` is what R1 held when the
    program on sched_switch began; all three are of R6 to R9. R0 to R5 hold nothing after it.
    """
    told = program.make_label("state")
    program.move(target, 0)
    program.read_argument(R1, context, 0)
    program.compute(R1, "&=", _BOOLEAN)
    program.jump_if(R1, "!=", 0, told)
    hook = TypedTracepoint("sched_switch", program.types)
    if len(spell_tracepoint(program.types, hook.get_attach_id())) > _STATE:
        program.read_argument(target, context, _STATE)
        program.compute(target, "<<=", _WORD)
        program.compute(target, ">>=", _WORD)
    else:
        # Linux 5.14 gave the state this name.
        is_renamed = program.has_field("task_struct", "__state")
        program.read_field(target, task, "task_struct", "__state" if is_renamed else "state")
    program.label(told)
