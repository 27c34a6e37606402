"""The bytes of type information, in the layout of Documentation/bpf/btf.rst: a header, types in words, strings."""

from __future__ import annotations

import enum
import mmap
import struct
from typing import TypeAlias

import attrs

Content: TypeAlias = bytes | mmap.mmap
_MAGIC = 0xEB9F
_HEADER = struct.Struct("=HBBIIIII")
_MEMBER, _ENUMERATOR = 3, 2


class Kind(enum.IntEnum):
    """What a type is."""

    VOID = 0
    INTEGER = 1
    POINTER = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FORWARD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNCTION = 12
    PROTOTYPE = 13
    VARIABLE = 14
    SECTION = 15
    FLOAT = 16
    DECLARATION_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19


# 32-bit words after the three that every type starts with: so many, and so many more for each of its `vlen`.
FIXED_WORDS = (0, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0)
WORDS_EACH = (0, 0, 0, 0, _MEMBER, _MEMBER, _ENUMERATOR, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 0, 3)
QUALIFIERS = frozenset({Kind.VOLATILE, Kind.CONST, Kind.RESTRICT, Kind.TYPE_TAG})


@attrs.frozen(repr=False)
class Sections:
    """Where types and strings lie in the bytes."""

    types_at: int
    types_end: int
    strings_at: int
    strings_end: int


def parse_header(content: Content) -> Sections:
    """Parse the header. Raises ValueError for bytes that are no type information of this machine, or cut short."""
    try:
        magic, version, _, header, types_at, types_size, strings_at, strings_size = _HEADER.unpack_from(content)
    except struct.error as error:
        raise ValueError(f"no type information: {error}") from None
    if magic != _MAGIC or version != 1:
        raise ValueError(f"no type information of this machine's byte order: it starts with {content[:4].hex()}")
    found = Sections(
        header + types_at, header + types_at + types_size, header + strings_at, header + strings_at + strings_size
    )
    if found.types_end > len(content) or types_size % 4 or found.strings_end > len(content):
        raise ValueError("the type information is cut short")
    return found
