"""How far the variables that each cpu has lie apart, which is as far on every cpu."""

from __future__ import annotations

from omn_kernel.btf.fields import FieldMissing, get_variable_offset
from omn_kernel.btf.types import Btf
from omn_kernel.polled import read_file

_SYMBOLS = "/proc/kallsyms"


def compute_distance(types: Btf, origin: str, name: str) -> int:
    """Compute the bytes from one variable to another. Raises FieldMissing where nothing tells.

    The kernel's types tell, or where they have no variables (as in Linux 5.10) its symbols, if it was built with all
    of them and they are open to this process.
    """
    try:
        return get_variable_offset(types, name) - get_variable_offset(types, origin)
    except FieldMissing:
        symbols = read_file("/", _SYMBOLS)
        places = find_symbol(symbols, origin), find_symbol(symbols, name)
        if places[0] is None or places[1] is None:
            raise
        return places[1] - places[0]


def find_symbol(symbols: bytes, name: str) -> int | None:
    """Find where a symbol lies in what kallsyms lists; None where it does not, or hides it behind a zero."""
    end = symbols.find(f" {name}\n".encode())
    if end < 0:
        return None
    return int(symbols[symbols.rfind(b"\n", 0, end) + 1 : end].split()[0], 16) or None
