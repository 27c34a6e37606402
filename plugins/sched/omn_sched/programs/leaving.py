"""In what state a task leaves its cpu, as sched_switch tells it."""

from __future__ import annotations

from omn_kernel.bpf.hooks import TypedTracepoint
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.records import RecordedAssembly
from omn_kernel.bpf.registers import R1, Register
from omn_kernel.btf.spelling import spell_tracepoint

_STATE = 3
"""Which argument of sched_switch is the state of the task that leaves, on kernels that hand it over (Linux 5.18)."""
_BOOLEAN, _WORD = 0xFF, 32
DEAD = 0x80
"""TASK_DEAD of <linux/sched.h>: the state in which a thread leaves for the last time."""
IDLE = 0x402
"""TASK_IDLE: that of a thread of the kernel's that waits for work, which the load does not count."""
_RECORDED_DEAD, _RECORDED_IDLE, _RECORDED_PREEMPTED = 0x30, 0x80, 0x100
"""EXIT_DEAD and EXIT_ZOMBIE, TASK_REPORT_IDLE, TASK_REPORT_MAX: what the record has in place of the three."""


def read_leaving_state(program: TaskAssembly, target: Register, context: Register, task: Register) -> None:
    """Emit what sets a register to the state in which a task leaves: 0 where it is ready to run, or was made to leave.

    A thread that is made to give way is ready to run, whatever it was about to do. `context` is what R1 held when the
    program on sched_switch began; all three are of R6 to R9. R0 to R5 hold nothing after it.
    """
    if isinstance(program, RecordedAssembly):
        _read_recorded_state(program, target, context)
    elif isinstance(program, KernelAssembly):
        _read_state(program, target, context, task)


def _read_recorded_state(program: RecordedAssembly, target: Register, context: Register) -> None:
    """Emit what makes the task's state of what the record says of it (__trace_sched_switch_state)."""
    program.read_record(target, context, program.fields["prev_state"])
    with program.when(target, "==", _RECORDED_PREEMPTED):
        program.move(target, 0)
    with program.when(target, "==", _RECORDED_IDLE):
        program.move(target, IDLE)
    program.move(R1, target)
    program.compute(R1, "&=", _RECORDED_DEAD)
    with program.when(R1, "!=", 0):
        program.move(target, DEAD)


def _read_state(program: KernelAssembly, target: Register, context: Register, task: Register) -> None:
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
