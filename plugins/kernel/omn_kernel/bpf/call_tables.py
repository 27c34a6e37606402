"""The system calls that a program looks for, told by their numbers before anything else is asked of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R3, Register
from omn_kernel.bpf.system_calls import read_call_argument, read_compat
from omn_kernel.syscalls import name_syscall

_NUMBERS = 1 << 9
"""More than any architecture has calls."""
_COMPAT_PREFIX = "i386:"


class CallTable:
    """The calls that a program looks for, by name, and a value of each. Raises MachineRefused where no map is made.

    The calls of 32-bit code are among them under their own numbers: the `place` of a call is its number and, where such
    code makes it, 512 more.
    """

    def __init__(self, calls: Mapping[str, Any], value: np.dtype[Any]) -> None:
        self.value = value
        values = np.zeros(2 * _NUMBERS, value)
        for place in range(2 * _NUMBERS):
            values[place] = calls.get(name_place(place).removeprefix(_COMPAT_PREFIX), values[place])
        self._values = Map(MapType.ARRAY, "calls", np.uint32, np.dtype([("values", "u1", values.nbytes)]), 1)
        self._values.update(0, (values.view(np.uint8),))

    def find(self, program: TaskAssembly, place: Register, task: Register, otherwise: str) -> Record:
        """Emit what sets R0 to where the value of a call lies, and a register from its number to its place.

        It goes to a label where the number is none of a call's. `place` and `task` are of R6 to R9; R1 to R5 hold
        nothing after it.
        """
        program.jump_if(place, ">=", _NUMBERS, otherwise)
        read_compat(program, R1, task)
        program.compute(R1, "*=", _NUMBERS)
        program.compute(place, "|=", R1)
        # What the verifier is to know of a number it has to see in the register that is added.
        program.move(R3, place)
        program.compute(R3, "&=", 2 * _NUMBERS - 1)
        program.compute(R3, "*=", self.value.itemsize)
        program.point_into(R0, self._values)
        program.compute(R0, "+=", R3)
        return Record(R0, self.value)

    def close(self) -> None:
        """Let go of the map."""
        self._values.close()


def name_place(place: int) -> str:
    """Name a call by its place in a table; one of 32-bit code stands behind `i386:`."""
    return name_syscall(place % _NUMBERS, is_compat=place >= _NUMBERS)


def read_argument_at(
    program: TaskAssembly, target: Register, registers: Register, place: Register, position: int
) -> None:
    """Emit what sets a register to an argument of a call by its place: 32-bit code gives it in another register.

    `registers` points to the struct pt_regs that the call's were saved in, and is not the target. R0 to R5 hold nothing
    after it but the target.
    """
    end = program.make_label("argument")
    with program.when(place, ">=", _NUMBERS):
        read_call_argument(program, target, registers, position, is_compat=True)
        program.jump(end)
    read_call_argument(program, target, registers, position)
    program.label(end)
