"""Which function a procedure linkage entry calls: x86, either width.

An entry jumps through a slot of the global offset table, and a relocation says whose address the loader writes there.
The jump is read from the entry itself, so that .plt, .plt.sec (with -fcf-protection) and .plt.got are one case, in
whatever order the linker laid them out.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from omn_kernel.distinct import are_among
from omn_kernel.elf.image import EM_386, EM_X86_64, SHT_REL, SHT_RELA, Image, Section
from omn_kernel.elf.tables import SymbolTable, read_dynamic_symbols

_SECTIONS = (b".plt", b".plt.sec", b".plt.got", b".iplt")
_RELOCATIONS = (b".rela.dyn", b".rela.plt", b".rela.iplt", b".rel.dyn", b".rel.plt", b".rel.iplt")
_MOST_ENTRIES = 1 << 18
_ENDBR, _BND = np.array([0xFA1E0FF3, 0xFB1E0FF3], np.uint32), 0xF2
_JUMP_BYTES = 6
_ADDEND_ONLY = {EM_X86_64: 37, EM_386: 42}  # R_X86_64_IRELATIVE, R_386_IRELATIVE
_GLOB_DAT, _JUMP_SLOT = 6, 7  # the same numbers on both


CALLS = b"@plt"
"""What binutils writes behind the name of the function that an entry calls."""


@attrs.frozen(eq=False, repr=False)
class Entries:
    """Entries in columns: where each stands, its size, and where in `strings` the name of what it calls is."""

    address: NDArray[np.uint64]
    size: NDArray[np.uint64]
    name: NDArray[np.int64]
    strings: bytes


@attrs.frozen(eq=False, repr=False)
class _Slots:
    """Slots of the global offset table, in the order of their addresses, and where in `strings` each one's name is."""

    address: NDArray[np.uint64]
    name: NDArray[np.int64]
    strings: bytes


def hold_entries(image: Image, addresses: NDArray[np.uint64]) -> bool:
    """Tell whether one of some addresses is where entries are."""
    return any(
        bool(((addresses >= one.address) & (addresses - np.uint64(one.address) < one.size)).any())
        for one in _list_sections(image)
    )


def _list_sections(image: Image) -> list[Section]:
    return [one for name in _SECTIONS if (one := image.find_section(name)) is not None and one.size]


def read_entries(image: Image) -> Entries:
    """Read every entry whose slot a relocation names; none on other machines. Raises ElfError as reading does."""
    sections = _list_sections(image)
    if image.machine not in _ADDEND_ONLY or not sections:
        return Entries(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64), b"")
    base = _find_table(image)
    jumps = [_list_jumps(image, section, base) for section in sections]
    address, slot = (np.concatenate([getattr(one, field) for one in jumps]) for field in ("addresses", "slots"))
    size = np.concatenate([np.full(len(one.slots), one.size, np.uint64) for one in jumps])
    named = _read_names(image, slot)
    at = np.searchsorted(named.address, slot)
    held = at < len(named.address)
    held[held] = named.address[at[held]] == slot[held]
    return Entries(address[held], size[held], named.name[at[held]], named.strings)


def _find_table(image: Image) -> int:
    """Return what a position-independent 32-bit entry counts its slot from: the table's start."""
    section = image.find_section(b".got.plt") or image.find_section(b".got")
    return section.address if section else 0


@attrs.frozen(eq=False, repr=False)
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


def _read_names(image: Image, slots: NDArray[np.uint64]) -> _Slots:
    """Return the name that each of some slots is given: a symbol's, or the address of the function that chooses."""
    symbols = read_dynamic_symbols(image)
    strings = b"" if symbols is None else symbols.strings
    relocations = [
        _read_relocations(image, section, slots)
        for name in _RELOCATIONS
        if (section := image.find_section(name)) is not None and section.kind in (SHT_RELA, SHT_REL)
    ]
    if not relocations:
        return _Slots(np.empty(0, np.uint64), np.empty(0, np.int64), strings)
    slot, number, chooses, addend = (np.concatenate(column) for column in zip(*relocations, strict=True))
    name = _find_name_places(symbols, number)
    made = [b"*ABS*+0x%x" % one for one in addend[chooses].tolist()]
    lengths = np.array([len(one) + 1 for one in made], np.int64)
    name[chooses] = len(strings) + 1 + np.cumsum(lengths) - lengths
    named = np.flatnonzero(name >= 0)
    # Of several that name one slot the loader takes the last.
    last = named[np.lexsort((named, slot[named]))]
    last = last[np.append(slot[last][1:] != slot[last][:-1], True)] if len(last) else last
    return _Slots(slot[last], name[last], b"\0".join([strings, *made, b""]) if made else strings)


def _read_relocations(image: Image, section: Section, slots: NDArray[np.uint64]) -> tuple[NDArray[Any], ...]:
    """Read which of some slots a section fills: each, the number of its symbol, or whether and by what it is chosen."""
    word = 8 if image.is_64 else 4
    fields = ("offset", "info", "addend")[: 3 if section.kind == SHT_RELA else 2]
    layout = np.dtype([(field, f"{image.order}u{word}") for field in fields])
    content = image.read_section(section)
    records = np.frombuffer(content, layout, len(content) // layout.itemsize)
    shift, mask = (32, 0xFFFFFFFF) if image.is_64 else (8, 0xFF)
    number = records["info"] >> shift
    kind = records["info"] & mask
    chooses = (kind == _ADDEND_ONLY[image.machine]) & (section.kind == SHT_RELA)
    chosen = np.flatnonzero(((number > 0) & ((kind == _GLOB_DAT) | (kind == _JUMP_SLOT))) | chooses)
    slot = records["offset"][chosen].astype(np.uint64)
    is_asked = are_among(slot, slots)
    chosen, slot = chosen[is_asked][:_MOST_ENTRIES], slot[is_asked][:_MOST_ENTRIES]
    addend = records["addend" if section.kind == SHT_RELA else "info"][chosen]
    return slot, number[chosen].astype(np.uint64), chooses[chosen], addend.astype(np.uint64)


def _find_name_places(symbols: SymbolTable | None, numbers: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Find where the names of some symbols stand, -1 for one that is none or has none."""
    count = 0 if symbols is None else len(symbols.records)
    if symbols is None or not count or not symbols.strings:
        return np.full(len(numbers), -1, np.int64)
    records = np.minimum(numbers, np.uint64(count - 1)).astype(np.int64)
    places = symbols.records["name"][records].astype(np.int64)
    last = len(symbols.strings) - 1
    first = np.frombuffer(symbols.strings, np.uint8)[np.minimum(places, last)]
    return np.where((numbers < count) & (places <= last) & (first != 0), places, -1)
