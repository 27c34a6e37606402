"""The header, segments and sections of an ELF image: elf(5), either class and either byte order.

Every count and size is held to the bytes that are there and to a bound, so that
a hostile file costs no more than an honest one of its size.
"""

from __future__ import annotations

import struct

import attrs

from omn_kernel.elf.source import ElfError, Source

MOST_SECTION_BYTES = 512 << 20
MOST_SECTIONS = 1 << 16
MOST_SEGMENTS = 1024
_LONGEST_NAME = 4096

PT_LOAD, PT_INTERP, PT_NOTE = 1, 3, 4
SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_DYNAMIC, SHT_NOTE, SHT_NOBITS, SHT_REL, SHT_DYNSYM = 2, 3, 4, 6, 7, 8, 9, 11
SHF_EXECINSTR = 0x4
PF_X = 0x1
EM_386, EM_X86_64 = 3, 62

_HEADER = {False: "HHIIIIIHHHHHH", True: "HHIQQQIHHHHHH"}
_SECTION = {False: "IIIIIIIIII", True: "IIQQQQIIQQ"}
"""The fields of a section's header: name, kind, flags, address, offset, size, link, info, align, entry size."""

_SEGMENT = {False: "IIIIIIII", True: "IIQQQQQQ"}
"""The fields of a segment's header: kind, offset, address, physical, file size, memory size, flags, align; flags follow
the kind where addresses have 64 bits."""


@attrs.frozen(repr=False)
class Section:
    """One section: where it stands in the file and in memory, and what it refers to."""

    number: int
    name: bytes
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    entry_size: int


@attrs.frozen(repr=False)
class Segment:
    """One program header: which bytes of the file stand where in memory."""

    kind: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int


@attrs.frozen(eq=False, repr=False)
class Image:
    """An ELF image. `order` is numpy's sign for its byte order, `entry` where it begins to run, 0 where it does not."""

    source: Source
    is_64: bool
    order: str
    machine: int
    sections: tuple[Section, ...]
    segments: tuple[Segment, ...]
    entry: int = 0

    def find_section(self, name: bytes) -> Section | None:
        """Find the first section of a name, None where there is none or its bytes were stripped."""
        return next((one for one in self.sections if one.name == name and one.kind != SHT_NOBITS), None)

    def read_section(self, section: Section) -> bytes:
        """Read a section's bytes. Raises ElfError where they are not there or past the bound."""
        if section.kind == SHT_NOBITS:
            return b""
        return read_bounded(self.source, section.offset, section.size)


def read_bounded(source: Source, offset: int, size: int) -> bytes:
    """Read a table of an image. Raises ElfError where it is not there whole or is past the bound."""
    if size > MOST_SECTION_BYTES:
        raise ElfError(f"a table of {size} bytes is past the {MOST_SECTION_BYTES} that are read")
    return source.read(offset, size)


def read_image(source: Source) -> Image:
    """Read what an image holds. Raises ElfError for bytes that are none."""
    ident = source.read(0, 16)
    if ident[:4] != b"\x7fELF" or ident[4] not in (1, 2) or ident[5] not in (1, 2):
        raise ElfError(f"it is no ELF image: it starts with {ident[:6].hex()}")
    is_64, order = ident[4] == 2, "<" if ident[5] == 1 else ">"
    layout = struct.Struct(order + _HEADER[is_64])
    fields = layout.unpack(source.read(16, layout.size))
    _, machine, _, entry, segments_at, sections_at, _, _, segment_size, segments, section_size, sections, names = fields
    records = _read_sections(source, is_64, order, sections_at, section_size, sections)
    return Image(
        source=source,
        is_64=is_64,
        order=order,
        machine=machine,
        sections=_name_sections(source, records, names),
        segments=_read_segments(source, is_64, order, segments_at, segment_size, segments),
        entry=entry,
    )


def _read_records(source: Source, fields: str, offset: int, size: int, count: int) -> list[tuple[int, ...]]:
    """Read so many records. A size that is not the layout's is another format's. Raises ElfError for it."""
    layout = struct.Struct(fields)
    if not count:
        return []
    if size != layout.size:
        raise ElfError(f"its headers are of {size} bytes, where this format's are of {layout.size}")
    return list(layout.iter_unpack(read_bounded(source, offset, size * count)))


def _read_sections(
    source: Source, is_64: bool, order: str, offset: int, size: int, count: int
) -> list[tuple[int, ...]]:
    if not offset:
        return []
    fields = order + _SECTION[is_64]
    if not count:  # more than the header can say: the first section's size says it
        count = _read_records(source, fields, offset, size, 1)[0][5]
    if count > MOST_SECTIONS:
        raise ElfError(f"it claims {count} sections, past the {MOST_SECTIONS} that are read")
    return _read_records(source, fields, offset, size, count)


def _name_sections(source: Source, records: list[tuple[int, ...]], names_at: int) -> tuple[Section, ...]:
    if names_at == 0xFFFF and records:  # SHN_XINDEX
        names_at = records[0][6]
    strings = b""
    if 0 < names_at < len(records):
        _, kind, _, _, offset, size, *_ = records[names_at]
        strings = read_bounded(source, offset, size) if kind == SHT_STRTAB else b""
    return tuple(
        Section(number, read_name(strings, name), kind, flags, address, offset, size, link, info, entry_size)
        for number, (name, kind, flags, address, offset, size, link, info, _, entry_size) in enumerate(records)
    )


def _read_segments(source: Source, is_64: bool, order: str, offset: int, size: int, count: int) -> tuple[Segment, ...]:
    if count > MOST_SEGMENTS:
        raise ElfError(f"it claims {count} segments, past the {MOST_SEGMENTS} that are read")
    records = _read_records(source, order + _SEGMENT[is_64], offset, size, count)
    if is_64:
        return tuple(
            Segment(kind, flags, at, address, held, taken) for kind, flags, at, address, _, held, taken, _ in records
        )
    return tuple(
        Segment(kind, flags, at, address, held, taken) for kind, at, address, _, held, taken, flags, _ in records
    )


def read_name(strings: bytes, offset: int) -> bytes:
    """Return the string at a place of a string table, 4096 bytes of it at most, empty where the place is outside it."""
    end = strings.find(b"\0", offset, offset + _LONGEST_NAME)
    return strings[offset : offset + _LONGEST_NAME if end < 0 else end]
