"""Files made anew, for their owner alone: a recording, whole or not at all, and what a harness is pointed at."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from omn_core.api import RequestError, RunFailed

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def refuse_existing(path: Path) -> None:
    """Raise RequestError where something has a name that a recording is to have."""
    if os.path.lexists(path):
        raise RequestError(f"{str(path)!r} is there already", "name another file with -o")


def write_new(path: Path, write: Callable[[BinaryIO], int]) -> int:
    """Write a file that is not there yet, mode 0600, and return what `write` returned.

    It gets its name when it is whole: nobody ever sees a part of it. Raises RequestError where something has that name
    already, RunFailed where it cannot be written: nothing of it is left then.
    """
    refuse_existing(path)
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as stream:
                written = write(stream)
                stream.flush()
                os.fsync(stream.fileno())
            _give_name(hidden, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                hidden.unlink()
    except FileExistsError as error:
        raise RequestError(f"{str(path)!r} is there already", "name another file with -o") from error
    except OSError as error:
        raise RunFailed(f"{str(path)!r} cannot be written: {error.strerror}") from error
    return written


def write_private(path: Path, content: bytes) -> None:
    """Write a new small file, mode 0600. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)


def _give_name(hidden: Path, path: Path) -> None:
    """Give a file its name, where nothing has it: a link fails then, and a rename would not."""
    try:
        os.link(hidden, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without links: the name is taken first, then replaced.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.rename(hidden, path)
