"""Which records of an ELF symbol table may name code, in columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from omn_kernel.elf.image import SHF_EXECINSTR, Image
from omn_kernel.elf.plt import Entry
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
from omn_kernel.symbols.index import Candidates

_UNDERSCORE, _DOLLAR = ord("_"), ord("$")


def select_functions(image: Image, table: SymbolTable, source: str) -> Candidates:
    """Select what names code: functions, those that choose one at run time, and labels in executable sections.

    Mapping symbols (`$x` on arm) name no code and are left out.
    """
    records = table.records
    strings = np.frombuffer(table.strings + b"\0\0", np.uint8)
    records = records[_names_code(image, records)]
    records = records[records["name"] < len(table.strings)]
    first, second = strings[records["name"]], strings[records["name"].astype(np.int64) + 1]
    kind = records["info"] & 0xF
    label = kind == STT_NOTYPE
    named = (first != 0) & ~(label & (first == _DOLLAR))
    records, first, second, label = records[named], first[named], second[named], label[named]
    underscores = (first == _UNDERSCORE).astype(np.uint8) + ((first == _UNDERSCORE) & (second == _UNDERSCORE))
    preference = (records["size"] == 0).astype(np.uint8) << 5 | label.astype(np.uint8) << 4
    preference |= _rank_binding(records["info"] >> 4) << 2 | underscores
    return Candidates(
        source=source,
        strings=table.strings,
        start=records["value"].astype(np.uint64),
        size=records["size"].astype(np.uint64),
        limit=_find_limits(image, records["section"], records["value"].astype(np.uint64)),
        preference=preference,
        name=records["name"].astype(np.int64),
    )


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


def _find_limits(image: Image, sections: NDArray[Any], start: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the end of each symbol's section; of no byte past its own start for one in no section."""
    ends = np.zeros(1 << 16, np.uint64)
    for one in image.sections[:SHN_LORESERVE]:
        ends[one.number] = min(one.address + one.size, (1 << 64) - 1)
    return np.asarray(np.maximum(ends[sections], start))


def make_entries(entries: list[Entry], source: str) -> Candidates:
    """Make candidates of the procedure linkage table's entries."""
    strings = b"\0".join(entry.name for entry in entries) + b"\0"
    lengths = [len(entry.name) + 1 for entry in entries]
    start = np.array([entry.address for entry in entries], np.uint64)
    size = np.array([entry.size for entry in entries], np.uint64)
    name = np.cumsum([0, *lengths[:-1]], dtype=np.int64) if entries else np.empty(0, np.int64)
    return Candidates(source, strings, start, size, start + size, np.zeros(len(entries), np.uint8), name)
