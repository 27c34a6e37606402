"""Which records of an ELF symbol table may name code, in columns."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from omn_kernel.elf.image import SHF_EXECINSTR, Image
from omn_kernel.elf.plt import CALLS, Entries
from omn_kernel.elf.tables import (
    SHN_LORESERVE,
    SHN_UNDEF,
    STB_GLOBAL,
    STB_WEAK,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_NOTYPE,
    SymbolTable,
)
from omn_kernel.symbols.index import Addresses, Candidates, Numbers, add_sizes

_UNDERSCORE, _DOLLAR = ord("_"), ord("$")
_NUL = np.frombuffer(b"\0", np.uint8)


@attrs.frozen(eq=False, repr=False)
class FunctionTable:
    """The records of one table that may name code: where each starts, and where it ends; a label ends where it starts.

    They become candidates when they are taken, which is what costs: a table may have a million of them.
    """

    start: Addresses
    end: Addresses
    _numbers: Numbers
    _table: SymbolTable
    _section_ends: Addresses
    _source: str

    def __len__(self) -> int:
        return len(self.start)

    def take(self, chosen: Numbers) -> Candidates:
        """Make candidates of some of them."""
        records = self._table.records[self._numbers[chosen]]
        strings = np.frombuffer(self._table.strings, np.uint8)
        name, info = records["name"].astype(np.uint32), records["info"]
        lead = strings[name] == _UNDERSCORE
        second = strings[np.minimum(name + np.uint32(1), len(strings) - 1)]
        underscores = lead.astype(np.uint8) + (lead & (second == _UNDERSCORE))
        start, end = self.start[chosen], self.end[chosen]
        unsized = records["size"] == 0
        preference = unsized.astype(np.uint8) << 5 | (info & 0xF == STT_NOTYPE).astype(np.uint8) << 4
        preference |= _rank_binding(info >> 4) << 2 | underscores
        section = np.minimum(records["section"][unsized], len(self._section_ends) - 1)
        end[unsized] = np.maximum(self._section_ends[section], start[unsized])
        return Candidates(self._source, self._table.strings, start, end, ~unsized, preference, name)


def select_functions(image: Image, table: SymbolTable, source: str) -> FunctionTable:
    """Select what names code: functions, those that choose one at run time, and labels in executable sections.

    Mapping symbols (`$x` on arm) name no code and are left out.
    """
    records = table.records
    numbers = np.flatnonzero(_names_code(image, records))
    name = records["name"][numbers]
    strings = np.frombuffer(table.strings, np.uint8) if table.strings else _NUL
    first = strings[np.minimum(name, len(strings) - 1)]
    label = records["info"][numbers] & 0xF == STT_NOTYPE
    is_named = (name < len(strings)) & (first != 0) & ~(label & (first == _DOLLAR))
    if not is_named.all():
        numbers = numbers[is_named]
    start, size = (records[column][numbers].astype(np.uint64) for column in ("value", "size"))
    return FunctionTable(start, add_sizes(start, size), numbers, table, _find_section_ends(image), source)


def _names_code(image: Image, records: NDArray[Any]) -> NDArray[np.bool_]:
    kind, section = records["info"] & 0xF, records["section"]
    sections = image.sections[:SHN_LORESERVE]
    executable = np.array([*(bool(one.flags & SHF_EXECINSTR) for one in sections), False])
    function = (kind == STT_FUNC) | (kind == STT_GNU_IFUNC)
    label = (kind == STT_NOTYPE) & executable[np.minimum(section, len(sections))]
    return np.asarray((section != SHN_UNDEF) & (function | label))


def _rank_binding(binding: NDArray[Any]) -> NDArray[np.uint8]:
    return np.where(binding == STB_GLOBAL, 0, np.where(binding == STB_WEAK, 1, 2)).astype(np.uint8)


def _find_section_ends(image: Image) -> Addresses:
    """Return the end of each section by its number, and a zero for what is no section behind them."""
    sections = image.sections[:SHN_LORESERVE]
    return np.array([*(min(one.address + one.size, (1 << 64) - 1) for one in sections), 0], np.uint64)


def make_entries(entries: Entries, source: str) -> Candidates:
    """Make candidates of the procedure linkage table's entries."""
    count = len(entries.address)
    return Candidates(
        source,
        entries.strings,
        entries.address,
        add_sizes(entries.address, entries.size),
        np.ones(count, bool),
        np.zeros(count, np.uint8),
        entries.name.astype(np.uint32),
        CALLS,
    )
