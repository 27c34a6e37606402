"""Calls of a program's allocator, from where each is entered to where it returns, and the blocks that are given back.

An allocator may call itself: one that makes a block larger takes a new one and gives the old one back. What is called
inside a call stands deeper on the stack than it, and is left out, so that the outermost call alone is told of. A call
that never returned is known by the next one, which stands no deeper.
"""

from __future__ import annotations

from functools import partial

import attrs
import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.filters import TaskFilter
from omn_kernel.bpf.pieces import copy_from_user, read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R3, R6, R7, R8, R9
from omn_kernel.bpf.stacked import TakesTasks
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.transport import Transport
from omn_kernel.bpf.user_functions import (
    UserFunction,
    read_caller,
    read_user_argument,
    read_user_result,
    read_user_stack,
)

FIELDS = [
    ("began_at", "u8"),
    ("bytes", "u8"),
    ("addr", "u8"),
    ("given", "u8"),
    ("caller", "u8"),
    ("op", "u4"),
]
"""What is kept of a call: `began_at` is where its stack stood, 0 for none; `addr` the block that it made, 0 for none;
`given` the block that a call was handed, of posix_memalign where the block's address is to be put."""
MALLOC, CALLOC, REALLOC, POSIX_MEMALIGN, ALIGNED_ALLOC, MEMALIGN, VALLOC, PVALLOC, FREE = range(1, 10)
OPERATIONS = {
    MALLOC: "malloc",
    CALLOC: "calloc",
    REALLOC: "realloc",
    POSIX_MEMALIGN: "posix_memalign",
    ALIGNED_ALLOC: "aligned_alloc",
    MEMALIGN: "memalign",
    VALLOC: "valloc",
    PVALLOC: "pvalloc",
    FREE: "free",
}
"""The functions by the number that stands in a record."""
_SIZES = {MALLOC: 0, REALLOC: 1, POSIX_MEMALIGN: 2, ALIGNED_ALLOC: 1, MEMALIGN: 1, VALLOC: 0, PVALLOC: 0}
"""Which argument is the size; calloc has two that are multiplied."""
_ADDRESS = np.dtype([("address", "u8")])
_MOST = (1 << 63) - 1


@attrs.frozen
class HeapPrograms:
    """Writes the programs on the functions of an allocator."""

    tasks: TaskFilter
    calls: TaskStates
    take_task: TakesTasks
    transport: Transport

    def list_functions(self) -> list[UserFunction]:
        """List the programs, those on returns before those on entries."""
        made = [number for number in OPERATIONS if number != FREE]
        return [
            UserFunction(tuple(OPERATIONS[number] for number in made), self.write_return, is_return=True),
            UserFunction(("free", "cfree"), self.write_free),
            *(UserFunction((OPERATIONS[number],), partial(self.write_entry, operation=number)) for number in made),
        ]

    def write_entry(self, program: KernelAssembly, operation: int) -> None:
        """Write the entry of a function that makes a block."""
        self._begin(program)
        call = program.reserve(self.calls.state)
        program.clear(call)
        program.set(call, "op", operation)
        read_user_stack(program, R1, R6)
        program.set(call, "began_at", R1)
        self._read_size(program, call, operation)
        if operation in (REALLOC, POSIX_MEMALIGN):
            read_user_argument(program, R1, R6, 0)
            program.set(call, "given", R1)
        self.take_task(program, call, R7, R6)
        read_caller(program, R9, R6)
        program.set(call, "caller", R9)
        self.calls.put(program, R7, call)
        program.label("done")
        program.leave(0)

    def _begin(self, program: KernelAssembly) -> None:
        """Set R7 to the task that runs; `done` where it is not the target's, or is inside another call."""
        program.move(R6, R1)
        program.point_to_current(R7)
        self.tasks.keep(program, R7, "done")
        outer = self.calls.look_up(program, R7)
        with program.when(R0, "!=", 0):
            program.get(R8, outer, "began_at")
            read_user_stack(program, R1, R6)
            program.jump_if(R1, "<", R8, "done")

    def _read_size(self, program: KernelAssembly, call: Record, operation: int) -> None:
        """Set the bytes of a call; a product that no 63 bits hold is as many as these do."""
        if operation != CALLOC:
            read_user_argument(program, R1, R6, _SIZES[operation])
            program.set(call, "bytes", R1)
            return
        end = program.make_label("size")
        read_user_argument(program, R1, R6, 0)
        read_user_argument(program, R2, R6, 1)
        program.move(R3, R1)
        program.compute(R3, "*=", R2)
        program.jump_if(R2, "==", 0, end)
        program.move(R0, _MOST)
        program.compute(R0, "/=", R2)
        with program.when(R1, ">", R0):
            program.move(R3, _MOST)
        program.label(end)
        program.set(call, "bytes", R3)

    def write_return(self, program: KernelAssembly) -> None:
        """Write the return of a function that makes a block: of the outermost call, told by where the stack stands."""
        program.move(R6, R1)
        program.point_to_current(R7)
        call = self.calls.find_begun(program, R7, "began_at", at=R8, began=R9, otherwise="done")
        read_user_stack(program, R1, R6)
        # On x86 the return takes its address off the stack.
        program.compute(R1, "-=", 8 if program.has_field("pt_regs", "di") else 0)
        program.jump_if(R1, "!=", R9, "done")
        program.set(call, "began_at", 0)
        self._find_block(program, call)
        read_clock(program, R0)
        program.set(call, "ns", R0)
        self.transport.write(program, call, R6)
        program.label("done")
        program.leave(0)

    def _find_block(self, program: KernelAssembly, call: Record) -> None:
        """Set the address of what a call made: what it returns or, of posix_memalign that returns zero, has put."""
        end = program.make_label("block")
        read_user_result(program, R9, R6)
        program.get(R1, call, "op")
        program.jump_if(R1, "!=", POSIX_MEMALIGN, end)
        # It returns an int: what is above its 32 bits is nothing.
        program.compute(R9, "<<=", 32)
        place = program.reserve(_ADDRESS)
        program.set(place, "address", 0)
        with program.when(R9, "==", 0):
            program.get(R9, call, "given")
            copy_from_user(program, place, R9)
        program.get(R9, place, "address")
        program.label(end)
        program.set(call, "addr", R9)

    def write_free(self, program: KernelAssembly) -> None:
        """Write the entry of the function that gives the block back which is its argument; none is no block."""
        self._begin(program)
        read_user_argument(program, R9, R6, 0)
        program.jump_if(R9, "==", 0, "done")
        block = program.reserve(self.calls.state)
        program.clear(block)
        program.set(block, "op", FREE)
        program.set(block, "given", R9)
        program.read_field(R1, R7, "task_struct", "tgid")
        program.set(block, "process", R1)
        read_clock(program, R0)
        program.set(block, "ns", R0)
        self.transport.write(program, block, R6)
        program.label("done")
        program.leave(0)
