"""Pages that the kernel's page allocator hands out, by the task that runs when it does."""

from __future__ import annotations

from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R1, R2, R6, R7, Register
from omn_kernel.bpf.tracing import Label, Tracer, Tracing
from omn_kernel.procfs.task import PAGE_BYTES

_KINDS = ("unmovable", "movable", "reclaimable", "high-atomic")
"""enum migratetype of <linux/mmzone.h>, as far as every kernel numbers it alike."""
_INTEGER_BITS = 32


def _name_kind(number: int) -> str | None:
    return _KINDS[number] if number < len(_KINDS) else "other"


def _cut(program: KernelAssembly, argument: Register) -> None:
    """Emit what leaves of an argument the 32 bits that it has."""
    program.compute(argument, "<<=", _INTEGER_BITS)
    program.compute(argument, ">>=", _INTEGER_BITS)


class PageAllocations(Tracer):
    """Allocations of a target's tasks, of 2 to the power of `order` pages each; one that failed is none."""

    measured = ("bytes",)
    unit = "allocations"
    labels = (Label("order"), Label("mobility", spell=_name_kind))

    def load(self, tracing: Tracing) -> None:
        """Load what sees pages handed out."""
        tracing.load_tracepoint("mm_page_alloc", lambda program: self.write_alloc(program, tracing))

    def write_alloc(self, program: KernelAssembly, tracing: Tracing) -> None:
        """Write mm_page_alloc(page, order, flags, mobility)."""
        event = tracing.reserve(program)
        program.move(R6, R1)
        program.read_argument(R1, R6, 0)
        program.jump_if(R1, "==", 0, "done")
        program.point_to_current(R7)
        tracing.tasks.filter.keep(program, R7, "done")
        program.read_argument(R1, R6, 1)
        _cut(program, R1)
        program.set(event, "order", R1)
        program.move(R2, PAGE_BYTES)
        program.compute(R2, "<<=", R1)
        program.set(event, "bytes", R2)
        program.read_argument(R1, R6, 3)
        _cut(program, R1)
        program.set(event, "mobility", R1)
        tracing.write(program, event, R7, R6)
        program.label("done")
        program.leave(0)
