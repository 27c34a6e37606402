"""Which functions of a file a filter names: by how the linker spells them, or how their language does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import attrs
from omn_kernel.elf.functions import list_function_names
from omn_kernel.elf.image import Image
from omn_kernel.symbols.demangling import demangle

from omn_core.api import Filter, may_match

FUNCTION, OBJECT = "function", "object"
_WORD = re.compile(r"[A-Za-z_]\w*")
_TAIL = re.compile(r"(?:\s*(?:const|volatile|&&?|\[[^\]]*\]|\.[\w.]+))*$")
_ARGUMENTS = re.compile(r"<[^<>]*>")
_EXACT = ("==", "in")


@attrs.frozen
class TimedFunction:
    """A function: the linker's name of it, the spelling that was asked for, and the file's path."""

    linked: str
    shown: str
    path: str


class FunctionFilter:
    """Chooses the functions that may be a filter's, as far as their names and their files tell."""

    def __init__(self, predicate: Filter) -> None:
        self._predicate = predicate
        self._parts = self._find_parts()

    @property
    def names_functions(self) -> bool:
        """Whether the filter leaves any function out by its name."""
        return any(one.field == FUNCTION for one in self._predicate.comparisons)

    def _find_parts(self) -> set[str] | None:
        """Find texts of which every function's linked name has one, None where any name may be meant.

        What a language spells `ns::Class::method<int>(int)` has its last word in the linker's name of it.
        """
        asked = [one for one in self._predicate.comparisons if one.field == FUNCTION]
        if not all(one.operator in _EXACT for one in asked) or may_match(self._predicate, {FUNCTION: ""}):
            return None
        words = [_find_word(str(literal)) for one in asked for literal in one.literals]
        return None if None in words else {word for word in words if word is not None}

    def choose(self, image: Image, path: str) -> list[TimedFunction]:
        """Return the functions of a file, in the order of their names. Raises ElfError as reading its symbols does."""
        if not may_match(self._predicate, {OBJECT: path}):
            return []
        linked = sorted(list_function_names(image, self._parts))
        chosen = []
        for name, demangled in zip(linked, demangle(linked), strict=True):
            shown = self._find_spelling(name, demangled, path)
            if shown is not None:
                chosen.append(TimedFunction(name, shown, path))
        return chosen

    def _find_spelling(self, name: str, demangled: str, path: str) -> str | None:
        """Find the first spelling that the filter may mean, the readable ones first."""
        spellings: Sequence[str] = tuple(_iter_spellings(name, demangled))
        known = ({FUNCTION: one, OBJECT: path} for one in spellings)
        return next((one[FUNCTION] for one in known if may_match(self._predicate, one)), None)


def _find_word(spelt: str) -> str | None:
    """Find the last word of a function's own name, None for one whose linked name is not made of words."""
    if "operator" in spelt or "{" in spelt:
        return None
    name = _cut_parameters(spelt)
    while (shorter := _ARGUMENTS.sub("", name)) != name:
        name = shorter
    words = _WORD.findall(name)
    return words[-1] if words else None


def _iter_spellings(name: str, demangled: str) -> Iterator[str]:
    without = _cut_parameters(demangled)
    yield _cut_result(without)
    yield without
    yield demangled
    yield name


def _cut_result(spelt: str) -> str:
    """Leave out the type that a template's name begins with."""
    depth = 0
    for at in range(len(spelt) - 1, -1, -1):
        depth += {">": 1, ")": 1, "}": 1, "<": -1, "(": -1, "{": -1}.get(spelt[at], 0)
        if depth == 0 and spelt[at] == " " and "operator" not in spelt[at - len("operator") :]:
            return spelt[at + 1 :]
    return spelt


def _cut_parameters(spelt: str) -> str:
    """Leave out the parameters that a name ends with, and what stands behind them."""
    head = _TAIL.sub("", spelt, count=1)
    if not head.endswith(")"):
        return spelt
    depth = 0
    for at in range(len(head) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(head[at], 0)
        if depth == 0:
            # Of `operator()` alone the parentheses are the name.
            return spelt if head[:at].endswith("operator") or at == 0 else head[:at]
    return spelt
