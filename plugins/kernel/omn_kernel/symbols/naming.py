"""Symbols made of the functions of one object, each once."""

from __future__ import annotations

import itertools
from typing import Protocol

import numpy as np

from omn_kernel.symbols.demangling import demangle
from omn_kernel.symbols.frames import Symbol
from omn_kernel.symbols.index import Addresses, Numbers


class Functions(Protocol):
    """Numbered functions by their addresses."""

    def find(self, addresses: Addresses) -> Numbers:
        """Find the function that each address is in, -1 for one in none."""

    def list_starts(self, numbers: Numbers, /) -> list[int]:
        """List where functions start."""

    def list_sources(self, numbers: Numbers, /) -> list[str]:
        """List who named them."""

    def list_names(self, numbers: Numbers, /) -> list[bytes | None]:
        """List their names as the linker spelt them, None for one that cannot be shown."""


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
            answers[found >= 0] = self._make(functions, numbers, symbols)[inverse]
        for place in np.flatnonzero(found < 0).tolist():
            answers[place] = self._make_unnamed(int(addresses[place]), symbols)
        starts = np.array([symbols[one].start for one in answers.tolist()], np.uint64)
        return answers, addresses - starts

    def _make(self, functions: Functions, numbers: Numbers, symbols: list[Symbol]) -> Numbers:
        made = self._made
        wanted = np.array([number for number in numbers.tolist() if number not in made], np.int64)
        made.update(zip(wanted.tolist(), itertools.count(len(symbols))))  # and these are what `symbols` grows by
        spelt = [(name or b"").decode("utf-8", "surrogateescape") for name in functions.list_names(wanted)]
        sources = functions.list_sources(wanted) if self._named_by is None else itertools.repeat(self._named_by)
        columns = zip(functions.list_starts(wanted), demangle(spelt), spelt, sources)  # noqa: B905 (one may not end)
        path, build_id, is_kernel = self._like.path, self._like.build_id, self._like.is_kernel
        symbols.extend(
            Symbol(name, path, start, source, linked if linked != name else None, build_id, is_kernel)
            if name
            else Symbol(None, path, start, None, None, build_id, is_kernel)
            for start, name, linked, source in columns
        )
        return np.array([made[number] for number in numbers.tolist()], np.int64)

    def _make_unnamed(self, address: int, symbols: list[Symbol]) -> int:
        key = address if self._is_file else 0
        if key not in self._unnamed:
            self._unnamed[key] = len(symbols)
            like = self._like
            symbols.append(Symbol(None, like.path, key, None, None, like.build_id, like.is_kernel))
        return self._unnamed[key]
