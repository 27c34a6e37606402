"""A folder watched for files that are put into it: inotify(7), which Python's library does not have."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

import attrs

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLOSE_WRITE, _MOVED_TO, _CREATE, _ONLYDIR = 0x8, 0x80, 0x100, 0x1000000
"""IN_CLOSE_WRITE, IN_MOVED_TO, IN_CREATE and IN_ONLYDIR of <linux/inotify.h>."""


def _open() -> int | None:
    """Return an inotify instance, None where this user may have no more: IN_NONBLOCK and IN_CLOEXEC are open's own."""
    descriptor: int = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    return None if descriptor < 0 else descriptor


@attrs.define
class FolderWatch:
    """A folder that need not be there yet: until it is, the one above it is watched for it.

    `descriptor` is readable once something changed, None where this machine lends no watch. Whoever looks from time to
    time as well loses nothing without one but the time in between.
    """

    folder: Path
    descriptor: int | None = attrs.field(factory=_open)
    _is_there: bool = False

    def __attrs_post_init__(self) -> None:
        """Begin."""
        self._add()

    def take(self) -> None:
        """Take note of what changed, and watch the folder from now on where it is there now."""
        if self.descriptor is None:
            return
        with contextlib.suppress(BlockingIOError):
            while os.read(self.descriptor, 1 << 16):
                pass
        if not self._is_there:
            self._add()

    def close(self) -> None:
        """End."""
        if self.descriptor is not None:
            os.close(self.descriptor)

    def _add(self) -> None:
        if self.descriptor is not None:
            self._is_there = self._watch(self.folder, _CREATE | _MOVED_TO | _CLOSE_WRITE)
            if not self._is_there:
                self._watch(self.folder.parent, _CREATE | _MOVED_TO)
                # It may have come between the two.
                self._is_there = self._watch(self.folder, _CREATE | _MOVED_TO | _CLOSE_WRITE)

    def _watch(self, folder: Path, mask: int) -> bool:
        return bool(_LIBC.inotify_add_watch(self.descriptor, os.fsencode(folder), mask | _ONLYDIR) >= 0)
