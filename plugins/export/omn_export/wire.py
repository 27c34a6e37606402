"""Protocol buffers on the wire, as much of them as small messages of numbers and texts need."""

from __future__ import annotations

from collections.abc import Iterable

_UINT64 = (1 << 64) - 1


def encode_varint(value: int) -> bytes:
    """Return a 64-bit number as a varint; a negative one in two's complement, as int64 has it."""
    value &= _UINT64
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


class Message:
    """A message that is being written, field after field."""

    def __init__(self) -> None:
        self._content = bytearray()

    def __bytes__(self) -> bytes:
        """Return what was written."""
        return bytes(self._content)

    def add_number(self, field: int, value: int) -> Message:
        """Add a varint field and return the message."""
        self._content += encode_varint(field << 3) + encode_varint(value)
        return self

    def add_bytes(self, field: int, content: bytes) -> Message:
        """Add a text, a message or packed numbers, and return the message."""
        self._content += encode_varint(field << 3 | 2) + encode_varint(len(content)) + content
        return self

    def add_packed(self, field: int, values: Iterable[int]) -> Message:
        """Add a repeated field of numbers and return the message."""
        return self.add_bytes(field, b"".join(map(encode_varint, values)))
