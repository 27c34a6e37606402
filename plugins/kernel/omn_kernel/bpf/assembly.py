"""eBPF programs assembled in Python: instructions, labels, named places on the stack and in maps.

    program = Assembly("count_switches")
    program.move(R1, 0)
    program.point_into(R0, counts)              # the value of an array of one entry
    count = Record(R0, counts.value)
    program.move(R1, 1)
    program.add_to(count, "switches", R1)
    program.leave(0)

Each instruction remembers the line that emitted it, so that what the kernel's verifier says of it is said of the line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from omn_kernel.bpf import encoding
from omn_kernel.bpf.encoding import OPPOSITES, Instruction
from omn_kernel.bpf.registers import R0, R1, R2, R3, R4, R10, Register
from omn_kernel.bpf.sources import Line, find_lines
from omn_kernel.native import calls

Operand: TypeAlias = Register | int
_STACK_BYTES = 512
_MAP, _MAP_VALUE = 1, 2
_WORD = 8


class LoadedMap(Protocol):
    """What a program needs of a map: its descriptor, and the type of its values."""

    @property
    def descriptor(self) -> int:
        """The map's descriptor."""

    @property
    def value(self) -> np.dtype[Any]:
        """The type of a value, of which a program names the fields."""


@attrs.frozen(repr=False)
class Record:
    """A structure in memory that a program reaches: `offset` bytes from what `base` holds, laid out as `layout`."""

    base: Register
    layout: np.dtype[Any]
    offset: int = 0

    def locate(self, field: str) -> tuple[int, int]:
        """Return a field's distance from the base, and its size. Raises KeyError where there is no such field."""
        if self.layout.fields is None:
            raise KeyError(f"{self.layout} has no fields, and none that is called {field!r}")
        kind, place = self.layout.fields[field][:2]
        return self.offset + place, kind.itemsize


@attrs.frozen(repr=False)
class Assembled:
    """A program as the kernel takes it: its name, its instructions, and the lines that emitted each slot of them."""

    name: str
    instructions: bytes
    lines: tuple[tuple[Line, ...], ...]


class Assembly:
    """A program that is being written. `name` is what the kernel lists it by, 15 letters of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._emitted: list[tuple[Instruction, tuple[Line, ...]]] = []
        self._labels: dict[str, int] = {}
        self._slots = 0
        self._made = 0
        self._stack = 0

    # Instructions ----------------------------------------------------------------------------------------------------

    def emit(self, instruction: Instruction) -> None:
        """Add an instruction."""
        self._emitted.append((instruction, find_lines()))
        self._slots += instruction.slots

    def move(self, target: Register, value: Operand) -> None:
        """Set a register to another's value or to a number of up to 64 bits."""
        if isinstance(value, int) and not -(1 << 31) <= value < 1 << 31:
            self.emit(encoding.load_wide(target, value))
        else:
            self.emit(encoding.compute(target, "=", value))

    def compute(self, target: Register, operation: str, operand: Operand) -> None:
        """Compute on a register, with the operations of `encoding.OPERATIONS`: `compute(R1, "+=", 8)`."""
        self.emit(encoding.compute(target, operation, operand))

    def load(self, target: Register, base: Register, offset: int, size: int) -> None:
        """Load 1, 2, 4 or 8 bytes of memory."""
        self.emit(encoding.load(target, base, offset, size))

    def store(self, base: Register, offset: int, value: Operand, size: int) -> None:
        """Store 1, 2, 4 or 8 bytes of a register, or a number of 32 bits."""
        self.emit(encoding.store(base, offset, value, size))

    def call(self, helper: str) -> None:
        """Call a helper of the kernel by its name in bpf-helpers(7) without bpf_. R1 to R5 hold nothing after it."""
        number = calls.constant(f"BPF_FUNC_{helper}")
        if number is None:
            raise ValueError(f"this build knows no eBPF helper {helper!r}")
        self.emit(encoding.call(number))

    def leave(self, value: Operand | None = None) -> None:
        """End the program, with what is in R0 or with a value."""
        if value is not None:
            self.move(R0, value)
        self.emit(encoding.leave())

    # Where a program goes --------------------------------------------------------------------------------------------

    def make_label(self, name: str) -> str:
        """Make a label of a piece that may be written several times in one program."""
        self._made += 1
        return f"{name}.{self._made}"

    def label(self, name: str) -> None:
        """Name this place. Raises ValueError for a name that stands elsewhere already."""
        if name in self._labels:
            raise ValueError(f"the label {name!r} stands twice in {self.name}")
        self._labels[name] = self._slots

    def jump(self, label: str) -> None:
        """Go on at a label."""
        self.emit(encoding.jump(label))

    def jump_if(self, register: Register, condition: str, operand: Operand, label: str) -> None:
        """Go on at a label where a condition of `encoding.CONDITIONS` holds: `jump_if(R0, "==", 0, "done")`."""
        self.emit(encoding.jump_if(register, condition, operand, label))

    @contextmanager
    def when(self, register: Register, condition: str, operand: Operand) -> Iterator[None]:
        """Emit what stands in the block so that it runs only where the condition holds."""
        end = self.make_label("end")
        self.jump_if(register, OPPOSITES[condition], operand, end)
        yield
        self.label(end)

    # Structures ------------------------------------------------------------------------------------------------------

    def reserve(self, layout: npt.DTypeLike) -> Record:
        """Reserve a place on the stack. Raises ValueError where the 512 bytes that a program has are exceeded."""
        kind: np.dtype[Any] = np.dtype(layout)
        self._stack += -kind.itemsize % _WORD + kind.itemsize
        if self._stack > _STACK_BYTES:
            raise ValueError(f"{self.name} takes more than the {_STACK_BYTES} bytes of a program's stack")
        return Record(R10, kind, -self._stack)

    def clear(self, record: Record) -> None:
        """Set all of a structure to zero, what lies between its fields too: the kernel copies that with them."""
        done = 0
        while done < record.layout.itemsize:
            size = max(size for size in (8, 4, 2, 1) if done + size <= record.layout.itemsize)
            self.store(record.base, record.offset + done, 0, size)
            done += size

    def set(self, record: Record, field: str, value: Operand) -> None:
        """Store a value in a field."""
        offset, size = record.locate(field)
        self.store(record.base, offset, value, size)

    def get(self, target: Register, record: Record, field: str) -> None:
        """Load a field's value, its upper bits zero."""
        offset, size = record.locate(field)
        self.load(target, record.base, offset, size)

    def copy_words(self, target: Record, source: Record, field: str) -> None:
        """Copy a field of whole words that two structures have. R1 holds nothing of the program's after it."""
        (begin, size), (place, _) = source.locate(field), target.locate(field)
        for offset in range(0, size, _WORD):
            self.load(R1, source.base, begin + offset, _WORD)
            self.store(target.base, place + offset, R1, _WORD)

    def add_to(self, record: Record, field: str, value: Register) -> None:
        """Add to a field of 4 or 8 bytes, so that no cpu's or interrupt's addition is lost."""
        offset, size = record.locate(field)
        self.emit(encoding.add_atomically(record.base, offset, value, size))

    def point_at(self, target: Register, record: Record, field: str | None = None) -> None:
        """Set a register to where a structure, or a field of it, lies."""
        offset = record.offset if field is None else record.locate(field)[0]
        self.move(target, record.base)
        if offset:
            self.compute(target, "+=", offset)

    # Maps ------------------------------------------------------------------------------------------------------------

    def load_map(self, target: Register, table: LoadedMap) -> None:
        """Set a register to a map, as helpers take it."""
        self.emit(encoding.load_wide(target, table.descriptor, kind=_MAP, upper=0))

    def point_into(self, target: Register, table: LoadedMap, offset: int = 0) -> None:
        """Set a register to the first value of an array, which is always there, or so many bytes into it."""
        self.emit(encoding.load_wide(target, table.descriptor, kind=_MAP_VALUE, upper=offset))

    def look_up(self, table: LoadedMap, key: Record) -> None:
        """Set R0 to where the value under a key lies, or to zero where there is none, which a program has to ask."""
        self.load_map(R1, table)
        self.point_at(R2, key)
        self.call("map_lookup_elem")

    def update(self, table: LoadedMap, key: Record, value: Record, flags: int = 0) -> None:
        """Store a value under a key. R0 is zero, or a negated errno where it was not stored."""
        self.load_map(R1, table)
        self.point_at(R2, key)
        self.point_at(R3, value)
        self.move(R4, flags)
        self.call("map_update_elem")

    def delete(self, table: LoadedMap, key: Record) -> None:
        """Remove the value under a key. R0 is zero, or a negated errno."""
        self.load_map(R1, table)
        self.point_at(R2, key)
        self.call("map_delete_elem")

    # The end ---------------------------------------------------------------------------------------------------------

    def assemble(self) -> Assembled:
        """Return the program as the kernel takes it. Raises ValueError for a jump to a label that stands nowhere."""
        encoded, lines, slot = [], [], 0
        for instruction, emitted in self._emitted:
            offset = instruction.offset
            if instruction.label is not None:
                if instruction.label not in self._labels:
                    raise ValueError(f"{self.name} jumps to {instruction.label!r}, which stands nowhere")
                offset = self._labels[instruction.label] - slot - 1
            encoded.append(instruction.encode(offset))
            lines += [emitted] * instruction.slots
            slot += instruction.slots
        return Assembled(self.name, b"".join(encoded), tuple(lines))
