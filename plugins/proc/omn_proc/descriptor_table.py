"""A process's open descriptors: /proc/<pid>/fd, and what each of its links says it refers to. See proc(5)."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Mapping

from omn_kernel.polled import place
from omn_kernel.procfs.process import ProcessGone, find_folder, has_ended, list_threads, refuse_reading

_DEVICES = b"/dev/"
_NO_DEVICES = (b"/dev/shm/", b"/dev/mqueue/", b"/dev/hugepages/")
_NAMESPACES = frozenset({b"cgroup", b"ipc", b"mnt", b"net", b"pid", b"time", b"user", b"uts"})


def parse_kind(link: bytes) -> str:
    """Parse what a descriptor's link names into a kind, in one word.

    A path is a `device` under /dev and a `file` elsewhere: a regular file, a folder, a named pipe. `TYPE:[inode]`
    (socket, pipe, pidfd) and `anon_inode:[TYPE]` (eventfd, eventpoll, timerfd, io_uring) are TYPE as the kernel spells
    it, a namespace is `namespace`, and memory without a file system is `memfd`.
    """
    if link.startswith(b"/"):
        if link.startswith(b"/memfd:"):
            return "memfd"
        if link.startswith(b"/dmabuf:"):
            return "dmabuf"
        return "device" if link.startswith(_DEVICES) and not link.startswith(_NO_DEVICES) else "file"
    kind, _, rest = link.partition(b":")
    if kind == b"anon_inode":
        return rest.strip(b"[]").decode("utf-8", "backslashreplace")
    return "namespace" if kind in _NAMESPACES else kind.decode("utf-8", "backslashreplace")


class DescriptorTable:
    """The descriptors of a process, counted, or counted by kind where `by_kind`.

    Listing them takes the kernel's ptrace access check for a process of another user; their number alone Linux 6.2
    and later tell everyone, as the folder's size.
    """

    name = "fd"

    def __init__(self, sysroot: str, pid: int, *, by_kind: bool) -> None:
        self._sysroot = sysroot
        self._pid = pid
        self._by_kind = by_kind
        self._folder = place(sysroot, f"{find_folder(pid)}/fd")
        # The kernel's folder has its number of entries for a size (Linux 6.2); a folder of another file system has not.
        self._is_sized = sysroot in ("/", "")

    def read(self) -> Mapping[str | None, int]:
        """Read how many there are of each kind, of kind None where they are not told apart.

        Raises ProcessGone when the process has ended, MachineRefused where its descriptors are closed to this user.
        """
        try:
            if not self._by_kind and self._is_sized and (count := os.stat(self._folder).st_size):
                return {None: count}
            folder, names = self._list()
            # Each link takes the check again: a folder may be listed whose links are closed.
            counted: Mapping[str | None, int] = _count_kinds(folder, names) if self._by_kind else {None: len(names)}
        except (FileNotFoundError, ProcessLookupError):
            raise ProcessGone(f"process {self._pid} has ended") from None
        except PermissionError:
            raise refuse_reading(self._pid, "fd") from None
        if not names and has_ended(self._sysroot, self._pid):
            raise ProcessGone(f"process {self._pid} has ended")
        return counted

    def _list(self) -> tuple[str, list[str]]:
        """List the descriptors, and where: a first thread that ended shows none, and its process's others do."""
        names = os.listdir(self._folder)
        if names or has_ended(self._sysroot, self._pid):
            return self._folder, names
        for tid in list_threads(self._sysroot, self._pid):
            folder = place(self._sysroot, f"{find_folder(self._pid, tid)}/fd")
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                names = os.listdir(folder)
            if names:
                return folder, names
        return self._folder, names

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _count_kinds(folder: str, names: list[str]) -> Mapping[str | None, int]:
    kinds: Counter[str | None] = Counter()
    for name in names:
        try:
            kinds[parse_kind(os.fsencode(os.readlink(f"{folder}/{name}")))] += 1
        except FileNotFoundError:
            continue  # closed since the listing
    return kinds
