"""Calls on files, from where they are entered to where they return: by which descriptor, and what came of them.

What is known of a call is kept from its beginning to its end under its thread. A call that moves bytes from one file to
another (sendfile, splice, copy_file_range) has two halves, which are handed over one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.call_tables import CallTable, read_argument_at
from omn_kernel.bpf.filters import TaskFilter
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.open_files import OpenFiles
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R6, R7, R8, R9
from omn_kernel.bpf.system_calls import read_call_number
from omn_kernel.bpf.task_states import TaskStates

CALL = [("began_ns", "u8"), ("result", "i8"), ("place", "u4"), ("kind", "u4")]
"""What is kept of a call: `place` is its number in a table of calls, `kind` what that says of it."""
NO_DIR, READ, WRITE = range(3)
KIND = np.dtype([("is_kept", "u1"), ("has_file", "u1"), ("dir", "u1"), ("second", "u1")])
"""`second` is the position of the argument that is a second descriptor, 0 where there is none."""
_OTHER = "second_"


@attrs.frozen
class CallKind:
    """A call that is looked for: which way bytes go by the descriptor that is its first argument, if that is one.

    `second` is the position of another descriptor, by which they go the other way.
    """

    dir: int = NO_DIR
    second: int = 0
    has_file: bool = True


def make_layout(files: OpenFiles) -> list[tuple[str, str]]:
    """Make the fields of a record of a call, those of its files among them."""
    return [*CALL, *files.layout, *((f"{_OTHER}{name}", kind) for name, kind in files.layout)]


class FileCalls:
    """Writes the programs on sys_enter and sys_exit for some calls.

    `states` keeps calls that have begun, as records with the fields of `make_layout`. `unknown` counts calls of the
    target that return and were not seen to begin.
    """

    def __init__(self, calls: Mapping[str, CallKind], tasks: TaskFilter, files: OpenFiles, states: TaskStates) -> None:
        kinds = {name: (1, kind.has_file, kind.dir, kind.second) for name, kind in calls.items()}
        self._table = CallTable(kinds, KIND)
        self._has_second = any(kind.second for kind in calls.values())
        self._tasks = tasks
        self._files = files
        self._states = states
        self.unknown = LostCounter()

    def close(self) -> None:
        """Let go of the maps."""
        self._table.close()
        self.unknown.close()

    def count_unfinished(self) -> int:
        """Count the calls that have begun and have not returned."""
        return int(np.count_nonzero(self._states.table.read().values["began_ns"]))

    def write_enter(self, program: TaskAssembly) -> None:
        """Write sys_enter(registers, number)."""
        program.move(R6, R1)
        program.read_argument(R8, R6, 1)
        self._find_kind(program)
        self._tasks.keep(program, R7, "done")
        call = program.reserve(self._states.state)
        program.clear(call)
        program.set(call, "kind", R9)
        program.set(call, "place", R8)
        if self._files.layout and isinstance(program, KernelAssembly):
            self._write_files(program, call)
        read_clock(program, R0)
        program.set(call, "began_ns", R0)
        self._states.put(program, R7, call)
        program.label("done")
        program.leave(0)

    def _find_kind(self, program: TaskAssembly) -> None:
        """Emit what makes of a number in R8 the call's place, and sets R7 to the task and R9 to the call's kind.

        It leaves what is none of the calls.
        """
        program.point_to_current(R7)
        kind = self._table.find(program, R8, R7, "done")
        program.load(R9, kind.base, kind.offset, KIND.itemsize)
        program.jump_if(R9, "==", 0, "done")

    def _write_files(self, program: KernelAssembly, call: Record) -> None:
        """Emit what finds the files of the descriptors that a call is given; R8 has its place."""
        kind = Record(call.base, KIND, call.locate("kind")[0])
        program.get(R1, kind, "has_file")
        program.jump_if(R1, "==", 0, "found")
        self._read_argument(program, 0)
        self._files.write(program, call, R7)
        if self._has_second:
            other = Record(call.base, np.dtype(self._files.layout), call.locate(f"{_OTHER}dentry")[0])
            for position in (1, 2):
                program.get(R1, kind, "second")
                with program.when(R1, "==", position):
                    program.get(R8, call, "place")
                    self._read_argument(program, position)
            program.get(R1, kind, "second")
            program.jump_if(R1, "==", 0, "found")
            self._files.write(program, other, R7)
        program.label("found")

    def _read_argument(self, program: KernelAssembly, position: int) -> None:
        """Emit what sets R9 to an argument of the call at the place in R8."""
        program.read_argument(R1, R6, 0)
        read_argument_at(program, R9, R1, R8, position)

    def write_exit(self, program: TaskAssembly, hand_over: Callable[[TaskAssembly, Record], None]) -> None:
        """Write sys_exit(registers, result). `hand_over` emits what becomes of a call.

        R6 has the context then, R7 the task and R8 the call, and R9 is to stay as it is.
        """
        program.move(R6, R1)
        program.read_argument(R8, R6, 0)
        read_call_number(program, R8, R8)
        self._find_kind(program)
        call = self._states.find_begun(program, R7, "began_ns", at=R8, began=R1, otherwise="unknown")
        read_clock(program, R0)
        program.set(call, "ns", R0)
        program.read_argument(R1, R6, 1)
        program.set(call, "result", R1)
        program.move(R9, 0)
        program.label("half")
        hand_over(program, call)
        if self._has_second:
            self._turn(program, call)
        program.label("forget")
        program.set(call, "began_ns", 0)
        program.jump("done")
        program.label("unknown")
        self._tasks.keep(program, R7, "done")
        self.unknown.emit_count(program)
        program.label("done")
        program.leave(0)

    def _turn(self, program: TaskAssembly, call: Record) -> None:
        """Emit what makes of a call's first half its second, once: its other descriptor, the other way."""
        program.jump_if(R9, "!=", 0, "forget")
        kind = Record(call.base, KIND, call.locate("kind")[0])
        program.get(R1, kind, "second")
        program.jump_if(R1, "==", 0, "forget")
        for name, _ in self._files.layout:
            program.get(R1, call, f"{_OTHER}{name}")
            program.set(call, name, R1)
        program.get(R1, kind, "dir")
        program.move(R2, READ + WRITE)
        program.compute(R2, "-=", R1)
        program.set(kind, "dir", R2)
        program.move(R9, 1)
        program.jump("half")
