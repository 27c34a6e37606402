"""A recording's file: made anew, for its owner alone, whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from omn_core.api import RequestError, RunFailed


def write_new(path: Path, write: Callable[[BinaryIO], int]) -> int:
    """Write a file that is not there yet, mode 0600, and return what `write` returned.

    Raises RequestError where something has that name already, RunFailed where it cannot be written: nothing of it is
    left then.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise RequestError(f"{str(path)!r} is there already", "name another file with -o") from error
    except OSError as error:
        raise RunFailed(f"{str(path)!r} cannot be written: {error.strerror}") from error
    try:
        with open(descriptor, "wb") as stream:
            return write(stream)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()
        raise RunFailed(f"{str(path)!r} cannot be written: {error.strerror}") from error
