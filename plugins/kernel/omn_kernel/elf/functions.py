"""Where functions begin in a file, by their names: the offsets that probes are placed at."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from omn_kernel.elf.image import PF_X, PT_LOAD, Image, Segment
from omn_kernel.elf.source import ElfError
from omn_kernel.elf.tables import (
    SHN_UNDEF,
    STT_FUNC,
    SymbolTable,
    read_dynamic_symbols,
    read_static_symbols,
)

_MOST_NAMED, _MOST_STRINGS = 64, 1 << 16
"""How many functions of one file may have one of the names, and how often names may stand among its strings."""
_MOST_NAMES_BYTES = 256 << 20


def find_functions(image: Image, names: Collection[str]) -> Mapping[str, tuple[int, ...]]:
    """Find where functions begin, as offsets in the file: of each name that is there, one for each version of it.

    Names are the linker's, without a version. Raises ElfError where the symbol tables cannot be read, or name more
    functions so than any linker makes.
    """
    found: dict[str, set[int]] = {}
    for table in (read_dynamic_symbols(image), read_static_symbols(image)):
        for name, address in _find(table, names) if table is not None else ():
            offset = find_offset(image.segments, address)
            if offset is not None:
                found.setdefault(name, set()).add(offset)
    return {name: tuple(sorted(offsets)) for name, offsets in found.items()}


def list_function_names(image: Image, parts: Collection[str] | None = None) -> set[str]:
    """List the names of functions, as the linker spelt them and without a version; of some those with one of `parts`.

    Raises ElfError where the symbol tables cannot be read, or where the names share strings to more than memory holds.
    """
    names: set[str] = set()
    spelt_bytes = 0
    for table in (read_dynamic_symbols(image), read_static_symbols(image)):
        if table is None:
            continue
        offsets = np.unique(table.records["name"][_mark_functions(table)]).astype(np.int64)
        chosen = offsets if parts is None else offsets[_mark_held(table.strings, offsets, parts)]
        for offset in chosen.tolist():
            end = table.strings.find(b"\0", offset)
            spelt = table.strings[offset : len(table.strings) if end < 0 else end]
            spelt_bytes += len(spelt)
            if spelt_bytes > _MOST_NAMES_BYTES:
                raise ElfError(f"its functions' names are of more than {_MOST_NAMES_BYTES} bytes")
            names.add(os.fsdecode(spelt.partition(b"@")[0]))
    return names - {""}


def _mark_functions(table: SymbolTable) -> NDArray[np.bool_]:
    records = table.records
    kept: NDArray[np.bool_] = (records["section"] != SHN_UNDEF) & ((records["info"] & 0xF) == STT_FUNC)
    return kept


def _mark_held(strings: bytes, offsets: NDArray[np.int64], parts: Collection[str]) -> NDArray[np.bool_]:
    """Mark the names, by where they begin, that hold one of some texts; a name may be the end of another."""
    is_held = np.zeros(len(offsets), bool)
    for part in filter(None, map(os.fsencode, parts)):
        at = strings.find(part)
        while at >= 0:
            begin = strings.rfind(b"\0", 0, at) + 1
            low, high = np.searchsorted(offsets, (begin, at + 1))
            is_held[low:high] = True
            at = strings.find(part, at + 1)
    return is_held


def _find(table: SymbolTable, names: Collection[str]) -> list[tuple[str, int]]:
    """Find the functions of some names, each with its address; a table may have a million others."""
    places = {place: name for name in names for place in _iter_places(table.strings, os.fsencode(name))}
    if len(places) > _MOST_STRINGS:
        raise ElfError(f"a name stands more than {_MOST_STRINGS} times among its strings")
    records = table.records
    chosen = records[_mark_functions(table) & np.isin(records["name"], list(places))]
    if len(chosen) > _MOST_NAMED * len(names):
        raise ElfError(f"more than {_MOST_NAMED} of its functions have one name")
    return [(places[int(record["name"])], int(record["value"])) for record in chosen]


def _iter_places(strings: bytes, name: bytes) -> Iterator[int]:
    """Yield where a name stands among strings, as the end of another too: linkers keep both once."""
    at = strings.find(name)
    found = 0
    while at >= 0 and found <= _MOST_STRINGS:
        # A static table spells the version with the name.
        if strings[at + len(name) : at + len(name) + 1] in (b"", b"\0", b"@"):
            found += 1
            yield at
        at = strings.find(name, at + 1)


def find_offset(segments: Collection[Segment], address: int) -> int | None:
    """Find where in the file the code at an address of the object stands, None where it is in no segment of code."""
    for segment in segments:
        is_code = segment.kind == PT_LOAD and segment.flags & PF_X
        if is_code and segment.address <= address < segment.address + segment.file_size:
            return address - segment.address + segment.offset
    return None
