"""Where omn keeps what it may compute again: one private folder a user, never another user's."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from importlib.util import source_hash
from pathlib import Path
from typing import BinaryIO

KEPT = 8
"""How many files of one kind stay: another checkout, another set of plugins, the version before."""


def compute_fingerprint(parts: object) -> str:
    """Return what names a cached file by all that it depends on: plain values, as JSON holds them.

    64 bits, by which the interpreter tells sources apart: none of this is anybody's but the user's own, and hashlib
    brings OpenSSL into every start.
    """
    return source_hash(json.dumps(parts).encode()).hex()


def find_cache_folder() -> Path | None:
    """Return the cache folder, made with mode 0700, or None where the caller must do without.

    `OMN_CACHE_DIR` names it, else `$XDG_CACHE_HOME/omn`, else `~/.cache/omn`. Under sudo HOME may be another user's: a
    folder, or the nearest existing one above it, that is not owned by the caller is not used.
    """
    named = os.environ.get("OMN_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(named) if named else Path(base) / "omn"
    try:
        if not folder.is_absolute() or not _is_own(_nearest_existing(folder)):
            return None
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if stat.S_IMODE(folder.stat().st_mode) & 0o022 or not _is_own(folder):
            return None
    except OSError:
        return None
    return folder


def read_cached(name: str) -> bytes | None:
    """Return a cached file's bytes, None where there is none that this user alone could have written."""
    file = open_cached(name)
    if file is None:
        return None
    with file:
        return file.read()


def open_cached(name: str) -> BinaryIO | None:
    """Open a cached file to be read, None where there is none that this user alone could have written."""
    folder = find_cache_folder()
    if folder is None:
        return None
    try:
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022 or not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        return None
    return open(descriptor, "rb")


def write_cached(name: str, content: bytes) -> None:
    """Replace a cached file atomically, mode 0600, and drop the oldest of its kind: `KIND-CONTENT.json` names one.

    A folder that cannot be written leaves things as they are.
    """
    folder = find_cache_folder()
    if folder is None:
        return
    import tempfile  # as what is there already is read, nothing is written

    try:
        descriptor, path = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
    except OSError:
        return
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(path, folder / name)
    except OSError:
        Path(path).unlink(missing_ok=True)
    else:
        _prune(folder, name.partition("-")[0])


def _prune(folder: Path, kind: str) -> None:
    aged = []
    for path in folder.glob(f"{kind}-*"):
        with contextlib.suppress(OSError):  # another omn prunes the same folder
            aged.append((path.stat().st_mtime_ns, path))
    for _, path in sorted(aged, reverse=True)[KEPT:]:
        with contextlib.suppress(OSError):
            path.unlink()


@contextlib.contextmanager
def fill_cached(name: str, most_bytes: int) -> Iterator[tuple[BinaryIO, Callable[[], None]]]:
    """Lend a new file that is filled a part at a time, and the call that keeps it, whole, as a cached one of a name.

    What is not kept is gone at the end, and so is everything where there is no cache. Of its kind (`KIND-CONTENT`) the
    oldest are dropped until all together are no larger than `most_bytes`. Raises OSError where nothing can be written.
    """
    import tempfile

    folder = find_cache_folder()
    descriptor, path = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
    is_kept = False

    def keep() -> None:
        nonlocal is_kept
        if folder is not None:
            file.flush()
            os.replace(path, folder / name)
            is_kept = True
            _shrink(folder, name, most_bytes)

    with open(descriptor, "w+b") as file:
        try:
            yield file, keep
        finally:
            if not is_kept:
                Path(path).unlink(missing_ok=True)


def _shrink(folder: Path, name: str, most_bytes: int) -> None:
    """Drop the oldest files of a kind, the one of this name last."""
    aged = []
    for path in folder.glob(f"{name.partition('-')[0]}-*"):
        with contextlib.suppress(OSError):  # another omn shrinks the same folder
            found = path.stat()
            aged.append((path.name != name, -found.st_mtime_ns, found.st_size, path))
    total = 0
    for _, _, size, path in sorted(aged):
        total += size
        if total > most_bytes and path.name != name:
            with contextlib.suppress(OSError):
                path.unlink()


def _nearest_existing(path: Path) -> Path:
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _is_own(path: Path) -> bool:
    return path.stat().st_uid == os.geteuid()
