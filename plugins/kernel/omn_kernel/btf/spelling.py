"""Prototypes as they are written: the shapes that catalogs list are compared with these."""

from __future__ import annotations

from omn_kernel.btf.layout import QUALIFIERS, Kind
from omn_kernel.btf.types import Btf

_WORDS = {Kind.STRUCT: "struct ", Kind.UNION: "union ", Kind.ENUM: "enum ", Kind.ENUM64: "enum "}
_INTEGER = frozenset({"int", "long", "short", "signed", "unsigned"})


def spell_integer(name: str) -> str:
    """Spell an integer's type in the fewest words: gcc calls `long unsigned int` what clang calls `unsigned long`.

    Any other name, char's among them, is returned as it is.
    """
    words = name.split()
    if not words or not _INTEGER.issuperset(words):
        return name
    sizes = [word for word in words if word in ("long", "short")]
    return " ".join([*(["unsigned"] if "unsigned" in words else []), *(sizes or ["int"])])


def spell_function(btf: Btf, number: int) -> tuple[str, ...]:
    """Spell the types of a function's arguments (`struct file*`, `size_t`): typedefs as named, no qualifiers.

    An integer is spelt in the fewest words that C has for it.
    """
    return _spell_arguments(btf, btf.get_word(number, 2))


def spell_tracepoint(btf: Btf, number: int) -> tuple[str, ...]:
    """Spell the types of a raw tracepoint's arguments, the context that the kernel hands itself left out."""
    return _spell_arguments(btf, btf.get_word(btf.get_word(number, 2), 2))[1:]


def _spell_arguments(btf: Btf, prototype: int) -> tuple[str, ...]:
    if btf.get_kind(prototype) != Kind.PROTOTYPE:
        raise ValueError(f"type {prototype} is no prototype")
    return tuple(_spell(btf, argument) for _, argument, _ in btf.iter_parts(prototype))


def _spell(btf: Btf, number: int) -> str:
    """Spell a type in C, without qualifiers and without a space before a star."""
    suffix = ""
    for _ in range(32):  # bounds a loop of types that only broken information has
        kind = btf.get_kind(number)
        if kind == Kind.VOID:
            return "void" + suffix
        if kind == Kind.POINTER:
            suffix, number = "*" + suffix, btf.get_word(number, 2)
        elif kind in QUALIFIERS:
            number = btf.get_word(number, 2)
        elif kind == Kind.PROTOTYPE:
            return "function" + suffix
        elif kind == Kind.ARRAY:
            suffix, number = "[]" + suffix, btf.get_word(number, 3)
        elif kind == Kind.FORWARD:
            return ("union " if btf.get_flag(number) else "struct ") + btf.get_name(number) + suffix
        else:
            return _WORDS.get(Kind(kind), "") + spell_integer(btf.get_name(number)) + suffix
    raise ValueError("a type refers to itself")
