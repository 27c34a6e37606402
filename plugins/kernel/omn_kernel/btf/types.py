"""The types themselves: found by name, walked by number."""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator

from omn_kernel.btf.index import Index
from omn_kernel.btf.layout import QUALIFIERS, Content, Kind, parse_header

_LONGEST_CHAIN = 32
"""Types that may refer to each other before one is reached that does not: only broken information has more."""


class Btf:
    """One object's type information. Raises ValueError for bytes that are none.

    Without an index at hand one is made, which takes a pass over all types.
    """

    def __init__(self, content: Content, index: Index | None = None) -> None:
        sections = parse_header(content)
        self._content = content
        self._strings_at, self._strings_end = sections.strings_at, sections.strings_end
        self._types_at, self._types_end = sections.types_at, sections.types_end
        self.words = memoryview(content)[sections.types_at : sections.types_end].cast("I")
        if index is None:
            # numpy takes longer to import than a kept index to read.
            from omn_kernel.btf.indexing import compute_index

            index = compute_index(content, sections)
        self.index = index

    def __len__(self) -> int:
        return len(self.index.starts) - 1

    def find(self, name: str, *kinds: Kind) -> int | None:
        """Find the number of the type of that name and one of these kinds, None where the kernel has none."""
        wanted = name.encode()
        for number in self.index.iter_candidates(wanted):
            if self.get_kind(number) in kinds and self._get_name_bytes(number) == wanted:
                return number
        return None

    def find_function(self, name: str) -> int | None:
        """Find the number of a function, None where the kernel has none of that name."""
        return self.find(name, Kind.FUNCTION)

    def find_tracepoint(self, name: str) -> int | None:
        """Find the number of the typedef that carries a raw tracepoint's prototype, None where there is none."""
        return self.find(f"btf_trace_{name}", Kind.TYPEDEF)

    def find_aggregate(self, name: str) -> int | None:
        """Find the number of a struct or union, or of the one that a typedef of that name names."""
        found = self.find(name, Kind.STRUCT, Kind.UNION)
        if found is None and (named := self.find(name, Kind.TYPEDEF)) is not None:
            found = self.resolve(named)
        return found if found is not None and self.get_kind(found) in (Kind.STRUCT, Kind.UNION) else None

    def get_start(self, number: int) -> int:
        """Return the word at which a type starts. Raises ValueError where there is no such type."""
        if not 0 < number < len(self.index.starts):
            raise ValueError(f"the type information has no type {number}")
        return self.index.starts[number]

    def get_word(self, number: int, place: int) -> int:
        """Return a word of a type by its place: 1 its kind and count, 2 its size or what it refers to."""
        at = self.get_start(number) + place
        if at >= len(self.words):
            raise ValueError(f"type {number} is cut short")
        return self.words[at]

    def get_kind(self, number: int) -> int:
        """Return a type's kind; number 0 is void."""
        return self.get_word(number, 1) >> 24 & 0x1F if number else Kind.VOID

    def get_count(self, number: int) -> int:
        """Return how many members, arguments or enumerators a type has."""
        return self.get_word(number, 1) & 0xFFFF

    def get_flag(self, number: int) -> bool:
        """Return a type's flag: bit fields among members, an enumeration that is signed, a forward union."""
        return bool(self.get_word(number, 1) >> 31)

    def get_name(self, number: int) -> str:
        """Return a type's name, empty for one that has none."""
        return self._get_name_bytes(number).decode("utf-8", "replace")

    def _get_name_bytes(self, number: int) -> bytes:
        return self._get_string(self.get_word(number, 0))

    def _get_string(self, offset: int) -> bytes:
        at = self._strings_at + offset
        end = self._content.find(b"\0", at, self._strings_end)
        if end < 0:
            raise ValueError(f"the type information has no string at {offset}")
        return self._content[at:end]

    def iter_parts(self, number: int) -> Iterator[tuple[str, int, int]]:
        """Yield the name and the two words after it of each member, or argument, or enumerator."""
        kind = self.get_kind(number)
        width = 2 if kind in (Kind.PROTOTYPE, Kind.ENUM) else 3
        for place in range(3, 3 + width * self.get_count(number), width):
            name = self._get_string(self.get_word(number, place)).decode("utf-8", "replace")
            second = self.get_word(number, place + 2) if width == 3 else 0
            yield name, self.get_word(number, place + 1), second

    def iter_naming(self, name: str) -> Iterator[int]:
        """Yield the number of each type that has that name, or a part of that name, or the bytes that would say so."""
        at = self._content.find(b"\0" + name.encode() + b"\0", self._strings_at, self._strings_end)
        if at < 0:
            return
        offset = struct.pack("=I", at + 1 - self._strings_at)
        place = self._content.find(offset, self._types_at, self._types_end)
        while place >= 0:
            word, beside = divmod(place - self._types_at, 4)
            if not beside:
                yield bisect.bisect_right(self.index.starts, word, 1) - 1
            place = self._content.find(offset, place + 1, self._types_end)

    def iter_variables(self, section: int) -> Iterator[tuple[int, int]]:
        """Yield the number of each variable in a section, and where it lies there."""
        for place in range(3, 3 + 3 * self.get_count(section), 3):
            yield self.get_word(section, place), self.get_word(section, place + 1)

    def resolve(self, number: int) -> int:
        """Return what a type is when its qualifiers and typedefs are taken off, 0 for void."""
        for _ in range(_LONGEST_CHAIN):
            kind = self.get_kind(number)
            if kind not in QUALIFIERS and kind != Kind.TYPEDEF:
                return number
            number = self.get_word(number, 2)
        raise ValueError("a type refers to itself")

    def compute_size(self, number: int) -> int:
        """Compute a type's size in bytes, 0 for what has none (void, functions, declarations)."""
        count = 1
        for _ in range(_LONGEST_CHAIN):
            number = self.resolve(number)
            kind = self.get_kind(number)
            if kind == Kind.POINTER:
                return 8 * count
            if kind != Kind.ARRAY:
                sized = (Kind.INTEGER, Kind.STRUCT, Kind.UNION, Kind.ENUM, Kind.FLOAT, Kind.ENUM64)
                return self.get_word(number, 2) * count if kind in sized else 0
            count *= self.get_word(number, 5)
            number = self.get_word(number, 3)
        raise ValueError("a type refers to itself")
