"""How instructions are written: RFC 9669 (Documentation/bpf/standardization/instruction-set.rst of the kernel)."""

from __future__ import annotations

import struct

import attrs

from omn_kernel.bpf.registers import Register

_LD, _LDX, _ST, _STX, _JUMP, _ALU64 = 0, 1, 2, 3, 5, 7
_IMMEDIATE, _ABSOLUTE_MEMORY, _ATOMIC = 0x00, 0x60, 0xC0
_FROM_REGISTER = 0x08
_DOUBLE = 0x18
_SIZES = {1: 0x10, 2: 0x08, 4: 0x00, 8: _DOUBLE}
_CALL, _EXIT = 0x80, 0x90

OPERATIONS = {
    "+=": 0x00,
    "-=": 0x10,
    "*=": 0x20,
    "/=": 0x30,
    "|=": 0x40,
    "&=": 0x50,
    "<<=": 0x60,
    ">>=": 0x70,
    "%=": 0x90,
    "^=": 0xA0,
    "=": 0xB0,
    "s>>=": 0xC0,
}
"""What is computed with a register; `s` is of signed numbers."""
CONDITIONS = {
    "==": 0x10,
    ">": 0x20,
    ">=": 0x30,
    "&": 0x40,
    "!=": 0x50,
    "s>": 0x60,
    "s>=": 0x70,
    "<": 0xA0,
    "<=": 0xB0,
    "s<": 0xC0,
    "s<=": 0xD0,
}
"""What a jump asks of a register: `&` that the two have a bit in common, `s` compares signed numbers."""
OPPOSITES = {
    "==": "!=",
    "!=": "==",
    ">": "<=",
    "<=": ">",
    ">=": "<",
    "<": ">=",
    "s>": "s<=",
    "s<=": "s>",
    "s>=": "s<",
    "s<": "s>=",
}


@attrs.frozen(repr=False)
class Instruction:
    """One instruction: its fields, the label it jumps to, and for one of 64 bits (two slots) the upper word."""

    code: int
    target: int = 0
    source: int = 0
    offset: int = 0
    immediate: int = 0
    label: str | None = None
    upper: int | None = None

    @property
    def slots(self) -> int:
        """How many times eight bytes it takes."""
        return 1 if self.upper is None else 2

    def encode(self, offset: int) -> bytes:
        """Return its bytes, a jump's distance as given."""
        registers = self.target | self.source << 4
        encoded = struct.pack("=BBhI", self.code, registers, offset, self.immediate & 0xFFFFFFFF)
        return encoded if self.upper is None else encoded + struct.pack("=BBhI", 0, 0, 0, self.upper & 0xFFFFFFFF)


def compute(target: Register, operation: str, operand: Register | int) -> Instruction:
    """Make `target operation operand`, such as r1 += 8."""
    code = _ALU64 | OPERATIONS[operation]
    if isinstance(operand, Register):
        return Instruction(code | _FROM_REGISTER, target.number, operand.number)
    return Instruction(code, target.number, immediate=_check_signed(operand))


def load_wide(target: Register, value: int, *, kind: int = 0, upper: int | None = None) -> Instruction:
    """Make a register a number of 64 bits, or with a kind what the kernel puts there for it: a map, a variable."""
    high = value >> 32 if upper is None else upper
    return Instruction(_LD | _DOUBLE | _IMMEDIATE, target.number, kind, immediate=value & 0xFFFFFFFF, upper=high)


def load(target: Register, base: Register, offset: int, size: int) -> Instruction:
    """Make `target = *(size bytes)(base + offset)`, the upper bits zero."""
    return Instruction(_LDX | _ABSOLUTE_MEMORY | _SIZES[size], target.number, base.number, offset)


def store(base: Register, offset: int, operand: Register | int, size: int) -> Instruction:
    """Make `*(size bytes)(base + offset) = operand`."""
    if isinstance(operand, Register):
        return Instruction(_STX | _ABSOLUTE_MEMORY | _SIZES[size], base.number, operand.number, offset)
    code = _ST | _ABSOLUTE_MEMORY | _SIZES[size]
    return Instruction(code, base.number, offset=offset, immediate=_check_signed(operand))


def add_atomically(base: Register, offset: int, operand: Register, size: int) -> Instruction:
    """Make `*(size bytes)(base + offset) += operand`, of which no other cpu or interrupt sees half."""
    return Instruction(_STX | _ATOMIC | _SIZES[size], base.number, operand.number, offset)


def jump(label: str) -> Instruction:
    """Make a jump that is always taken."""
    return Instruction(_JUMP, label=label)


def jump_if(register: Register, condition: str, operand: Register | int, label: str) -> Instruction:
    """Make a jump that is taken where `register condition operand` holds."""
    code = _JUMP | CONDITIONS[condition]
    if isinstance(operand, Register):
        return Instruction(code | _FROM_REGISTER, register.number, operand.number, label=label)
    return Instruction(code, register.number, immediate=_check_signed(operand), label=label)


def call(helper: int) -> Instruction:
    """Make a call of one of the kernel's helpers, by its number."""
    return Instruction(_JUMP | _CALL, immediate=helper)


def leave() -> Instruction:
    """Make the end of the program, which returns R0."""
    return Instruction(_JUMP | _EXIT)


def _check_signed(number: int) -> int:
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError(f"{number} does not fit the 32 bits of an instruction's number; move it to a register")
    return number
