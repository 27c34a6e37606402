"""Places that a program marks in its own code for whoever measures it (USDT): the notes of .note.stapsdt.

<sys/sdt.h> writes them: at the place stands a nop, and the note says where that is, what the place is called, where the
arguments lie there, and which counter tells the program that somebody looks (its semaphore).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import attrs

from omn_kernel.elf.functions import find_offset
from omn_kernel.elf.image import PT_LOAD, SHT_NOTE, Image

_OWNER = b"stapsdt\0"
_KIND = 3
"""NT_STAPSDT."""
_MOST_MARKS = 1 << 16


@attrs.frozen
class Mark:
    """A place: `provider:name`, as offsets in the file where it stands and, if it has one, where its counter does.

    `arguments` is what the note says of them, such as `-4@%edi 8@-24(%rbp)`. One name may mark many places.
    """

    name: str
    offset: int
    counter: int
    arguments: str


def read_marks(image: Image) -> tuple[Mark, ...]:
    """Read the places that an image marks, none of one that marks none. Raises ElfError as reading does."""
    section = next((one for one in image.sections if one.name == b".note.stapsdt" and one.kind == SHT_NOTE), None)
    if section is None:
        return ()
    base = image.find_section(b".stapsdt.base")
    found = []
    for note in _iter_notes(image.read_section(section), image.order):
        mark = _parse_mark(note, image, None if base is None else base.address)
        if mark is not None:
            found.append(mark)
        if len(found) == _MOST_MARKS:
            break
    return tuple(found)


def _iter_notes(content: bytes, order: str) -> Iterator[bytes]:
    """Yield what each note of the kind says; one that is cut short is the last."""
    header = struct.Struct(order + "III")
    position = 0
    while position + header.size <= len(content):
        name_size, size, kind = header.unpack_from(content, position)
        name_at = position + header.size
        body_at = name_at + (name_size + 3 & ~3)
        if kind == _KIND and content[name_at : name_at + name_size] == _OWNER and body_at + size <= len(content):
            yield content[body_at : body_at + size]
        position = body_at + (size + 3 & ~3)


def _parse_mark(note: bytes, image: Image, base: int | None) -> Mark | None:
    """Parse a note, None for one that is no such note or of a place that is not in the file."""
    addresses = struct.Struct(image.order + ("QQQ" if image.is_64 else "III"))
    texts = note[addresses.size :].split(b"\0")
    if len(note) < addresses.size or len(texts) < 3:
        return None
    place, noted_base, counter = addresses.unpack_from(note)
    # Who moves a program's segments after it was linked leaves the notes as they were, and tells by this section.
    moved = 0 if base is None else base - noted_base
    provider, name, arguments = (text.decode("utf-8", "replace") for text in texts[:3])
    offset = find_offset(image.segments, place + moved)
    if offset is None or not provider or not name:
        return None
    return Mark(f"{provider}:{name}", offset, _find_counter(image, counter + moved) if counter else 0, arguments)


def _find_counter(image: Image, address: int) -> int:
    """Find where in the file a variable stands, 0 where it is in no segment of it."""
    for segment in image.segments:
        if segment.kind == PT_LOAD and segment.address <= address < segment.address + segment.file_size:
            return address - segment.address + segment.offset
    return 0
