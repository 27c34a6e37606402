"""The kernel's functions: /proc/kallsyms, its modules' and its eBPF programs' among them.

Where kptr_restrict hides the addresses every one is zero: nothing is named then, and it is said.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from omn_kernel.polled import read_file
from omn_kernel.symbols.index import Addresses, Candidates, Numbers, SymbolIndex

PATH = "/proc/kallsyms"
_DIGITS = 16
_PAGE = 4096
_TEXT = np.frombuffer(b"TtWw", np.uint8)


def parse_kallsyms(content: bytes) -> SymbolIndex | None:
    """Parse kallsyms in columns, None where it shows no address.

    A line is `address type name`, then a tab and `[module]`. A function reaches to the next symbol of any kind, and to
    the end of its page where that belongs to another module or is far away: no size is published.
    """
    letters = np.frombuffer(content, np.uint8)
    ends = np.flatnonzero(letters == ord("\n"))
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else np.empty(0, np.int64)
    whole = ends - starts > _DIGITS + 3
    starts, ends = starts[whole], ends[whole]
    address, valid = _parse_addresses(letters, starts)
    valid &= (letters[starts + _DIGITS] == ord(" ")) & (letters[starts + _DIGITS + 2] == ord(" "))
    valid &= address != 0
    if not valid.any():
        return None
    starts, ends, address = starts[valid], ends[valid], address[valid]
    order = np.argsort(address, kind="stable")
    starts, ends, address = starts[order], ends[order], address[order]
    text = np.isin(letters[starts + _DIGITS + 1], _TEXT)
    sizes = _compute_sizes(address, _number_modules(content, letters, starts, ends))
    return SymbolIndex(
        [
            Candidates(
                source="kallsyms",
                strings=content.replace(b"\n", b"\0").replace(b"\t", b"\0"),
                start=address[text],
                end=(address + sizes)[text],
                is_sized=np.ones(int(text.sum()), bool),
                preference=(letters[starts + _DIGITS + 1][text] >= ord("a")).astype(np.uint8),
                name=(starts + _DIGITS + 3)[text].astype(np.uint32),
            )
        ]
    )


def _parse_addresses(letters: NDArray[np.uint8], starts: Numbers) -> tuple[Addresses, NDArray[np.bool_]]:
    values = np.full(256, 255, np.uint8)
    values[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
    address, valid = np.zeros(len(starts), np.uint64), np.ones(len(starts), bool)
    for column in range(_DIGITS):
        digits = values[letters[starts + column]]
        valid &= digits < 16
        address = np.asarray(address << np.uint64(4) | digits, np.uint64)
    return address, valid


def _number_modules(content: bytes, letters: NDArray[np.uint8], starts: Numbers, ends: Numbers) -> Numbers:
    """Return a number for the module that each symbol is of, 0 for the kernel's own."""
    modules = np.zeros(len(starts), np.int64)
    numbers: dict[bytes, int] = {}
    for line in np.flatnonzero(letters[ends - 1] == ord("]")).tolist():
        name = content[starts[line] : ends[line]].rpartition(b"\t")[2]
        modules[line] = numbers.setdefault(name, len(numbers) + 1)
    return modules


def _compute_sizes(address: Addresses, modules: Numbers) -> Addresses:
    """Compute how far each symbol reaches: to the next address; to its page's end where another image starts."""
    size = np.empty(len(address), np.uint64)
    to_page = _PAGE - (address & np.uint64(_PAGE - 1))
    # Many symbols may stand at one address: all of them reach to the next one.
    following = np.searchsorted(address, address, side="right")
    last = following == len(address)
    target = np.minimum(following, len(address) - 1)
    size = address[target] - address
    crosses = last | (modules[target] != modules)
    return np.where(crosses, np.minimum(np.where(last, to_page, size), to_page), size)


def read_kernel_symbols(sysroot: str) -> SymbolIndex | None:
    """Read the running kernel's functions, None where their addresses are hidden. Raises OSError as reading does."""
    return parse_kallsyms(read_file(sysroot, PATH))
