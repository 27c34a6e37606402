"""The processes that descend from others, found anew at each reading (/proc/<pid>/task/<tid>/children, proc(5))."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from omn_core.api import ProcessHandle
from omn_kernel.polled import read_file
from omn_kernel.procfs.process import ProcessGone, list_threads, read_stat


def read_children(sysroot: str, pid: int) -> list[int]:
    """Read the children that a process's threads have now, none where it is gone.

    The file needs a kernel with CONFIG_PROC_CHILDREN, and may miss a child while others of it end.
    """
    children: list[int] = []
    try:
        threads = list_threads(sysroot, pid)
    except ProcessGone:
        return children
    for tid in threads:
        try:
            children += [int(word) for word in read_file(sysroot, f"/proc/{pid}/task/{tid}/children").split()]
        except OSError:
            # The thread ended since the listing, and its children went to another one.
            continue
    return children


@attrs.define
class ProcessTree:
    """Some processes and all that descend from them.

    A process that was found once stays in the tree although its parent ended and it was given another one; it is told
    from a later process of its number by when it started. One that was orphaned before any reading found it is missed.
    """

    sysroot: str
    _known: dict[int, int] = attrs.field(factory=dict)

    @classmethod
    def of(cls, sysroot: str, processes: Iterable[ProcessHandle]) -> ProcessTree:
        """Make the tree of a target's processes."""
        return cls(sysroot, {process.pid: process.start_ticks for process in processes})

    def find_members(self) -> frozenset[int]:
        """Find every living process of the tree; empty when the last has ended."""
        found: dict[int, int] = {}
        waiting = list(self._known.items())
        while waiting:
            pid, start_ticks = waiting.pop()
            if pid in found or not self._is_alive(pid, start_ticks):
                continue
            found[pid] = start_ticks
            for child in read_children(self.sysroot, pid):
                started = self._find_start(child)
                if started is not None:
                    waiting.append((child, started))
        self._known = found
        return frozenset(found)

    def _is_alive(self, pid: int, start_ticks: int) -> bool:
        try:
            stat = read_stat(self.sysroot, pid)
        except ProcessGone:
            return False
        return stat.start_ticks == start_ticks and not stat.process_has_ended

    def _find_start(self, pid: int) -> int | None:
        try:
            return read_stat(self.sysroot, pid).start_ticks
        except ProcessGone:
            return None
