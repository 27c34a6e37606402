"""System calls as the programs on sys_enter and sys_exit see them: who makes which one, by what code, with what."""

from __future__ import annotations

from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.records import RecordedAssembly
from omn_kernel.bpf.registers import Register

_ARGUMENTS = ("di", "si", "dx", "r10", "r8", "r9")
_COMPAT_ARGUMENTS = ("bx", "cx", "dx", "si", "di", "bp")
"""The fields of x86's struct pt_regs that hold a call's arguments: of 64-bit code, and of 32-bit code."""
_COMPAT_BIT = 2
"""TS_COMPAT of arch/x86/include/asm/thread_info.h: the task is in a call of 32-bit code."""


def read_compat(program: TaskAssembly, target: Register, task: Register) -> None:
    """Emit what sets a register to 1 where 32-bit code makes the call that a task is in, else to 0.

    No architecture but x86 has it there, and no record tells it. R0 to R5 hold nothing after it but the target.
    """
    if not isinstance(program, KernelAssembly) or not program.has_field("task_struct", "thread_info.status"):
        program.move(target, 0)
        return
    program.read_field(target, task, "task_struct", "thread_info.status")
    program.compute(target, "&=", _COMPAT_BIT)
    program.compute(target, ">>=", 1)


def read_call_number(program: TaskAssembly, target: Register, registers: Register) -> None:
    """Emit what sets a register to the number of the call that some registers (struct pt_regs) were saved in.

    Where records are read the record stands for the registers, here and for the arguments.
    """
    if isinstance(program, RecordedAssembly):
        program.read_call_number(target, registers)
    elif isinstance(program, KernelAssembly):
        name = "orig_ax" if program.has_field("pt_regs", "orig_ax") else "syscallno"
        program.read_field(target, registers, "pt_regs", name)


def read_call_argument(
    program: TaskAssembly, target: Register, registers: Register, position: int, *, is_compat: bool = False
) -> None:
    """Emit what sets a register to an argument of the call that some registers were saved in, counted from 0.

    The record of a call's return has none.
    """
    if isinstance(program, RecordedAssembly):
        program.read_call_argument(target, registers, position)
    elif isinstance(program, KernelAssembly):
        name = f"regs[{position}]"
        if program.has_field("pt_regs", "orig_ax"):
            name = (_COMPAT_ARGUMENTS if is_compat else _ARGUMENTS)[position]
        program.read_field(target, registers, "pt_regs", name)
