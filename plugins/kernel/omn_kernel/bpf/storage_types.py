"""The type information that maps of task, inode and socket storage must be made with."""

from __future__ import annotations

import struct

_INTEGER, _ARRAY = 1 << 24, 3 << 24
_SIGNED_32, _UNSIGNED_8 = 1 << 24 | 32, 8

KEY_TYPE, VALUE_TYPE = 1, 3
"""The types of the key, a descriptor, and of the value in what `make_storage_types` makes."""


def make_storage_types(value_size: int) -> bytes:
    """Make them for a value of so many bytes, of which the kernel asks nothing else (Documentation/bpf/btf.rst)."""
    strings = b"\0int\0byte\0"
    types = struct.pack("=IIII", 1, _INTEGER, 4, _SIGNED_32)
    types += struct.pack("=IIII", 5, _INTEGER, 1, _UNSIGNED_8)
    types += struct.pack("=IIIIII", 0, _ARRAY, 0, 2, KEY_TYPE, value_size)
    return struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings)) + types + strings
