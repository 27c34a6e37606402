"""Which places of a file a filter names: functions where they are entered, and those that the program marks itself."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from omn_kernel.bpf.mark_arguments import MarkArgument, parse_arguments
from omn_kernel.elf.functions import find_functions
from omn_kernel.elf.image import EM_X86_64, Image
from omn_kernel.elf.marks import Mark, read_marks

from omn_core.api import Filter, may_match
from omn_runtime.functions import FUNCTION, OBJECT, FunctionFilter, TimedFunction


@attrs.frozen
class ChosenPlace:
    """A place by the name that it is shown by, and what an argument of a marked one is; None where it cannot be read.

    `counter` is where in the file the variable stands that tells the program that somebody looks, 0 for none.
    """

    shown: str
    path: str
    offset: int
    counter: int = 0
    arguments: tuple[MarkArgument | None, ...] = ()
    is_marked: bool = False


class PlaceFilter:
    """Chooses the places that may be a filter's, as far as their names and their files tell."""

    def __init__(self, predicate: Filter, *, has_functions: bool) -> None:
        self._predicate = predicate
        self._functions = FunctionFilter(predicate)
        self._has_functions = has_functions

    @property
    def names_places(self) -> bool:
        """Whether the filter leaves any place out by its name."""
        return self._functions.names_functions

    def choose(self, image: Image, path: str) -> list[ChosenPlace]:
        """Return the places of a file. Raises ElfError as reading its notes and its symbols does."""
        if not may_match(self._predicate, {OBJECT: path}):
            return []
        marked = [
            _make_marked(mark, path, image)
            for mark in read_marks(image)
            if may_match(self._predicate, {FUNCTION: mark.name, OBJECT: path})
        ]
        if not self._has_functions:
            return marked
        functions = self._functions.choose(image, path)
        offsets = find_functions(image, {one.linked for one in functions})
        entries = _list_entries(functions, offsets)
        # The kernel takes a place with its counter alone, or without one.
        return [*marked, *(entries[offset] for offset in sorted(entries.keys() - {one.offset for one in marked}))]


def _make_marked(mark: Mark, path: str, image: Image) -> ChosenPlace:
    arguments = parse_arguments(mark.arguments) if image.machine == EM_X86_64 else ()
    return ChosenPlace(mark.name, path, mark.offset, mark.counter, arguments, is_marked=True)


def _list_entries(functions: list[TimedFunction], offsets: Mapping[str, tuple[int, ...]]) -> dict[int, ChosenPlace]:
    """List where functions are entered, each place once: several names may stand for one."""
    return {
        offset: ChosenPlace(one.shown, one.path, offset) for one in functions for offset in offsets.get(one.linked, ())
    }
