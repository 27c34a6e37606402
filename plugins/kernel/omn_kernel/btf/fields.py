"""Where a field lies in the running kernel: paths through members, embedded structures, arrays and pointers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from omn_core.api import MachineRefused
from omn_kernel.btf.layout import Kind
from omn_kernel.btf.types import Btf

_PART = re.compile(r"([A-Za-z_]\w*)((?:\[\d+\])*)")
_CPU_VARIABLES = ".data..percpu"
_DEEPEST = 16
"""Anonymous structures within each other: only broken information has more."""


class FieldMissing(MachineRefused, LookupError):
    """This kernel has no such type, or the type no such field; a program written for it cannot run here."""

    def __init__(self, type_name: str, path: str, detail: str) -> None:
        super().__init__(f"a program reads {type_name}{path and f'.{path}'}, which this kernel does not have: {detail}")
        self.type_name = type_name
        self.path = path


@attrs.frozen(repr=False)
class Field:
    """Where a value lies: `offset` bytes from the start of what it is read from, `size` bytes wide, of type `number`.

    A bit field is `bit_size` bits from the bit `bit_offset` of those bytes; others have a `bit_size` of 0.
    """

    offset: int
    size: int
    number: int
    is_signed: bool = False
    bit_offset: int = 0
    bit_size: int = 0


def get_fields(btf: Btf, type_name: str, path: str) -> tuple[Field, ...]:
    """Return the reads that lead to a field (`signal.tty.name`): one, and one more for each pointer on the way.

    A member that is a pointer is followed where the path goes on. `name[3]` is an element of an array. Raises
    FieldMissing with the type and the field that this kernel does not have.
    """
    current = btf.find_aggregate(type_name)
    if current is None:
        raise FieldMissing(type_name, path, "this kernel has no such type")
    reads: list[Field] = []
    offset_bits = 0
    parts = path.split(".")
    for position, part in enumerate(parts):
        member = _get_member(btf, current, part, type_name, path)
        offset_bits += member.offset_bits
        if position == len(parts) - 1:
            return (*reads, _make_field(btf, member, offset_bits))
        target = btf.resolve(member.number)
        if btf.get_kind(target) == Kind.POINTER:
            reads.append(Field(offset_bits // 8, 8, target))
            offset_bits, target = 0, btf.resolve(btf.get_word(target, 2))
        if btf.get_kind(target) not in (Kind.STRUCT, Kind.UNION):
            raise FieldMissing(type_name, path, f"{part} has no members")
        current = target
    raise FieldMissing(type_name, path, "the path names no field")


def has_field(btf: Btf, type_name: str, path: str = "") -> bool:
    """Return whether this kernel has a type, and that field in it where one is named."""
    if not path:
        return btf.find_aggregate(type_name) is not None
    try:
        get_fields(btf, type_name, path)
    except FieldMissing:
        return False
    return True


def get_size(btf: Btf, type_name: str) -> int:
    """Return the size of a structure in bytes. Raises FieldMissing where this kernel has none of that name."""
    number = btf.find_aggregate(type_name)
    if number is None:
        raise FieldMissing(type_name, "", "this kernel has no such type")
    return btf.compute_size(number)


def get_variable_offset(btf: Btf, name: str) -> int:
    """Return where a variable lies among those that each cpu has. Raises FieldMissing where there is none such."""
    section, number = btf.find(_CPU_VARIABLES, Kind.SECTION), btf.find(name, Kind.VARIABLE)
    if section is not None and number is not None:
        for variable, offset in btf.iter_variables(section):
            if variable == number:
                return offset
    raise FieldMissing(f"the variable {name}", "", "its types tell of none that each cpu has")


def iter_enumerators(btf: Btf, enumeration: str) -> Iterator[tuple[str, int]]:
    """Iterate over the names of an enumeration and their values. Raises FieldMissing where this kernel has none."""
    number = btf.find(enumeration, Kind.ENUM, Kind.ENUM64)
    if number is None:
        raise FieldMissing(enumeration, "", "this kernel has no such enumeration")
    yield from _iter_values(btf, number)


def _iter_values(btf: Btf, number: int) -> Iterator[tuple[str, int]]:
    is_wide, is_signed = btf.get_kind(number) == Kind.ENUM64, btf.get_flag(number)
    for name, low, high in btf.iter_parts(number):
        bits = 64 if is_wide else 32
        value = low | high << 32 if is_wide else low
        yield name, value - (1 << bits) if is_signed and value >> (bits - 1) else value


def find_enumerator(btf: Btf, name: str) -> int | None:
    """Find the value of a name of whichever enumeration has it, one without a name of its own too, None for none."""
    for number in btf.iter_naming(name):
        if btf.get_kind(number) in (Kind.ENUM, Kind.ENUM64):
            for found, value in _iter_values(btf, number):
                if found == name:
                    return value
    return None


def get_enumerator(btf: Btf, enumeration: str, name: str) -> int:
    """Return the value of a name of an enumeration. Raises FieldMissing where this kernel has none of it."""
    for found, value in iter_enumerators(btf, enumeration):
        if found == name:
            return value
    raise FieldMissing(enumeration, name, f"the enumeration has no {name}")


@attrs.frozen(repr=False)
class _Member:
    offset_bits: int
    number: int
    bit_size: int = 0


def _get_member(btf: Btf, aggregate: int, part: str, type_name: str, path: str) -> _Member:
    matched = _PART.fullmatch(part)
    if matched is None:
        raise FieldMissing(type_name, path, f"{part!r} is no field")
    member = _find_member(btf, aggregate, matched[1], _DEEPEST)
    if member is None:
        owner = btf.get_name(aggregate) or "one without a name"
        raise FieldMissing(type_name, path, f"{owner} has no field {matched[1]} on this kernel")
    for subscript in re.findall(r"\d+", matched[2]):
        member = _get_element(btf, member, int(subscript), type_name, path)
    return member


def _find_member(btf: Btf, aggregate: int, name: str, depth: int) -> _Member | None:
    """Find a member by name, in the structures without a name inside it too."""
    has_bits = btf.get_flag(aggregate)
    for found, number, place in btf.iter_parts(aggregate):
        offset, bits = (place & 0xFFFFFF, place >> 24) if has_bits else (place, 0)
        if found == name:
            return _Member(offset, number, bits)
        if not found and depth:
            inner = btf.resolve(number)
            if btf.get_kind(inner) in (Kind.STRUCT, Kind.UNION):
                member = _find_member(btf, inner, name, depth - 1)
                if member is not None:
                    return attrs.evolve(member, offset_bits=member.offset_bits + offset)
    return None


def _get_element(btf: Btf, member: _Member, subscript: int, type_name: str, path: str) -> _Member:
    array = btf.resolve(member.number)
    if btf.get_kind(array) != Kind.ARRAY:
        raise FieldMissing(type_name, path, "what a subscript is asked of is no array")
    element, count = btf.get_word(array, 3), btf.get_word(array, 5)
    if count and subscript >= count:
        raise FieldMissing(type_name, path, f"the array has {count} elements")
    return _Member(member.offset_bits + 8 * subscript * btf.compute_size(element), element)


def _make_field(btf: Btf, member: _Member, offset_bits: int) -> Field:
    target = btf.resolve(member.number)
    kind = btf.get_kind(target)
    size = btf.compute_size(member.number)
    is_signed = kind in (Kind.ENUM, Kind.ENUM64) and btf.get_flag(target)
    if kind == Kind.INTEGER:
        is_signed = bool(btf.get_word(target, 3) >> 24 & 1)
    if not member.bit_size:
        return Field(offset_bits // 8, size, member.number, is_signed)
    # The bytes of its own type that hold it, aligned as that is.
    offset = offset_bits // 8 // size * size
    return Field(offset, size, member.number, is_signed, offset_bits - 8 * offset, member.bit_size)
