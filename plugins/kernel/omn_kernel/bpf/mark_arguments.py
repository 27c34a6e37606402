"""Arguments of the places that a program marks: where the compiler left each, as the note says, read by programs.

An argument is a size and an operand of the assembler: `-4@%edi` (signed, 4 bytes, a register), `8@-24(%rbp)` (memory),
`4@$5` (a number). See <sys/sdt.h>.
"""

from __future__ import annotations

import re

import attrs
import numpy as np

from omn_kernel.bpf.pieces import copy_from_user
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R3, Register
from omn_kernel.btf.fields import get_fields

MOST_ARGUMENTS = 12
"""How many <sys/sdt.h> can say of one place."""

_WORD_BITS = 64
_SUM = r"[-+]?(?:0x[0-9a-fA-F]+|\d+)(?:[-+](?:0x[0-9a-fA-F]+|\d+))*"
_ARGUMENT = re.compile(r"(?:(-?)([1248])@)?(\S+)")
_NUMBER = re.compile(rf"\$({_SUM})")
_REGISTER = re.compile(r"%(\w+)")
_MEMORY = re.compile(rf"({_SUM})?\((?:%(\w+))?(?:,%(\w+)(?:,([1248]))?)?\)")
_TERM = re.compile(r"[-+]?(?:0x[0-9a-fA-F]+|\d+)")


def _name_registers() -> dict[str, tuple[str, int]]:
    """Return the field of x86's struct pt_regs of each register by each of its names, and the bit that it begins at."""
    named: dict[str, tuple[str, int]] = {}
    for letter in "abcd":
        named |= {f"{prefix}{letter}x": (f"{letter}x", 0) for prefix in ("r", "e", "")}
        named |= {f"{letter}l": (f"{letter}x", 0), f"{letter}h": (f"{letter}x", 8)}
    for name in ("si", "di", "bp", "sp"):
        named |= {f"{prefix}{name}": (name, 0) for prefix in ("r", "e", "")} | {f"{name}l": (name, 0)}
    for number in range(8, 16):
        named |= {f"r{number}{size}": (f"r{number}", 0) for size in ("", "d", "w", "b")}
    return named


_REGISTERS = _name_registers()


@attrs.frozen
class MarkArgument:
    """An argument of `size` bytes: a register, a number (neither), or memory at a register, an index and a distance."""

    size: int
    is_signed: bool
    register: str | None = None
    shift: int = 0
    number: int = 0
    is_memory: bool = False
    index: str | None = None
    scale: int = 1


def parse_arguments(text: str) -> tuple[MarkArgument | None, ...]:
    """Parse what a note of x86-64 code says of its arguments; None for one whose operand is none that is read.

    Those are operands in registers of floating point, and those that name a symbol.
    """
    return tuple(_parse_argument(one) for one in text.split()[:MOST_ARGUMENTS])


def _parse_argument(text: str) -> MarkArgument | None:
    whole = _ARGUMENT.fullmatch(text)
    if whole is None or "@" in whole[3]:
        return None
    size, is_signed, operand = int(whole[2] or 8), bool(whole[1]), whole[3]
    if found := _NUMBER.fullmatch(operand):
        return MarkArgument(size, is_signed, number=_add_up(found[1]))
    if found := _REGISTER.fullmatch(operand):
        place = _REGISTERS.get(found[1])
        return None if place is None else MarkArgument(size, is_signed, place[0], place[1])
    found = _MEMORY.fullmatch(operand)
    if found is None or {found[2], found[3]} - {None, *_REGISTERS} or not (found[2] or found[3]):
        return None
    base, index = (None if one is None else _REGISTERS[one][0] for one in (found[2], found[3]))
    return MarkArgument(
        size, is_signed, base, number=_add_up(found[1] or "0"), is_memory=True, index=index, scale=int(found[4] or 1)
    )


def _add_up(text: str) -> int:
    return sum(int(term, 0) for term in _TERM.findall(text))


def read_mark_argument(program: KernelAssembly, target: Register, context: Register, argument: MarkArgument) -> None:
    """Emit what sets a register, one of R7 to R9, to an argument at a marked place, and R0 to zero.

    `context`, one of R6 to R9, holds what R1 held when the program began. Of memory that is not there R0 is a negated
    errno and the register zero. R1 to R5 hold nothing of the program's after it.
    """
    if argument.is_memory:
        _read_memory(program, target, context, argument)
    elif argument.register is None:
        program.move(target, argument.number)
        program.move(R0, 0)
    else:
        _load_register(program, target, context, argument.register)
        if argument.shift:
            program.compute(target, ">>=", argument.shift)
        program.move(R0, 0)
    unused = _WORD_BITS - 8 * argument.size
    if unused:
        program.compute(target, "<<=", unused)
        program.compute(target, "s>>=" if argument.is_signed else ">>=", unused)


def _read_memory(program: KernelAssembly, target: Register, context: Register, argument: MarkArgument) -> None:
    place = program.reserve(np.dtype([("value", f"u{argument.size}")]))
    program.clear(place)
    program.move(R3, argument.number)
    for register, scale in ((argument.register, 1), (argument.index, argument.scale)):
        if register is not None:
            _load_register(program, R1, context, register)
            program.compute(R1, "*=", scale)
            program.compute(R3, "+=", R1)
    copy_from_user(program, place, R3)
    program.get(target, place, "value")


def _load_register(program: KernelAssembly, target: Register, context: Register, name: str) -> None:
    (field,) = get_fields(program.types, "pt_regs", name)
    program.load(target, context, field.offset, field.size)
