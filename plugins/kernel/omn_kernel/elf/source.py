"""Where the bytes of an ELF image come from: a file that is read by position, or memory that was copied."""

from __future__ import annotations

import os
import stat
from typing import Protocol

import attrs


class ElfError(ValueError):
    """These bytes are no ELF image that can be read: it says what is wrong with them."""


class Source(Protocol):
    """Bytes by their position."""

    @property
    def size(self) -> int:
        """How many bytes there are."""

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly so many bytes. Raises ElfError where they end before."""


@attrs.frozen(repr=False)
class Memory:
    """An image that was copied whole."""

    content: bytes

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return len(self.content)

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly so many bytes. Raises ElfError where they end before."""
        found = self.content[offset : offset + size]
        if len(found) != size:
            raise ElfError(f"it is cut short: {size} bytes at {offset:#x} are not all there")
        return found


class File:
    """A regular file, held by its descriptor. It is read and never mapped: a file that shrinks would be a SIGBUS.

    Raises OSError where it cannot be opened and ElfError where it is no regular file.
    """

    _descriptor = -1

    def __init__(self, path: str) -> None:
        # A path that another program named may be a fifo: nothing here waits for its writer.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        self.status = os.fstat(self._descriptor)
        if not stat.S_ISREG(self.status.st_mode):
            self.close()
            raise ElfError("it is no regular file")

    @property
    def size(self) -> int:
        """How many bytes there were when it was opened."""
        return self.status.st_size

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly so many bytes. Raises ElfError where they end before."""
        if offset + size > self.size:
            raise ElfError(f"it is cut short: {size} bytes at {offset:#x} are not all there")
        content = os.pread(self._descriptor, size, offset)
        while len(content) < size:
            more = os.pread(self._descriptor, size - len(content), offset + len(content))
            if not more:
                raise ElfError("it was cut short while it was read")
            content += more
        return content

    @property
    def path(self) -> str:
        """A path that leads to the file while it is held, whatever stands at its own path and in which namespace."""
        return f"/proc/self/fd/{self._descriptor}"

    def read_status(self) -> os.stat_result:
        """Read what the file is now: it may have been written to since it was opened."""
        return os.fstat(self._descriptor)

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        # A run that fails half-way closes nothing, and its descriptors are not Python's to close.
        self.close()

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
