"""The kernel's functions as they are kept from one run to the next.

The kernel stays where it was loaded until the next boot, and a module until it is taken out. So they are kept in omn's
cache folder under a name made of the boot's id, of the modules that are loaded and where, and of how kallsyms begins:
who may not see the addresses there reads zeros, and finds nothing that was kept by who may. What the kernel makes as it
runs comes and goes without a sign, and is not kept.
"""

from __future__ import annotations

import hashlib
import struct
import zlib

import numpy as np

from omn_kernel.polled import read_file
from omn_kernel.symbols.index import Candidates, choose_functions

BOOT = "/proc/sys/kernel/random/boot_id"
MODULES = "/proc/modules"
_SOURCE = "kallsyms"
_MARK = b"omnksym2"
# The mark, where threads wait, the functions, the bytes of their names, and the sum over what follows.
_HEADER = struct.Struct("=8sQQIII")
_ROW_BYTES = 8 + 8 + 4


def find_kept_name(sysroot: str, beginning: bytes) -> str | None:
    """Find the name under which the functions of the running kernel are kept, None where no boot has an id."""
    try:
        boot = read_file(sysroot, BOOT)
    except OSError:
        return None
    parts = (boot, beginning, _read_modules(sysroot))
    return f"kallsyms-{hashlib.sha256(b'|'.join(parts)).hexdigest()[:32]}"


def _read_modules(sysroot: str) -> bytes:
    """Read which modules are loaded, how large and where, see lsmod(8); a kernel that takes none has no such file.

    How often each is used, and by which, is left out.
    """
    try:
        lines = read_file(sysroot, MODULES).splitlines()
    except OSError:
        return b""
    return b"\n".join(b" ".join((*words[:2], *words[4:])) for words in map(bytes.split, lines))


def render_kept(functions: Candidates, waiting: range) -> bytes:
    """Render functions as they are kept: one for each address, in the order of these. `waiting` are addresses."""
    chosen = choose_functions(functions)
    letters = np.frombuffer(chosen.strings + b"\0", np.uint8)
    starts, nuls = chosen.name.astype(np.int64), np.flatnonzero(letters == 0)
    lengths = nuls[np.searchsorted(nuls, starts)] + 1 - starts
    offsets = np.cumsum(lengths) - lengths
    strings = letters[np.repeat(starts - offsets, lengths) + np.arange(int(lengths.sum()))]
    body = b"".join(part.tobytes() for part in (chosen.start, chosen.end, offsets.astype(np.uint32), strings))
    return _HEADER.pack(_MARK, waiting.start, waiting.stop, len(starts), len(strings), zlib.crc32(body)) + body


def parse_kept(kept: bytes) -> tuple[Candidates, range] | None:
    """Parse functions that were kept, and where threads wait; None for anything that is not all of them."""
    if len(kept) < _HEADER.size:
        return None
    mark, first, last, count, size, checksum = _HEADER.unpack_from(kept)
    body = memoryview(kept)[_HEADER.size :]
    if mark != _MARK or len(body) != count * _ROW_BYTES + size or zlib.crc32(body) != checksum:
        return None
    functions = Candidates(
        source=_SOURCE,
        strings=bytes(body[count * _ROW_BYTES :]),
        start=np.frombuffer(body, np.uint64, count),
        end=np.frombuffer(body, np.uint64, count, 8 * count),
        is_sized=np.ones(count, bool),
        preference=np.zeros(count, np.uint8),
        name=np.frombuffer(body, np.uint32, count, 16 * count),
    )
    return functions, range(first, last)
