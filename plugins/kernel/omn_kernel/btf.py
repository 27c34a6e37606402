"""The kernel's own type information: which functions and tracepoints it has, and their prototypes.

From /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF), in the layout of Documentation/bpf/btf.rst. One pass over the
types finds where each starts; a prototype is spelt only when asked for.
"""

from __future__ import annotations

import functools
import struct

from omn_kernel.polled import read_file

PATH = "/sys/kernel/btf/vmlinux"
_MAGIC = 0xEB9F
_MEMBER, _ENUMERATOR = 3, 2
_INTEGER, _POINTER, _ARRAY, _STRUCT, _UNION, _ENUM, _FORWARD, _TYPEDEF = range(1, 9)
_VOLATILE, _CONST, _RESTRICT, _FUNCTION, _PROTOTYPE = range(9, 14)
_FLOAT, _TYPE_TAG, _ENUM64 = 16, 18, 19

# 32-bit words after the three that every type starts with: so many, and so many more for each of its `vlen`.
_FIXED = (0, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0)
_EACH = (0, 0, 0, 0, _MEMBER, _MEMBER, _ENUMERATOR, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 0, 3)
_SKIPPED = frozenset({_VOLATILE, _CONST, _RESTRICT, _TYPE_TAG})
_NAMED = {_STRUCT: "struct ", _UNION: "union ", _ENUM: "enum ", _ENUM64: "enum "}


class Btf:
    """One object's type information. Raises ValueError for bytes that are none."""

    def __init__(self, content: bytes) -> None:
        try:
            magic, version, _, header, types_at, types_size, strings_at, strings_size = struct.unpack_from(
                "=HBBIIIII", content
            )
        except struct.error as error:
            raise ValueError(f"no type information: {error}") from None
        if magic != _MAGIC or version != 1:
            raise ValueError(f"no type information of this machine's byte order: it starts with {content[:4].hex()}")
        types = content[header + types_at : header + types_at + types_size]
        self._strings = content[header + strings_at : header + strings_at + strings_size]
        if len(types) != types_size or types_size % 4 or len(self._strings) != strings_size:
            raise ValueError("the type information is cut short")
        self._words = memoryview(types).cast("I")
        self._starts: list[int] = [0]
        self._functions: dict[int, int] = {}
        self._typedefs: dict[int, int] = {}
        self._index()

    def _index(self) -> None:
        words, starts, position, end = self._words, self._starts, 0, len(self._words)
        functions, typedefs, fixed, each = self._functions, self._typedefs, _FIXED, _EACH
        try:
            while position < end:
                information = words[position + 1]
                kind = information >> 24 & 0x1F
                if kind == _FUNCTION:
                    functions[words[position]] = len(starts)
                elif kind == _TYPEDEF:
                    typedefs[words[position]] = len(starts)
                starts.append(position)
                position += 3 + fixed[kind] + each[kind] * (information & 0xFFFF)
        except IndexError:
            raise ValueError(f"the type at word {position} is cut short or of an unknown kind") from None

    def __len__(self) -> int:
        return len(self._starts) - 1

    def find_function(self, name: str) -> int | None:
        """Find the id of a function, None where the kernel has none of that name."""
        return self._find(name, self._functions)

    def find_tracepoint(self, name: str) -> int | None:
        """Find the id of the typedef that carries a raw tracepoint's prototype, None where there is none."""
        return self._find(f"btf_trace_{name}", self._typedefs)

    def _find(self, name: str, index: dict[int, int]) -> int | None:
        # The kernel's strings are each there once, so that a name is an offset and an offset a type.
        offset = self._strings.find(b"\0" + name.encode() + b"\0")
        return None if offset < 0 else index.get(offset + 1)

    def spell_function(self, identifier: int) -> tuple[str, ...]:
        """Spell the types of a function's arguments (`struct file*`, `size_t`): typedefs as named, no qualifiers."""
        return self._spell_arguments(identifier, 1)

    def spell_tracepoint(self, identifier: int) -> tuple[str, ...]:
        """Spell the types of a raw tracepoint's arguments, the context that the kernel hands itself left out."""
        return self._spell_arguments(identifier, 2)[1:]

    def _spell_arguments(self, identifier: int, steps: int) -> tuple[str, ...]:
        """Spell the arguments of the prototype that a type refers to in so many steps. Raises ValueError for none."""
        try:
            for _ in range(steps):
                identifier = self._words[self._starts[identifier] + 2]
            start = self._starts[identifier]
            information = self._words[start + 1]
            if information >> 24 & 0x1F != _PROTOTYPE:
                raise ValueError(f"type {identifier} is no prototype")
            count = information & 0xFFFF
            return tuple(self._spell(self._words[start + 4 + 2 * index]) for index in range(count))
        except IndexError:
            raise ValueError(f"type {identifier} refers to one that is not there") from None

    def _spell(self, identifier: int) -> str:
        """Spell a type in C, without qualifiers and without a space before a star."""
        suffix = ""
        for _ in range(32):  # bounds a loop of types that only broken information has
            if identifier == 0:
                return "void" + suffix
            start = self._starts[identifier]
            kind, referred = self._words[start + 1] >> 24 & 0x1F, self._words[start + 2]
            name = self._name(self._words[start])
            if kind == _POINTER:
                suffix, identifier = "*" + suffix, referred
            elif kind in _SKIPPED:
                identifier = referred
            elif kind == _PROTOTYPE:
                return "function" + suffix
            elif kind == _ARRAY:
                suffix, identifier = "[]" + suffix, self._words[start + 3]
            elif kind == _FORWARD:
                return ("union " if self._words[start + 1] >> 31 else "struct ") + name + suffix
            else:
                return _NAMED.get(kind, "") + name + suffix
        raise ValueError("a type refers to itself")

    def _name(self, offset: int) -> str:
        return self._strings[offset : self._strings.find(b"\0", offset)].decode("utf-8", "replace")


@functools.lru_cache(maxsize=1)
def read_kernel_btf(sysroot: str) -> Btf:
    """Read the running kernel's types, once a session. Raises OSError where it publishes none."""
    return Btf(read_file(sysroot, PATH))
