"""Files that are read again and again: opened once, read whole from their start."""

from __future__ import annotations

import os
import resource


def place(sysroot: str, path: str) -> str:
    """Return where a path of the machine stands under a root that takes the place of `/`."""
    return path if sysroot in ("/", "") else sysroot.rstrip("/") + path


def read_file(sysroot: str, path: str) -> bytes:
    """Read a file of the machine whole. Raises OSError as the kernel does."""
    with open(place(sysroot, path), "rb") as file:
        return file.read()


class PolledFile:
    """A file that the kernel writes anew for each read from its start.

    Most files of /proc and /sys are one record: a read shorter than the buffer ends them. Those the kernel makes of
    many records (vmstat, slabinfo, smaps) give one buffer's worth a call and are read until nothing more comes: say
    `many_records` for them. Raises OSError when opened, and from `read`, as the kernel does.
    """

    __slots__ = ("_descriptor", "_many_records", "_size", "path")

    def __init__(self, path: str, *, many_records: bool = False, size: int = 4096) -> None:
        self.path = path
        self._many_records = many_records
        self._size = size
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> bytes:
        """Read the file as it stands now."""
        content = os.pread(self._descriptor, self._size, 0)
        if len(content) < self._size and not self._many_records:
            return content
        return self._read_on(content)

    def _read_on(self, content: bytes) -> bytes:
        parts = [content]
        offset = len(content)
        while content:
            content = os.pread(self._descriptor, self._size, offset)
            parts.append(content)
            offset += len(content)
        while self._size <= offset < 1 << 24:
            self._size *= 2
        return b"".join(parts)

    def close(self) -> None:
        """Let go of the file. Closing twice is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        # A file whose opening failed has no descriptor yet.
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()


def raise_descriptor_limit(wanted: int) -> int:
    """Raise this process's soft limit of open files by what `wanted` more need, up to the hard limit.

    Returns the soft limit as it was: a program launched later must not inherit another one, so hand it to
    `restore_descriptor_limit` when the files are closed, and raise it only once the program exists.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = len(os.listdir("/proc/self/fd")) + wanted + 64
    if soft != resource.RLIM_INFINITY and needed > soft:
        reachable = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))
    return soft


def restore_descriptor_limit(soft: int) -> None:
    """Put the soft limit of open files back. Files open above it stay open."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
