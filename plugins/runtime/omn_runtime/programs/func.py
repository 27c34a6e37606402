"""Calls of functions, from their entry to their return, paired by the thread, the function and where its stack stood.

A call's return finds the stack where its entry did, whatever became of the calls that it made: one that never returns
(longjmp, or past the 64 returns that the kernel catches of a thread at a time) leaves the others their own. What stands
under the same place when another call begins there has not returned, and never will.
"""

from __future__ import annotations

import attrs
import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.filters import TaskFilter
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.maps import NO_EXIST, Map
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9
from omn_kernel.bpf.stacked import TakesTasks
from omn_kernel.bpf.transport import Transport
from omn_kernel.bpf.user_functions import read_caller, read_entry_stack, read_user_stack

FIELDS = [
    ("began_ns", "u8"),
    ("duration_ns", "i8"),
    ("caller", "u8"),
    ("stack", "u8"),
    ("around", "u8"),
    ("function", "u4"),
    ("depth", "u4"),
    ("thread", "u4"),
]
"""What is kept of a call: `depth` is how many others of its function its thread was in when it began, `stack` where its
stack stood then, and `around` where that of the innermost of the others did."""
DEPTH_KEY = np.dtype([("thread", "u4"), ("function", "u4")])
DEPTH = np.dtype([("calls", "u8"), ("stack", "u8")])
"""How many calls of a function a thread is in, and where the stack of the innermost stood."""
CALL_KEY = np.dtype([("thread", "u4"), ("function", "u4"), ("stack", "u8")])
MOST_CALLS = 1 << 16
"""How many calls that have not returned are remembered at a time."""


@attrs.frozen(kw_only=True)
class CallPrograms:
    """Writes the programs.

    `tasks` tells whose calls are timed; `depths` counts the calls that threads are in, `calls` keeps them. `lost`
    counts calls that found no room, `unpaired` returns of which no entry was seen, `left` calls whose place another
    took.
    """

    tasks: TaskFilter
    depths: Map
    calls: Map
    take_task: TakesTasks
    transport: Transport
    lost: LostCounter
    unpaired: LostCounter
    left: LostCounter

    def write_entry(self, function: int, program: KernelAssembly) -> None:
        """Write the entry of a function, told by its number."""
        self._begin(program)
        call, key = program.reserve(self.calls.value), program.reserve(CALL_KEY)
        program.clear(call)
        read_user_stack(program, R9, R6)
        self._count_depth(program, call, function)
        program.jump_if(R0, "!=", 0, "lost")
        self._set_key(program, key, function)
        self._set_key(program, call, function)
        program.set(call, "depth", R8)
        self.take_task(program, call, R7, R6)
        read_caller(program, R9, R6)
        program.set(call, "caller", R9)
        read_clock(program, R0)
        program.set(call, "began_ns", R0)
        program.update(self.calls, key, call, NO_EXIST)
        program.jump_if(R0, "==", 0, "done")
        program.update(self.calls, key, call)
        program.jump_if(R0, "!=", 0, "lost")
        self.left.emit_count(program)
        program.jump("done")
        program.label("lost")
        self.lost.emit_count(program)
        program.label("done")
        program.leave(0)

    def _count_depth(self, program: KernelAssembly, call: Record, function: int) -> None:
        """Set R8 to how many calls of a function the thread is in already, and count the one whose stack is in R9.

        R0 is not zero after it where there was no room. The innermost of the others has been left where its stack did
        not stand above this one's.
        """
        end = program.make_label("counted")
        depth = self._find_depth(program, function)
        program.move(R8, 0)
        with program.when(R0, "!=", 0):
            program.get(R8, depth, "calls")
            program.get(R1, depth, "stack")
            program.set(call, "around", R1)
            with program.when(R1, "<=", R9):
                program.compute(R8, "-=", 1)
            program.move(R1, R8)
            program.compute(R1, "+=", 1)
            program.set(depth, "calls", R1)
            program.set(depth, "stack", R9)
            program.move(R0, 0)
            program.jump(end)
        first = program.reserve(DEPTH)
        program.set(first, "calls", 1)
        program.set(first, "stack", R9)
        program.update(self.depths, self._make_depth_key(program, function), first)
        program.label(end)

    def write_return(self, function: int, program: KernelAssembly) -> None:
        """Write the return of a function, told by its number."""
        self._begin(program)
        # What follows is the program's own time, which the call does not have.
        read_clock(program, R8)
        key = program.reserve(CALL_KEY)
        read_entry_stack(program, R9, R6)
        self._set_key(program, key, function)
        program.look_up(self.calls, key)
        program.jump_if(R0, "==", 0, "unpaired")
        program.move(R9, R0)
        call = Record(R9, self.calls.value)
        program.set(call, "ns", R8)
        program.get(R1, call, "began_ns")
        program.compute(R8, "-=", R1)
        program.set(call, "duration_ns", R8)
        self._leave_depth(program, call, function)
        self.transport.write(program, call, R6)
        program.delete(self.calls, key)
        program.jump("done")
        program.label("unpaired")
        self.unpaired.emit_count(program)
        program.label("done")
        program.leave(0)

    def _leave_depth(self, program: KernelAssembly, call: Record, function: int) -> None:
        """Be in as many calls of a function as the one that returns was inside of, which may leave several at once."""
        end = program.make_label("left")
        program.get(R8, call, "depth")
        with program.when(R8, "==", 0):
            program.delete(self.depths, self._make_depth_key(program, function))
            program.jump(end)
        depth = self._find_depth(program, function)
        program.jump_if(R0, "==", 0, end)
        program.set(depth, "calls", R8)
        program.get(R1, call, "around")
        program.set(depth, "stack", R1)
        program.label(end)

    def _begin(self, program: KernelAssembly) -> None:
        """Keep the context in R6 and the task in R7, if it is one whose calls are timed."""
        program.move(R6, R1)
        program.point_to_current(R7)
        self.tasks.keep(program, R7, "done")

    def _make_depth_key(self, program: KernelAssembly, function: int) -> Record:
        key = program.reserve(DEPTH_KEY)
        program.read_field(R1, R7, "task_struct", "pid")
        program.set(key, "thread", R1)
        program.set(key, "function", function)
        return key

    def _find_depth(self, program: KernelAssembly, function: int) -> Record:
        """Find how many calls of a function the thread in R7 is in, at R0; zero where it is in none."""
        program.look_up(self.depths, self._make_depth_key(program, function))
        return Record(R0, DEPTH)

    def _set_key(self, program: KernelAssembly, record: Record, function: int) -> None:
        """Set which call it is in a key or a record: of the thread in R7, of a function, its stack where R9 says."""
        program.read_field(R1, R7, "task_struct", "pid")
        program.set(record, "thread", R1)
        program.set(record, "function", function)
        program.set(record, "stack", R9)
