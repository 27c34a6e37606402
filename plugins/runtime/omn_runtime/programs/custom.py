"""Places that are passed: where functions are entered, and those that a program marks itself, with their arguments."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.drains import SwappedRows
from omn_kernel.bpf.filters import TaskFilter
from omn_kernel.bpf.mark_arguments import MOST_ARGUMENTS, MarkArgument, read_mark_argument
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9
from omn_kernel.bpf.stacked import TakesTasks
from omn_kernel.bpf.tasks import TaskFields
from omn_kernel.bpf.transport import Transport
from omn_kernel.bpf.user_functions import (
    read_caller,
    read_place_number,
    read_user_argument,
    read_user_place,
)

ARGUMENTS = tuple(f"arg{position}" for position in range(MOST_ARGUMENTS))
MOST_OF_FUNCTIONS = 6
"""How many arguments of a function stand in registers."""
ROW = np.dtype([("count", "u8")])


def lay_out(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Lay out what is kept of a passing, with some arguments; `unread` has a bit for each that was not there."""
    return [("caller", "u8"), *((name, "u8") for name in arguments), ("place", "u4"), ("unread", "u4")]


@attrs.frozen(kw_only=True)
class RecordPrograms:
    """Writes the programs that hand each passing over. `tasks` tells whose are kept.

    `of_functions` and `of_marks` are the arguments that are kept where a function is entered, and at a marked place.
    """

    tasks: TaskFilter
    layout: np.dtype[np.void]
    of_functions: Sequence[str]
    of_marks: Sequence[str]
    take_task: TakesTasks
    transport: Transport

    def write_entry(self, program: KernelAssembly, *, number: int | None) -> None:
        """Write the entry of a function, which is told by its number."""
        record = self._begin(program, number)
        for name in self.of_functions:
            read_user_argument(program, R1, R6, ARGUMENTS.index(name))
            program.set(record, name, R1)
        read_caller(program, R8, R6)
        self._hand_over(program, record)

    def write_mark(
        self, arguments: Sequence[MarkArgument | None], program: KernelAssembly, *, number: int | None
    ) -> None:
        """Write a place that a program marks, with the arguments that can be read of it."""
        record = self._begin(program, number)
        for position, argument in enumerate(arguments):
            if argument is None or ARGUMENTS[position] not in self.of_marks:
                continue
            read_mark_argument(program, R8, R6, argument)
            program.set(record, ARGUMENTS[position], R8)
            with program.when(R0, "!=", 0):
                program.get(R1, record, "unread")
                program.compute(R1, "|=", 1 << position)
                program.set(record, "unread", R1)
        # A stack begins with the place itself: what stands for a caller is taken one byte before where it returns to.
        read_user_place(program, R8, R6)
        program.compute(R8, "+=", 1)
        self._hand_over(program, record)

    def _begin(self, program: KernelAssembly, number: int | None) -> Record:
        """Make the record of a passing by the task in R7, the context in R6."""
        _keep_own(program, self.tasks)
        record = program.reserve(self.layout)
        program.clear(record)
        _set_place(program, record, number)
        return record

    def _hand_over(self, program: KernelAssembly, record: Record) -> None:
        """Complete the record, whose caller is in R8, and hand it over."""
        program.set(record, "caller", R8)
        self.take_task(program, record, R7, R6)
        read_clock(program, R0)
        program.set(record, "ns", R0)
        self.transport.write(program, record, R6)
        program.label("done")
        program.leave(0)


@attrs.frozen
class RowPrograms:
    """Writes the programs that count passings in the kernel, under the place and what is shown of the task."""

    tasks: TaskFilter
    fields: TaskFields
    key: np.dtype[np.void]
    rows: SwappedRows

    def write(self, program: KernelAssembly, *, number: int | None) -> None:
        """Write what counts a passing of a place, which is told by its number."""
        _keep_own(program, self.tasks)
        key, empty = program.reserve(self.key), program.reserve(ROW)
        program.clear(key)
        program.clear(empty)
        _set_place(program, key, number)
        self.fields.write(program, key, R7)
        self.rows.find_or_make(program, key, empty)
        program.jump_if(R0, "==", 0, "done")
        program.move(R1, 1)
        program.add_to(Record(R0, ROW), "count", R1)
        program.label("done")
        program.leave(0)


def _keep_own(program: KernelAssembly, tasks: TaskFilter) -> None:
    """Keep the context in R6 and the task in R7, if it is one whose passings are asked for."""
    program.move(R6, R1)
    program.point_to_current(R7)
    tasks.keep(program, R7, "done")


def _set_place(program: KernelAssembly, record: Record, number: int | None) -> None:
    if number is None:
        read_place_number(program, R9, R6)
    else:
        program.move(R9, number)
    program.set(record, "place", R9)
