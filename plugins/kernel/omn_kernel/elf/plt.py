"""Which function a procedure linkage entry calls: x86, either width.

An entry jumps through a slot of the global offset table, and a relocation says whose address the loader writes there.
The jump is read from the entry itself, so that .plt, .plt.sec (with -fcf-protection) and .plt.got are one case, in
whatever order the linker laid them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from omn_kernel.distinct import are_among
from omn_kernel.elf.image import EM_386, EM_X86_64, SHT_REL, SHT_RELA, Image, Section, read_name
from omn_kernel.elf.tables import SymbolTable, read_dynamic_symbols

_SECTIONS = (b".plt", b".plt.sec", b".plt.got", b".iplt")
_RELOCATIONS = (b".rela.dyn", b".rela.plt", b".rela.iplt", b".rel.dyn", b".rel.plt", b".rel.iplt")
_MOST_ENTRIES = 1 << 18
_ENDBR, _BND = np.array([0xFA1E0FF3, 0xFB1E0FF3], np.uint32), 0xF2
_JUMP_BYTES = 6
_ADDEND_ONLY = {EM_X86_64: 37, EM_386: 42}  # R_X86_64_IRELATIVE, R_386_IRELATIVE
_NAMED = np.array([6, 7])  # GLOB_DAT and JUMP_SLOT, the same numbers on both


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
    base = _find_table(image)
    jumps = [_list_jumps(image, section, base) for section in sections]
    names = _read_names(image, np.concatenate([one.slots for one in jumps]))
    return [
        Entry(address, one.size, names[slot] + b"@plt")
        for one in jumps
        for address, slot in zip(one.addresses.tolist(), one.slots.tolist(), strict=True)
        if slot in names
    ]


def _find_table(image: Image) -> int:
    """Return what a position-independent 32-bit entry counts its slot from: the table's start."""
    section = image.find_section(b".got.plt") or image.find_section(b".got")
    return section.address if section else 0


@attrs.frozen(eq=False)
class _Jumps:
    """Entries of one size: where each stands, and the slot that it jumps through."""

    size: int
    addresses: NDArray[np.uint64]
    slots: NDArray[np.uint64]


def _list_jumps(image: Image, section: Section, base: int) -> _Jumps:
    """List the entries of a section that jump through a slot; the first of .plt does not."""
    # .plt.got entries are of 8 bytes without -fcf-protection, which old linkers leave out of the section's header.
    size = section.entry_size if section.entry_size in (8, 16) else 8 if section.name == b".plt.got" else 16
    content = image.read_section(section)
    count = min(len(content) // size, _MOST_ENTRIES)
    codes = np.frombuffer(content, np.uint8, count * size).reshape(count, size)
    rows = np.arange(count)
    at = np.where(are_among(np.ascontiguousarray(codes[:, :4]).view("<u4")[:, 0], _ENDBR), 4, 0)
    at += codes[rows, at] == _BND
    is_whole = at + _JUMP_BYTES <= size
    at[~is_whole] = 0
    jump = codes[rows[:, np.newaxis], at[:, np.newaxis] + np.arange(_JUMP_BYTES)]
    # Unsigned numbers of 64 bits come around at both ends, as addresses do.
    operand = np.ascontiguousarray(jump[:, 2:]).view("<i4")[:, 0].astype(np.uint64)
    is_direct, is_by_base = (is_whole & (jump[:, 0] == 0xFF) & (jump[:, 1] == mode) for mode in (0x25, 0xA3))
    addresses = np.uint64(section.address) + (rows * size).astype(np.uint64)
    if image.machine == EM_X86_64:
        following = addresses + (at + _JUMP_BYTES).astype(np.uint64)
        return _Jumps(size, addresses[is_direct], (following + operand)[is_direct])
    slots = np.where(is_direct, operand, np.uint64(base) + operand) & np.uint64(0xFFFFFFFF)
    is_jump = is_direct | is_by_base
    return _Jumps(size, addresses[is_jump], slots[is_jump])


def _read_names(image: Image, slots: NDArray[np.uint64]) -> dict[int, bytes]:
    """Return the name that each of some slots is given: a symbol's, or the address of the function that chooses."""
    symbols = read_dynamic_symbols(image)
    names: dict[int, bytes] = {}
    for name in _RELOCATIONS:
        section = image.find_section(name)
        if section is not None and section.kind in (SHT_RELA, SHT_REL):
            names.update(_iter_names(image, section, symbols, slots))
    return names


def _iter_names(
    image: Image, section: Section, symbols: SymbolTable | None, slots: NDArray[np.uint64]
) -> Iterator[tuple[int, bytes]]:
    word = 8 if image.is_64 else 4
    fields = ("offset", "info", "addend")[: 3 if section.kind == SHT_RELA else 2]
    layout = np.dtype([(field, f"{image.order}u{word}") for field in fields])
    content = image.read_section(section)
    records = np.frombuffer(content, layout, len(content) // layout.itemsize)
    shift, mask = (32, 0xFFFFFFFF) if image.is_64 else (8, 0xFF)
    number = records["info"] >> shift
    kind = records["info"] & mask
    chooses = (kind == _ADDEND_ONLY[image.machine]) & (section.kind == SHT_RELA)
    kept = ((number > 0) & are_among(kind, _NAMED)) | chooses
    chosen = np.flatnonzero(kept)
    chosen = chosen[are_among(records["offset"][chosen].astype(np.uint64), slots)][:_MOST_ENTRIES]
    places = _find_name_places(symbols, number[chosen])
    addends = records["addend"][chosen] if section.kind == SHT_RELA else number[chosen]
    columns = (records["offset"][chosen], chooses[chosen], addends, places)
    for slot, is_chosen, addend, place in zip(*(column.tolist() for column in columns), strict=True):
        if is_chosen:
            yield slot, b"*ABS*+0x%x" % addend
        elif symbols is not None and place >= 0 and (name := read_name(symbols.strings, place)):
            yield slot, name


def _find_name_places(symbols: SymbolTable | None, numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Find where the names of some symbols stand, -1 for one that is none."""
    count = 0 if symbols is None else len(symbols.records)
    if symbols is None or not count:
        return np.full(len(numbers), -1, np.int64)
    names = symbols.records["name"].astype(np.int64)
    return np.where(numbers < count, names[np.minimum(numbers, count - 1)], -1)
