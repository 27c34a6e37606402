"""What names a build and its separate debug file: the build id's note and .gnu_debuglink."""

from __future__ import annotations

import struct

import attrs

from omn_kernel.elf.build_ids import parse_build_id
from omn_kernel.elf.image import PT_NOTE, SHT_NOTE, Image
from omn_kernel.elf.source import ElfError

_MOST_NOTE_BYTES = 1 << 16
_MOST_PLACES = 64


@attrs.frozen(repr=False)
class DebugLink:
    """The name of a file's separate debug file, and that file's CRC-32."""

    name: str
    checksum: int


def find_build_id(image: Image) -> str | None:
    """Find an image's build id in hexadecimal, None where it has none.

    A program's own is in its segments, which a stripped section table leaves; a debug file's is in its sections,
    because its segments' bytes are not there.
    """
    places = [(one.offset, one.size) for one in image.sections if one.kind == SHT_NOTE]
    places += [(one.offset, one.file_size) for one in image.segments if one.kind == PT_NOTE]
    for offset, size in places[:_MOST_PLACES]:
        try:
            content = image.source.read(offset, min(size, _MOST_NOTE_BYTES))
        except ElfError:
            continue
        if (found := parse_build_id(content, image.order)) is not None:
            return found
    return None


def find_debug_link(image: Image) -> DebugLink | None:
    """Find what a stripped file calls its debug file, None where it names none. Raises ElfError as reading does."""
    section = image.find_section(b".gnu_debuglink")
    if section is None:
        return None
    content = image.read_section(section)
    name, end, _ = content.partition(b"\0")
    at = len(name) + 4 & ~3
    if not name or not end or b"/" in name or len(content) < at + 4:
        return None
    return DebugLink(name.decode("utf-8", "surrogateescape"), struct.unpack_from(image.order + "I", content, at)[0])
