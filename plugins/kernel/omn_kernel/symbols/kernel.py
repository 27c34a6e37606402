"""The kernel's functions: /proc/kallsyms, its modules' and its eBPF programs' among them.

Where kptr_restrict hides the addresses every one is zero: nothing is named then, and it is said. The kernel writes the
file anew for each reader, and those hundred thousand lines cost more than naming a profile does. So what they say is
kept for as long as it stays true, see `kernel_kept`, and the file is read only for an address that is nowhere in that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from omn_core.api import read_cached, write_cached
from omn_kernel.polled import place, read_file
from omn_kernel.symbols.functions import LaterTable, ObjectFunctions, Table
from omn_kernel.symbols.index import Addresses, Candidates, Numbers
from omn_kernel.symbols.kernel_kept import find_kept_name, parse_kept, render_kept

PATH = "/proc/kallsyms"
_DIGITS = 16
_PAGE = 4096
_TEXT = np.frombuffer(b"TtWw", np.uint8)
_GENERATED = re.compile(rb"\[(bpf|__builtin__\w+)\]")
"""What stands in a module's place for code that the kernel makes as it runs: eBPF programs, trampolines, probes."""
_GENERATED_MARKS = (b"\t[bpf]", b"\t[__builtin__")
_BOUND = rb"^([0-9a-f]{16}) T __sched_text_%s$"


@attrs.frozen(eq=False, repr=False)
class ParsedFunctions:
    """The functions of kallsyms, by their addresses, which of them the kernel made as it ran, and where it waits."""

    functions: Candidates
    is_generated: NDArray[np.bool_]
    waiting: range

    def list_lasting(self) -> Candidates:
        """Return the functions of the kernel's own image and of its modules."""
        return self.functions.take(~self.is_generated)


class KernelFunctions(ObjectFunctions):
    """The functions of the running kernel: those that are known already, and those that were made as it runs.

    The latter are read at the first address that no known function holds. `waiting` are the addresses of the functions
    that threads give their cpu up in, from __sched_text_start to __sched_text_end, as wchan has it (in_sched_functions
    in kernel/sched/core.c); none where the kernel does not say.
    """

    def __init__(self, known: Candidates, waiting: range, later: Sequence[LaterTable] = ()) -> None:
        super().__init__([known], later)
        self.waiting = waiting


def _read_generated(sysroot: str) -> list[Table]:
    """Read what the kernel made as it ran, the last lines of the file; nothing where that was closed meanwhile."""
    try:
        content = read_file(sysroot, PATH)
    except OSError:
        return []
    first = min((at for mark in _GENERATED_MARKS if (at := content.find(mark)) >= 0), default=len(content))
    parsed = parse_kallsyms(content[content.rfind(b"\n", 0, first) + 1 :])
    return [] if parsed is None else [parsed.functions]


def read_kernel_symbols(sysroot: str) -> KernelFunctions | None:
    """Read the running kernel's functions, None where their addresses are hidden. Raises OSError as reading does."""
    with open(place(sysroot, PATH), "rb", buffering=0) as file:
        beginning = file.read(_PAGE)
        name = find_kept_name(sysroot, beginning)
        kept = None if name is None else read_cached(name)
        known = None if kept is None else parse_kept(kept)
        if known is not None:
            return KernelFunctions(*known, [LaterTable(lambda _: True, lambda: _read_generated(sysroot))])
        parsed = parse_kallsyms(beginning + file.readall())
    if parsed is None:
        return None
    if name is not None:
        write_cached(name, render_kept(parsed.list_lasting(), parsed.waiting))
    return KernelFunctions(parsed.functions, parsed.waiting)


def parse_kallsyms(content: bytes) -> ParsedFunctions | None:
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
    modules, is_generated = _number_modules(content, letters, starts, ends)
    functions = Candidates(
        source="kallsyms",
        strings=content.replace(b"\n", b"\0").replace(b"\t", b"\0"),
        start=address[text],
        end=(address + _compute_sizes(address, modules))[text],
        is_sized=np.ones(int(text.sum()), bool),
        preference=(letters[starts + _DIGITS + 1][text] >= ord("a")).astype(np.uint8),
        name=(starts + _DIGITS + 3)[text].astype(np.uint32),
    )
    return ParsedFunctions(functions, is_generated[text], _find_waiting(content))


def _find_waiting(content: bytes) -> range:
    bounds = [re.search(_BOUND % name, content, re.MULTILINE) for name in (b"start", b"end")]
    return range(*(int(bound[1], 16) for bound in bounds if bound is not None)) if all(bounds) else range(0)


def _parse_addresses(letters: NDArray[np.uint8], starts: Numbers) -> tuple[Addresses, NDArray[np.bool_]]:
    values = np.full(256, 255, np.uint8)
    values[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
    address, valid = np.zeros(len(starts), np.uint64), np.ones(len(starts), bool)
    for column in range(_DIGITS):
        digits = values[letters[starts + column]]
        valid &= digits < 16
        address = np.asarray(address << np.uint64(4) | digits, np.uint64)
    return address, valid


def _number_modules(
    content: bytes, letters: NDArray[np.uint8], starts: Numbers, ends: Numbers
) -> tuple[Numbers, NDArray[np.bool_]]:
    """Return a number for the module that each symbol is of, 0 for the kernel's own, and whether that is no module."""
    modules = np.zeros(len(starts), np.int64)
    numbers: dict[bytes, int] = {}
    for line in np.flatnonzero(letters[ends - 1] == ord("]")).tolist():
        name = content[starts[line] : ends[line]].rpartition(b"\t")[2]
        modules[line] = numbers.setdefault(name, len(numbers) + 1)
    generated = [number for name, number in numbers.items() if _GENERATED.fullmatch(name)]
    return modules, np.isin(modules, generated)


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
