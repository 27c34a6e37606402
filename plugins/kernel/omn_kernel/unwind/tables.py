"""Unwind information of an object: its .eh_frame, its .debug_frame, and an index of the code that each entry is of.

Read whole and indexed by one pass over it, with or without a section table and with or without .eh_frame_hdr's own
index, which is only as good as the linker that wrote it. A .debug_frame is asked where the .eh_frame has nothing; of a
stripped object it is in the debug file.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from omn_kernel.elf.image import EM_X86_64, PT_LOAD, Image
from omn_kernel.elf.source import ElfError
from omn_kernel.native._unwind import ffi, lib
from omn_kernel.symbols.debug_files import open_debug_image

_PT_GNU_EH_FRAME = 0x6474E550
_PCREL_SDATA4 = 0x1B
_SHF_COMPRESSED, _ZLIB = 0x800, 1
_COMPRESSED_HEADER = struct.Struct("<IIQQ")  # Elf64_Chdr: its kind, the size that it comes to, its alignment
_MOST_BYTES = 128 << 20


@attrs.frozen(eq=False, repr=False)
class FrameTable:
    """An object's .eh_frame, its address as the object counts it, and its entries in the order of their code.

    From `debug_at` on the content is its .debug_frame.
    """

    content: bytes
    address: int
    debug_at: int
    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    entries: NDArray[np.uint64]


def read_frame_table(image: Image, path: str = "", roots: Sequence[str] = ()) -> FrameTable | None:
    """Read an object's unwind information, None where it has none. Raises ElfError as reading does.

    `path` and the roots that it is under lead to the debug file. Another machine's information is none.
    """
    if image.machine != EM_X86_64 or not image.is_64:
        return None
    section = image.find_section(b".eh_frame")
    found = _read_by_segment(image) if section is None else _read(image, section.offset, section.size, section.address)
    debug = _read_debug(image)
    if not debug and image.find_section(b".symtab") is None:
        with open_debug_image(image, path, roots) as apart:
            debug = b"" if apart is None else _read_debug(apart)
    if not debug:
        return None if found is None else index_frames(*found)
    content, address = (b"", 0) if found is None else found
    return index_frames(content, address, debug)


def _read(image: Image, offset: int, size: int, address: int) -> tuple[bytes, int]:
    if size > _MOST_BYTES:
        raise ElfError(f"unwind information of {size} bytes is past the {_MOST_BYTES} that are read")
    return image.source.read(offset, size), address


def _read_debug(image: Image) -> bytes:
    """Read a .debug_frame, empty where there is none. A compressed one is read as far as the bound."""
    section = image.find_section(b".debug_frame")
    if section is None:
        return b""
    content, _ = _read(image, section.offset, section.size, 0)
    if not section.flags & _SHF_COMPRESSED:
        return content
    if len(content) < _COMPRESSED_HEADER.size or _COMPRESSED_HEADER.unpack_from(content)[0] != _ZLIB:
        return b""
    try:
        return zlib.decompressobj().decompress(content[_COMPRESSED_HEADER.size :], _MOST_BYTES)
    except zlib.error as error:
        raise ElfError(f"its .debug_frame cannot be decompressed: {error}") from error


def _read_by_segment(image: Image) -> tuple[bytes, int] | None:
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


def index_frames(content: bytes, address: int, debug: bytes = b"") -> FrameTable:
    """Index the entries of an .eh_frame that stands at an address, and of a .debug_frame. Damage is left out."""
    debug_at, content = len(content), content + debug
    held = ffi.from_buffer("uint8_t[]", content)
    count = lib.omn_list_frames(held, len(content), address, debug_at, ffi.NULL, ffi.NULL, ffi.NULL, 0)
    starts, ends, entries = columns = [np.empty(count, np.uint64) for _ in range(3)]
    first, second, third = (ffi.from_buffer("uint64_t[]", column) for column in columns)
    lib.omn_list_frames(held, len(content), address, debug_at, first, second, third, count)
    is_debug = entries >= debug_at
    own, others = np.flatnonzero(~is_debug), np.flatnonzero(is_debug)
    own = own[np.argsort(starts[own], kind="stable")]
    chosen = np.concatenate([own, others[~_are_covered(starts[others], starts[own], ends[own])]])
    order = chosen[np.argsort(starts[chosen], kind="stable")]
    return FrameTable(content, address, debug_at, *(column[order] for column in columns))


def _are_covered(
    addresses: NDArray[np.uint64], starts: NDArray[np.uint64], ends: NDArray[np.uint64]
) -> NDArray[np.bool_]:
    """Tell which addresses are in one of some ranges, which are sorted."""
    if not len(starts):
        return np.zeros(len(addresses), bool)
    at = np.searchsorted(starts, addresses, side="right") - 1
    return np.asarray((at >= 0) & (addresses < ends[np.maximum(at, 0)]))
