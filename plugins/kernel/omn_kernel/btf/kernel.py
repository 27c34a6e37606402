"""The running kernel's types, their index kept from one run to the next.

The index is kept in omn's cache folder under the kernel's build id (/sys/kernel/notes), so that another kernel has one
of its own. A file there that is not whole, or not of this kernel's types, is passed over and written anew.
"""

from __future__ import annotations

import functools
import mmap
import struct
import zlib

from omn_core.api import read_cached, write_cached
from omn_kernel.btf.index import Index
from omn_kernel.btf.layout import Content
from omn_kernel.btf.types import Btf
from omn_kernel.elf.build_ids import parse_build_id
from omn_kernel.polled import read_file

PATH = "/sys/kernel/btf/vmlinux"
NOTES = "/sys/kernel/notes"
_MARK = b"omnbtf2\0"
# The mark, the bytes of the types that were indexed, the words of each array, and the sum over the arrays.
_HEADER = struct.Struct("=8sQIII")


@functools.lru_cache(maxsize=1)
def read_kernel_btf(sysroot: str) -> Btf:
    """Read the running kernel's types, once a session. Raises OSError where there are none, ValueError as Btf does."""
    content = _read_types(sysroot)
    build = _find_build_id(sysroot)
    if build is None:
        return Btf(content)
    name = f"btf-{build}"
    kept = read_cached(name)
    index = None if kept is None else parse_index(kept, len(content))
    btf = Btf(content, index)
    if index is None:
        write_cached(name, render_index(btf.index, len(content)))
    return btf


def _read_types(sysroot: str) -> Content:
    """Map the file where the kernel lets it be mapped (Linux 6.16), since a use reads few of its pages."""
    if sysroot in ("", "/"):
        with open(PATH, "rb") as file:
            try:
                return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE)
            except (OSError, ValueError):
                return file.read()
    return read_file(sysroot, PATH)


def _find_build_id(sysroot: str) -> str | None:
    try:
        return parse_build_id(read_file(sysroot, NOTES))
    except OSError:
        return None


def render_index(index: Index, size: int) -> bytes:
    """Render an index as it is kept, for types of so many bytes."""
    body = b"".join(bytes(part) for part in (index.starts, index.hashes, index.numbers))
    return _HEADER.pack(_MARK, size, len(index.starts), len(index.numbers), zlib.crc32(body)) + body


def parse_index(kept: bytes, size: int) -> Index | None:
    """Parse a kept index of types of so many bytes, None for anything that is not one, whole."""
    if len(kept) < _HEADER.size:
        return None
    mark, indexed, types, names, checksum = _HEADER.unpack_from(kept)
    body = memoryview(kept)[_HEADER.size :]
    if mark != _MARK or indexed != size or len(body) != 4 * (types + 2 * names) or zlib.crc32(body) != checksum:
        return None
    words = body.cast("I")
    return Index(words[:types], words[types : types + names], words[types + names :])
