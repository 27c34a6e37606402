"""Calls of functions, from their entry to their return, paired by the thread, the function and how deep it is in it.

How many calls of a function a thread is in is counted, and each call stands under its depth. So a call inside another
of the same function is not taken for it, and where a return is missed the calls around it keep their own.
"""

from __future__ import annotations

import attrs
import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.filters import TaskFilter
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9
from omn_kernel.bpf.stacked import TakesStacks
from omn_kernel.bpf.tasks import TaskFields
from omn_kernel.bpf.transport import Transport
from omn_kernel.bpf.user_functions import read_caller

FIELDS = [
    ("began_ns", "u8"),
    ("duration_ns", "i8"),
    ("caller", "u8"),
    ("function", "u4"),
    ("depth", "u4"),
    ("thread", "u4"),
]
"""What is kept of a call: `depth` is how many others of its function its thread was in when it began."""
DEPTH_KEY = np.dtype([("thread", "u4"), ("function", "u4")])
DEPTH = np.dtype([("calls", "u8")])
CALL_KEY = np.dtype([("thread", "u4"), ("function", "u4"), ("depth", "u4")])
MOST_CALLS = 1 << 16
"""How many calls that have not returned are remembered at a time."""


@attrs.frozen
class CallPrograms:
    """Writes the programs.

    `tasks` tells whose calls are timed; `depths` counts the calls that threads are in, `calls` keeps them. `lost`
    counts calls that found no room, `unpaired` returns of which no entry was seen.
    """

    tasks: TaskFilter
    fields: TaskFields
    depths: Map
    calls: Map
    take_stack: TakesStacks
    transport: Transport
    lost: LostCounter
    unpaired: LostCounter

    def write_entry(self, function: int, program: KernelAssembly) -> None:
        """Write the entry of a function, told by its number."""
        self._begin(program)
        call, key = program.reserve(self.calls.value), program.reserve(CALL_KEY)
        program.clear(call)
        depth = self._find_depth(program, function)
        program.move(R8, 0)
        with program.when(R0, "!=", 0):
            program.get(R8, depth, "calls")
            program.move(R1, R8)
            program.compute(R1, "+=", 1)
            program.set(depth, "calls", R1)
            program.jump("counted")
        self._put_first(program, function)
        program.jump_if(R0, "!=", 0, "lost")
        program.label("counted")
        self._set_key(program, key, function)
        self._set_key(program, call, function)
        self.fields.write(program, call, R7)
        program.read_field(R1, R7, "task_struct", "tgid")
        program.set(call, "process", R1)
        self.take_stack(program, call, R6)
        read_caller(program, R9, R6)
        program.set(call, "caller", R9)
        read_clock(program, R0)
        program.set(call, "began_ns", R0)
        program.update(self.calls, key, call)
        program.jump_if(R0, "==", 0, "done")
        program.label("lost")
        self.lost.emit_count(program)
        program.label("done")
        program.leave(0)

    def write_return(self, function: int, program: KernelAssembly) -> None:
        """Write the return of a function, told by its number."""
        self._begin(program)
        # What follows is the program's own time, which the call does not have.
        read_clock(program, R9)
        key = program.reserve(CALL_KEY)
        depth = self._find_depth(program, function)
        program.jump_if(R0, "==", 0, "unpaired")
        program.get(R8, depth, "calls")
        program.compute(R8, "-=", 1)
        program.set(depth, "calls", R8)
        with program.when(R8, "==", 0):
            self._drop_depth(program, function)
        self._set_key(program, key, function)
        program.look_up(self.calls, key)
        program.jump_if(R0, "==", 0, "done")
        program.move(R8, R0)
        call = Record(R8, self.calls.value)
        program.set(call, "ns", R9)
        program.get(R1, call, "began_ns")
        program.compute(R9, "-=", R1)
        program.set(call, "duration_ns", R9)
        self.transport.write(program, call, R6)
        program.delete(self.calls, key)
        program.jump("done")
        program.label("unpaired")
        self.unpaired.emit_count(program)
        program.label("done")
        program.leave(0)

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

    def _put_first(self, program: KernelAssembly, function: int) -> None:
        first = program.reserve(DEPTH)
        program.set(first, "calls", 1)
        program.update(self.depths, self._make_depth_key(program, function), first)

    def _drop_depth(self, program: KernelAssembly, function: int) -> None:
        program.delete(self.depths, self._make_depth_key(program, function))

    def _set_key(self, program: KernelAssembly, record: Record, function: int) -> None:
        """Set which call it is in a key or a record: the thread in R7's, of a function, at the depth in R8."""
        program.read_field(R1, R7, "task_struct", "pid")
        program.set(record, "thread", R1)
        program.set(record, "function", function)
        program.set(record, "depth", R8)
