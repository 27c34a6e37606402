"""Which function a procedure linkage entry calls: x86, either width.

An entry jumps through a slot of the global offset table, and a relocation says whose address the loader writes there.
The jump is read from the entry itself, so that .plt, .plt.sec (with -fcf-protection) and .plt.got are one case, in
whatever order the linker laid them out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import attrs
import numpy as np

from omn_kernel.elf.image import EM_386, EM_X86_64, SHT_REL, SHT_RELA, Image, Section, read_name
from omn_kernel.elf.tables import SymbolTable, read_dynamic_symbols

_SECTIONS = (b".plt", b".plt.sec", b".plt.got", b".iplt")
_RELOCATIONS = (b".rela.dyn", b".rela.plt", b".rela.iplt", b".rel.dyn", b".rel.plt", b".rel.iplt")
_MOST_ENTRIES = 1 << 18
_ENDBR, _BND = (b"\xf3\x0f\x1e\xfa", b"\xf3\x0f\x1e\xfb"), 0xF2
_ADDEND_ONLY = {EM_X86_64: 37, EM_386: 42}  # R_X86_64_IRELATIVE, R_386_IRELATIVE
_NAMED = (6, 7)  # GLOB_DAT and JUMP_SLOT, the same numbers on both


@attrs.frozen
class Entry:
    """One entry: where it stands, its size, and the function it calls, spelt as binutils does (`malloc@plt`)."""

    address: int
    size: int
    name: bytes


def read_entries(image: Image) -> list[Entry]:
    """Read every entry whose slot a relocation names; none on other machines. Raises ElfError as reading does."""
    sections = [one for name in _SECTIONS if (one := image.find_section(name)) is not None and one.size]
    if image.machine not in _ADDEND_ONLY or not sections:
        return []
    slots = _read_slots(image)
    base = _find_table(image)
    return [entry for section in sections for entry in _iter_entries(image, section, slots, base)]


def _find_table(image: Image) -> int:
    """Return what a position-independent 32-bit entry counts its slot from: the table's start."""
    section = image.find_section(b".got.plt") or image.find_section(b".got")
    return section.address if section else 0


def _iter_entries(image: Image, section: Section, slots: dict[int, bytes], base: int) -> Iterator[Entry]:
    # .plt.got entries are of 8 bytes without -fcf-protection, which old linkers leave out of the section's header.
    size = section.entry_size if section.entry_size in (8, 16) else 8 if section.name == b".plt.got" else 16
    content = image.read_section(section)
    for position in range(0, min(len(content), _MOST_ENTRIES * size), size):
        address = section.address + position
        slot = _find_slot(content[position : position + size], address, image.machine == EM_X86_64, base)
        if slot is not None and (name := slots.get(slot)) is not None:
            yield Entry(address, size, name + b"@plt")


def _find_slot(code: bytes, address: int, is_64: bool, base: int) -> int | None:
    """Find the slot that an entry jumps through, None for code that is no such jump (the first of .plt)."""
    at = 4 if code[:4] in _ENDBR else 0
    if code[at : at + 1] == bytes([_BND]):
        at += 1
    operation = code[at : at + 2]
    if len(code) < at + 6 or operation not in (b"\xff\x25", b"\xff\xa3"):
        return None
    (operand,) = struct.unpack_from("<i", code, at + 2)
    if is_64:
        return address + at + 6 + int(operand) if operation == b"\xff\x25" else None
    return (int(operand) if operation == b"\xff\x25" else base + int(operand)) & 0xFFFFFFFF


def _read_slots(image: Image) -> dict[int, bytes]:
    """Return the name that each relocated slot is given: a symbol's, or the address of the function that chooses."""
    symbols = read_dynamic_symbols(image)
    slots: dict[int, bytes] = {}
    for name in _RELOCATIONS:
        section = image.find_section(name)
        if section is not None and section.kind in (SHT_RELA, SHT_REL):
            slots.update(_iter_slots(image, section, symbols))
    return slots


def _iter_slots(image: Image, section: Section, symbols: SymbolTable | None) -> Iterator[tuple[int, bytes]]:
    word = 8 if image.is_64 else 4
    names = ("offset", "info", "addend")[: 3 if section.kind == SHT_RELA else 2]
    layout = np.dtype([(name, f"{image.order}u{word}") for name in names])
    content = image.read_section(section)
    records = np.frombuffer(content, layout, len(content) // layout.itemsize)
    shift, mask = (32, 0xFFFFFFFF) if image.is_64 else (8, 0xFF)
    number = records["info"] >> shift
    kind = records["info"] & mask
    chooses = (kind == _ADDEND_ONLY[image.machine]) & (section.kind == SHT_RELA)
    kept = ((number > 0) & np.isin(kind, _NAMED)) | chooses
    for index in np.flatnonzero(kept)[:_MOST_ENTRIES].tolist():
        slot = int(records["offset"][index])
        if chooses[index]:
            yield slot, b"*ABS*+0x%x" % int(records["addend"][index])
        elif symbols is not None and int(number[index]) < len(symbols.records):
            name = read_name(symbols.strings, int(symbols.records["name"][int(number[index])]))
            if name:
                yield slot, name
