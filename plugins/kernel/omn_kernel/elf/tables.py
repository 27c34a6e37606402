"""Symbol tables in columns: one `np.frombuffer` over the whole table, whatever its size."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from omn_kernel.elf.image import SHT_DYNSYM, SHT_SYMTAB, Image, Section
from omn_kernel.elf.source import ElfError

STT_NOTYPE, STT_FUNC, STT_GNU_IFUNC = 0, 2, 10
STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
SHN_UNDEF, SHN_LORESERVE = 0, 0xFF00

_LAYOUTS = {
    False: (("name", 4), ("value", 4), ("size", 4), ("info", 1), ("other", 1), ("section", 2)),
    True: (("name", 4), ("info", 1), ("other", 1), ("section", 2), ("value", 8), ("size", 8)),
}


@attrs.frozen(eq=False, repr=False)
class SymbolTable:
    """Every record of a symbol table, as a structured array, and the strings its names are offsets into."""

    records: NDArray[Any]
    strings: bytes


def read_symbol_table(image: Image, kind: int) -> SymbolTable | None:
    """Read an image's first table of a kind (SHT_SYMTAB, SHT_DYNSYM), None where it has none.

    Raises ElfError where the table or its strings are not there.
    """
    section = next((one for one in image.sections if one.kind == kind and one.size), None)
    if section is None:
        return None
    layout = np.dtype([(name, f"{image.order}u{width}") for name, width in _LAYOUTS[image.is_64]])
    if section.entry_size != layout.itemsize:
        raise ElfError(f"its symbols are of {section.entry_size} bytes, where this format's are of {layout.itemsize}")
    count = section.size // layout.itemsize
    content = image.read_section(section)
    return SymbolTable(np.frombuffer(content, layout, count), _read_strings(image, section))


def _read_strings(image: Image, section: Section) -> bytes:
    if section.link >= len(image.sections):
        raise ElfError(f"its symbols' names are in section {section.link}, which is not there")
    return image.read_section(image.sections[section.link])


def read_static_symbols(image: Image) -> SymbolTable | None:
    """Read .symtab, None where it was stripped. Raises ElfError as `read_symbol_table`."""
    return read_symbol_table(image, SHT_SYMTAB)


def read_dynamic_symbols(image: Image) -> SymbolTable | None:
    """Read .dynsym, None where nothing is linked at run time. Raises ElfError as `read_symbol_table`."""
    return read_symbol_table(image, SHT_DYNSYM)
