"""Whose time a cpu runs in when a program is called: the task's that is there, or an interrupt's that came over it."""

from __future__ import annotations

import enum

from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, Register

_COUNT, _SHARED = "__preempt_count", "pcpu_hot"
_NMI, _HARDIRQ, _SOFTIRQ_SERVED = 0xF00000, 0x0F0000, 0x000100
"""NMI_MASK, HARDIRQ_MASK and SOFTIRQ_OFFSET of <linux/preempt.h>.

The other bits of the softirq byte count how often the task itself put softirqs off, which makes it no interrupt.
"""


class CpuContext(enum.IntEnum):
    """What a cpu is doing, the innermost first to be told."""

    TASK = 0
    SOFTIRQ = 1
    HARDIRQ = 2
    NMI = 3


def read_cpu_context(program: KernelAssembly, target: Register) -> None:
    """Emit what sets a register to the cpu's context, a number of `CpuContext`. R0 to R5 hold nothing after it.

    The register is one of R6 to R9. Raises FieldMissing where the kernel's types do not tell of the count.
    """
    told = program.make_label("context")
    _read_count(program)
    program.move(target, CpuContext.NMI)
    program.jump_if(R0, "&", _NMI, told)
    program.move(target, CpuContext.HARDIRQ)
    program.jump_if(R0, "&", _HARDIRQ, told)
    program.move(target, CpuContext.SOFTIRQ)
    program.jump_if(R0, "&", _SOFTIRQ_SERVED, told)
    program.move(target, CpuContext.TASK)
    program.label(told)


def _read_count(program: KernelAssembly) -> None:
    """Emit what sets R0 to the count of x86, which Linux 6.2 to 6.14 keep among what each cpu reads most."""
    if program.has_field(_SHARED, "preempt_count"):
        program.read_cpu_variable(R0, _SHARED, "preempt_count")
    else:
        program.read_cpu_variable(R0, _COUNT)
