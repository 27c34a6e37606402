"""Symbols made of the functions of one object, each once."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from omn_kernel.symbols.demangling import demangle
from omn_kernel.symbols.frames import Symbol
from omn_kernel.symbols.index import Addresses, Numbers


class Functions(Protocol):
    """Numbered functions by their addresses."""

    def find(self, addresses: Addresses) -> Numbers:
        """Find the function that each address is in, -1 for one in none."""

    def get_start(self, number: int, /) -> int:
        """Return where a function starts."""

    def get_source(self, number: int, /) -> str:
        """Return who named it."""

    def find_name(self, number: int, /) -> bytes | None:
        """Find its name as the linker spelt it, None for one that cannot be shown."""


class Namer:
    """Makes the symbols of one object, and remembers them by their functions.

    `like` carries what all of them have in common. Without a name, `is_file` tells each address of a file apart; memory
    that is no file is one symbol, because its addresses mean nothing to another process.
    """

    def __init__(
        self, functions: Functions | None, like: Symbol, *, is_file: bool, named_by: str | None = None
    ) -> None:
        self._functions = functions
        self._like = like
        self._is_file = is_file
        self._named_by = named_by
        self._made: dict[int, int] = {}
        self._unnamed: dict[int, int] = {}

    def name(self, addresses: Addresses, symbols: list[Symbol]) -> tuple[Numbers, Addresses]:
        """Return the symbol of each address, as a number in `symbols`, which new ones are added to, and its offset."""
        functions = self._functions
        found = np.full(len(addresses), -1, np.int64) if functions is None else functions.find(addresses)
        answers = np.empty(len(addresses), np.int64)
        if functions is not None and (found >= 0).any():
            numbers, inverse = np.unique(found[found >= 0], return_inverse=True)
            answers[found >= 0] = self._make(functions, numbers.tolist(), symbols)[inverse]
        for place in np.flatnonzero(found < 0).tolist():
            answers[place] = self._make_unnamed(int(addresses[place]), symbols)
        starts = np.array([symbols[one].start for one in answers.tolist()], np.uint64)
        return answers, addresses - starts

    def _make(self, functions: Functions, numbers: list[int], symbols: list[Symbol]) -> Numbers:
        wanted = [number for number in numbers if number not in self._made]
        names = [functions.find_name(number) for number in wanted]
        spelt = [(name or b"").decode("utf-8", "surrogateescape") for name in names]
        for number, linked, name in zip(wanted, spelt, demangle(spelt), strict=True):
            self._made[number] = len(symbols)
            named_by = (self._named_by or functions.get_source(number)) if name else None
            mangled = linked if linked != name else None
            symbols.append(self._make_like(functions.get_start(number), name or None, named_by, mangled))
        return np.array([self._made[number] for number in numbers], np.int64)

    def _make_unnamed(self, address: int, symbols: list[Symbol]) -> int:
        key = address if self._is_file else 0
        if key not in self._unnamed:
            self._unnamed[key] = len(symbols)
            symbols.append(self._make_like(key))
        return self._unnamed[key]

    def _make_like(
        self, start: int, name: str | None = None, named_by: str | None = None, mangled: str | None = None
    ) -> Symbol:
        like = self._like
        return Symbol(name, like.path, start, named_by, mangled, like.build_id, like.is_kernel)
