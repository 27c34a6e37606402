"""Type information made by hand, one type after another."""

from __future__ import annotations

import struct

INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, CONST = 1, 2, 3, 4, 5, 6, 7, 8, 10
FUNC, PROTO, VAR, TYPE_TAG, ENUM64 = 12, 13, 14, 18, 19


class Maker:
    """Builds type information; `add` returns the number of the type that it added."""

    def __init__(self) -> None:
        self.types = b""
        self.strings = b"\0"
        self.count = 0

    def add(self, name: str, kind: int, size: int, *words: int, count: int = 0, flag: int = 0) -> int:
        self.types += struct.pack("=III", self.name(name), flag << 31 | kind << 24 | count, size)
        self.types += struct.pack(f"={len(words)}I", *(word & 0xFFFFFFFF for word in words))
        self.count += 1
        return self.count

    def name(self, text: str) -> int:
        if not text:
            return 0
        at = self.strings.find(b"\0" + text.encode() + b"\0")
        if at >= 0:
            return at + 1
        self.strings += text.encode() + b"\0"
        return len(self.strings) - len(text) - 1

    def add_struct(
        self, name: str, size: int, *members: tuple[str, int, int], kind: int = STRUCT, flag: int = 0
    ) -> int:
        """Add a structure of members: name, type, and the bit that it begins at (with flag: its bits above 24)."""
        words = [word for member, number, place in members for word in (self.name(member), number, place)]
        return self.add(name, kind, size, *words, count=len(members), flag=flag)

    def make(self) -> bytes:
        sizes = (0, len(self.types), len(self.types), len(self.strings))
        return struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, *sizes) + self.types + self.strings
