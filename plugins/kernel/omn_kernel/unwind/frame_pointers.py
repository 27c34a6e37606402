"""Whether a program's functions keep frame pointers: by how their code begins, which no header says. x86-64."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import attrs
import numpy as np
from numpy.typing import NDArray

from omn_kernel.elf.image import EM_X86_64, PF_X, PT_LOAD, Image, read_image
from omn_kernel.elf.source import ElfError, File
from omn_kernel.elf.tables import STT_FUNC, read_dynamic_symbols, read_static_symbols

ENOUGH = 0.25
"""From more than this share of a program's functions on it counts as built with frame pointers."""

_MOST_READ = 4096
_PROLOGUE_BYTES = 48
_PUSH = b"\x55"  # push %rbp
_MOVES = (b"\x48\x89\xe5", b"\x48\x8b\xec")  # mov %rsp,%rbp, in either spelling
_ROOMS = (b"\x48\x83\xec", b"\x48\x81\xec")  # sub $N,%rsp
_PT_GNU_EH_FRAME = 0x6474E550
_SORTED_TABLE = b"\x03\x3b"  # DW_EH_PE_udata4, and DW_EH_PE_datarel | sdata4
_MOST_INTERPRETERS = 4


@attrs.frozen(repr=False)
class FramePointers:
    """What a program's code says: whether `main` keeps one (None: it has no such symbol), and how many functions do.

    Of a program with very many functions so many are looked at, spread over all of them.
    """

    main: bool | None
    keeping: int
    functions: int

    @property
    def are_kept(self) -> bool:
        """Whether it counts as built with frame pointers."""
        return bool(self.main) or self.keeping > ENOUGH * self.functions

    def describe(self) -> str:
        """Return what was found, in a clause."""
        share = f"{self.keeping} of {self.functions} functions of it keep one"
        if self.main is None:
            return share
        return f"its main keeps {'a' if self.main else 'no'} frame pointer, and {share}"


def is_followed(path: str) -> bool:
    """Tell whether the program of a file is of the one processor whose code is followed here. Raises as below."""
    with File(_find_executed(path)) as file:
        return _is_followed(read_image(file))


def _is_followed(image: Image) -> bool:
    return image.machine == EM_X86_64 and image.is_64


def read_frame_pointers(path: str) -> FramePointers | None:
    """Read whether the program of a file keeps frame pointers, a script's interpreter's in its place.

    None for what is no x86-64 program. Raises OSError where it cannot be read, ElfError where it is no program at all.
    """
    with File(_find_executed(path)) as file:
        image = read_image(file)
        if not _is_followed(image):
            return None
        starts, main = _list_functions(image)
        chosen = starts[np.linspace(0, len(starts) - 1, min(len(starts), _MOST_READ)).astype(np.int64)]
        found = [keeps_frame_pointer(code) for code in _iter_code(image, chosen.tolist()) if code]
        of_main = None if main is None else keeps_frame_pointer(b"".join(_iter_code(image, [main])))
        return FramePointers(of_main, sum(found), len(found))


def keeps_frame_pointer(code: bytes) -> bool:
    """Tell whether a function that begins so makes rbp point to its frame.

    Compilers put a test that leaves early before that, and other instructions between the push of the old pointer and
    the move. A function that keeps none may push rbp and have it point to what it made room for: after it did.
    """
    for move in _MOVES:
        before, found, _ = code.partition(move)
        pushed = before.rfind(_PUSH)
        if found and pushed >= 0 and not any(room in before[pushed:] for room in _ROOMS):
            return True
    return False


def _find_executed(path: str) -> str:
    """Find the program that the kernel runs for a file: a script's `#!` line names another. See execve(2)."""
    for _ in range(_MOST_INTERPRETERS):
        with File(path) as file:
            line = file.read(0, min(file.size, 256)).partition(b"\n")[0]
        words = line[2:].split()
        if not line.startswith(b"#!") or not words:
            return path
        path = os.fsdecode(words[0])
    return path


def _list_functions(image: Image) -> tuple[NDArray[np.uint64], int | None]:
    """List where functions start: as the index of unwind information has them, else symbols; and where main does."""
    tables = [table for table in (read_static_symbols(image), read_dynamic_symbols(image)) if table is not None]
    starts, main = _read_index(image), None
    for table in tables:
        functions = table.records[(table.records["info"] & 0xF == STT_FUNC) & (table.records["value"] > 0)]
        at = table.strings.find(b"\0main\0")
        named = functions["value"][functions["name"] == at + 1] if at >= 0 else functions["value"][:0]
        main = int(named[0]) if main is None and len(named) else main
        starts = np.unique(functions["value"]).astype(np.uint64) if not len(starts) else starts
    return starts, main


def _read_index(image: Image) -> NDArray[np.uint64]:
    """Read where functions start from .eh_frame_hdr, nothing where it has no sorted table."""
    nothing = np.empty(0, np.uint64)
    header = next((one for one in image.segments if one.kind == _PT_GNU_EH_FRAME and one.file_size >= 12), None)
    if header is None:
        return nothing
    content = image.source.read(header.offset, header.file_size)
    if content[0] != 1 or content[2:4] != _SORTED_TABLE:
        return nothing
    (count,) = struct.unpack_from("<I", content, 8)
    pairs = np.frombuffer(content[12:], "<i4")[: 2 * count]
    return (pairs[: len(pairs) // 2 * 2 : 2].astype(np.int64) + header.address).astype(np.uint64)


def _iter_code(image: Image, addresses: list[int]) -> Iterator[bytes]:
    """Yield how the code at each address begins, empty for an address that the file holds no code of."""
    segments = [one for one in image.segments if one.kind == PT_LOAD and one.flags & PF_X]
    for address in addresses:
        for one in segments:
            past = address - one.address
            if 0 <= past < one.file_size:
                try:
                    yield image.source.read(one.offset + past, min(_PROLOGUE_BYTES, one.file_size - past))
                except ElfError:
                    yield b""
                break
        else:
            yield b""
