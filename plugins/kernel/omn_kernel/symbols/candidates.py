"""Which records of an ELF symbol table may name code, in columns."""

from __future__ import annotations

from typing import Any

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
from omn_kernel.symbols.index import Addresses, Candidates, add_sizes

_UNDERSCORE, _DOLLAR = ord("_"), ord("$")


def select_functions(image: Image, table: SymbolTable, source: str) -> Candidates:
    """Select what names code: functions, those that choose one at run time, and labels in executable sections.

    Mapping symbols (`$x` on arm) name no code and are left out.
    """
    records, strings = table.records, np.frombuffer(table.strings or b"\0", np.uint8)
    last = len(strings) - 1
    places = np.minimum(records["name"], last)
    first, second = strings[places], strings[np.minimum(places + 1, last)]
    label = records["info"] & 0xF == STT_NOTYPE
    named = (records["name"] <= last) & (first != 0) & ~(label & (first == _DOLLAR))
    chosen = np.flatnonzero(named & _names_code(image, records))
    lead = first[chosen] == _UNDERSCORE
    underscores = lead.astype(np.uint8) + (lead & (second[chosen] == _UNDERSCORE))
    start, size = (records[column][chosen].astype(np.uint64) for column in ("value", "size"))
    preference = (size == 0).astype(np.uint8) << 5 | label[chosen].astype(np.uint8) << 4
    preference |= _rank_binding(records["info"][chosen] >> 4) << 2 | underscores
    end = add_sizes(start, size)
    unsized = size == 0
    end[unsized] = np.maximum(_find_section_ends(image)[records["section"][chosen[unsized]]], start[unsized])
    name = records["name"][chosen].astype(np.uint32)
    return Candidates(source, table.strings, start, end, ~unsized, preference, name)


def _names_code(image: Image, records: NDArray[Any]) -> NDArray[np.bool_]:
    kind, section = records["info"] & 0xF, records["section"]
    executable = np.zeros(1 << 16, bool)
    for one in image.sections[:SHN_LORESERVE]:
        executable[one.number] = bool(one.flags & SHF_EXECINSTR)
    function = (kind == STT_FUNC) | (kind == STT_GNU_IFUNC)
    label = (kind == STT_NOTYPE) & executable[section]
    return np.asarray((section != SHN_UNDEF) & (function | label))


def _rank_binding(binding: NDArray[Any]) -> NDArray[np.uint8]:
    return np.where(binding == STB_GLOBAL, 0, np.where(binding == STB_WEAK, 1, 2)).astype(np.uint8)


def _find_section_ends(image: Image) -> Addresses:
    """Return the end of each section by its number, zero for what is no section."""
    ends = np.zeros(1 << 16, np.uint64)
    for one in image.sections[:SHN_LORESERVE]:
        ends[one.number] = min(one.address + one.size, (1 << 64) - 1)
    return ends


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
