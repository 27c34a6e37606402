"""The file that a process mapped: that very one, or a refusal that says what stands in its place.

A path is no file: it may have been deleted, written anew, or be another file in another mount namespace. While the
process lives, /proc/<pid>/map_files leads to what it mapped (with CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE, see
proc_pid_map_files(5)), /proc/<pid>/exe to what it executes and /proc/<pid>/root to its own root. What is found
by a path is held to the inode or the build id that was mapped. A file of that inode may have been written anew in its
place, and the number of one that is gone is given to the next: one that was written to since is not what was mapped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

import attrs

from omn_kernel.elf.image import read_image
from omn_kernel.elf.notes import find_build_id
from omn_kernel.elf.source import ElfError, File
from omn_kernel.mounts import read_mounts
from omn_kernel.polled import place
from omn_kernel.symbols.identity import find_root
from omn_kernel.symbols.mappings import Mapping

_OTHER = "another file stands at its path now"
_WRITTEN = "it was written to since it was mapped"


@attrs.frozen(repr=False)
class Opened:
    """A mapped file, and the root that its path is under: where its debug file may stand too."""

    file: File
    root: str


class NotFound(Exception):
    """No path leads to the file that was mapped: it says why, in a clause."""


def open_mapped(sysroot: str, mapping: Mapping, pid: int | None, now: Sequence[Mapping]) -> Opened:
    """Open the file behind a mapping. `pid` is the process while it lives and still has that memory, else None.

    `now` is what the process has mapped at present, which leads to the file surely.

    Raises NotFound where nothing that is found is that file.
    """
    reason = "it was deleted" if mapping.path != mapping.file_path else "it is not there"
    for path, root, is_itself in _iter_places(sysroot, mapping, pid, now):
        try:
            file = File(path)
        except ElfError as error:
            reason = str(error)
            continue
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                reason = f"it cannot be opened ({error.strerror})"
            continue
        found = find_fault(file, mapping, is_itself=is_itself)
        if found is None:
            return Opened(file, root)
        file.close()
        reason = found
    raise NotFound(reason)


def _iter_places(
    sysroot: str, mapping: Mapping, pid: int | None, now: Sequence[Mapping]
) -> Iterator[tuple[str, str, bool]]:
    """Yield paths, the root each is under, and whether the kernel itself says that it is the mapped file."""
    here = place(sysroot, mapping.file_path)
    if pid is not None:
        root = find_root(sysroot, pid)
        name = _find_range(mapping, now)
        if name is not None:
            yield place(sysroot, f"/proc/{pid}/map_files/{name}"), root, True
        yield place(sysroot, f"/proc/{pid}/exe"), root, False
        yield root + mapping.path, root, False
        yield root + mapping.file_path, root, False
    yield here, place(sysroot, "").rstrip("/"), False


def _find_range(mapping: Mapping, now: Sequence[Mapping]) -> str | None:
    """Find what map_files calls the range: it may have been split or joined since it was mapped."""
    for one in now:
        same_file = one.file_path == mapping.file_path and mapping.inode in (None, one.inode)
        if same_file and one.start < mapping.end and mapping.start < one.end:
            return f"{one.start:x}-{one.end:x}"
    return None


def find_fault(file: File, mapping: Mapping, *, is_itself: bool) -> str | None:
    """Find why a file is not what was mapped, in a clause: by its build, or by its inode and when it was written."""
    if mapping.build_id is not None:
        return None if find_build(file) == mapping.build_id else _OTHER
    if mapping.inode is None:
        return None  # nothing was recorded to hold it to
    if not is_itself and not _has_inode(file, mapping):
        return _OTHER
    return _WRITTEN if was_written_since(read_written_ns(file), mapping) else None


def _has_inode(file: File, mapping: Mapping) -> bool:
    return file.status.st_ino == mapping.inode and _is_on(file.status.st_dev, mapping.device)


def find_build(file: File) -> str | None:
    """Find a file's build id as it is now, None where it has none or is no ELF image."""
    try:
        return find_build_id(read_image(file))
    except ElfError:
        return None


def read_written_ns(file: File) -> int:
    """Read when a file's content was last written, on CLOCK_MONOTONIC.

    Its modification time may be set to anything, also to what is yet to come; no write is later than its last change.
    """
    ahead_ns = time.clock_gettime_ns(time.CLOCK_REALTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    status = file.read_status()
    return min(status.st_mtime_ns, status.st_ctime_ns) - ahead_ns


def was_written_since(written_ns: int, mapping: Mapping) -> bool:
    """Tell whether a file was written after it was mapped. The kernel stamps a write at its last tick, never late."""
    return mapping.mapped_ns is not None and written_ns > mapping.mapped_ns


def _is_on(number: int, device: tuple[int, int] | None) -> bool:
    """Tell whether a file's device is the one that was mapped.

    Overlays and btrfs give stat(2) another number than they map under: an overlay is listed with its own, btrfs's are
    listed nowhere. Everywhere else the two agree.
    """
    found = os.major(number), os.minor(number)
    if device is None or found == device:
        return True
    kinds = {mount.kind for mount in read_mounts("/") if mount.device == f"{found[0]}:{found[1]}"}
    return not kinds or "overlay" in kinds
