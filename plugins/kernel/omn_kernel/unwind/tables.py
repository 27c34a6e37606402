"""Unwind information of an object: its .eh_frame, and an index of the code that each entry is of.

Read whole and indexed by one pass over it, with or without a section table and with or without .eh_frame_hdr's own
index, which is only as good as the linker that wrote it.
"""

from __future__ import annotations

import struct

import attrs
import numpy as np
from numpy.typing import NDArray

from omn_kernel.elf.image import EM_X86_64, PT_LOAD, Image
from omn_kernel.elf.source import ElfError
from omn_kernel.native._unwind import ffi, lib

_PT_GNU_EH_FRAME = 0x6474E550
_PCREL_SDATA4 = 0x1B
_MOST_BYTES = 128 << 20


@attrs.frozen(eq=False)
class FrameTable:
    """An object's .eh_frame, its address as the object counts it, and its entries in the order of their code."""

    content: bytes
    address: int
    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    entries: NDArray[np.uint64]


def read_frame_table(image: Image) -> FrameTable | None:
    """Read an object's unwind information, None where it has none. Raises ElfError as reading does.

    Another machine's is none.
    """
    if image.machine != EM_X86_64 or not image.is_64:
        return None
    section = image.find_section(b".eh_frame")
    if section is None:
        return _read_by_segment(image)
    return _read(image, section.offset, section.size, section.address)


def _read(image: Image, offset: int, size: int, address: int) -> FrameTable:
    if size > _MOST_BYTES:
        raise ElfError(f"unwind information of {size} bytes is past the {_MOST_BYTES} that are read")
    return index_frames(image.source.read(offset, size), address)


def _read_by_segment(image: Image) -> FrameTable | None:
    """Read what .eh_frame_hdr points to, in a file without a section table: up to its segment's end or its own."""
    header = next((one for one in image.segments if one.kind == _PT_GNU_EH_FRAME and one.file_size >= 8), None)
    if header is None:
        return None
    version, encoding, _, _, distance = struct.unpack("<BBBBi", image.source.read(header.offset, 8))
    if version != 1 or encoding != _PCREL_SDATA4:
        return None
    address = header.address + 4 + distance
    for one in image.segments:
        if one.kind == PT_LOAD and one.address <= address < one.address + one.file_size:
            past = address - one.address
            return _read(image, one.offset + past, one.file_size - past, address)
    return None


def index_frames(content: bytes, address: int) -> FrameTable:
    """Index the entries of an .eh_frame that stands at an address. What is damaged is left out."""
    held = ffi.from_buffer("uint8_t[]", content)
    count = lib.omn_list_frames(held, len(content), address, ffi.NULL, ffi.NULL, ffi.NULL, 0)
    columns = [np.empty(count, np.uint64) for _ in range(3)]
    places = [ffi.from_buffer("uint64_t[]", column) for column in columns]
    lib.omn_list_frames(held, len(content), address, places[0], places[1], places[2], count)
    order = np.argsort(columns[0], kind="stable")
    return FrameTable(content, address, *(column[order] for column in columns))
