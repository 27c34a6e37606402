"""The vdso: code that the kernel maps into every process, and that no file holds.

The kernel maps one image a width, so that a 64-bit process's is read from this process's own memory; a 32-bit one's
from its own, through /proc/<pid>/mem, while it lives.
"""

from __future__ import annotations

import os

from omn_kernel.elf.source import ElfError, Memory
from omn_kernel.polled import place, read_file
from omn_kernel.symbols.mappings import Mapping, parse_mappings

NAME = "[vdso]"
_MOST_BYTES = 1 << 20


def copy_vdso(sysroot: str, mapping: Mapping, pid: int) -> Memory:
    """Copy the vdso that a process has mapped.

    Raises OSError where the memory is closed or gone, ElfError where this process has none to read in its place.
    """
    owner: int | str = pid
    if mapping.end > 1 << 32:
        own = next((one for one in parse_mappings(read_file("/", "/proc/self/maps")) if one.path == NAME), None)
        if own is None:
            raise ElfError("this process has no vdso")
        owner, mapping, sysroot = "self", own, "/"
    size = min(mapping.end - mapping.start, _MOST_BYTES)
    descriptor = os.open(place(sysroot, f"/proc/{owner}/mem"), os.O_RDONLY | os.O_CLOEXEC)
    try:
        return Memory(os.pread(descriptor, size, mapping.start))
    finally:
        os.close(descriptor)
