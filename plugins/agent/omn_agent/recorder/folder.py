"""A recording's private folders: one for sockets and what the harness is pointed at, one for journals."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from omn_core.api import MachineRefused, find_cache_folder

_PREFIX = "omn-agent-"


def get_journal_folder() -> Path:
    """Return where journals are kept, made with mode 0700. Raises MachineRefused where there is no such place."""
    cache = find_cache_folder()
    if cache is None:
        raise MachineRefused("no folder of this user's own can hold a journal", "name one with OMN_CACHE_DIR")
    folder = cache / "agent"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def list_orphans() -> list[Path]:
    """Return the journals whose recorder is at work no more: nobody recovered them yet."""
    return [path for path in sorted(get_journal_folder().glob("*.journal")) if not _is_locked(path)]


def _is_locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # it was recovered meanwhile
        return True
    return False


@contextlib.contextmanager
def make_folder(environment: Mapping[str, str]) -> Iterator[Path]:
    """Make a recording's folder, mode 0700, and take it away at the end, whatever is in it.

    It is in $XDG_RUNTIME_DIR where that is the user's own, else among the journals.
    """
    runtime = Path(environment.get("XDG_RUNTIME_DIR") or "")
    place = runtime if runtime.is_absolute() and _is_own(runtime) else get_journal_folder()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def drop_folder(folder: Path) -> None:
    """Take away the folder that a recorder left when it died."""
    if folder.name.startswith(_PREFIX) and _is_own(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _is_own(folder: Path) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077 and os.access(folder, os.W_OK)
