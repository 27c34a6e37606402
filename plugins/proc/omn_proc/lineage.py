"""Which processes belong to a target: those it names, and those that they made, by what was told of each fork."""

from __future__ import annotations

import os
from collections.abc import Iterable

from omn_kernel.polled import place
from omn_kernel.procfs.process import find_parent


class Lineage:
    """The parent of each process that is known, and whether it is of the target's family.

    The machine's every process is in the family where the target names none. What is known at first is what /proc
    lists; from then on each fork is told. A process that no fork told of, because messages were lost, is looked up in
    /proc while it is there.
    """

    def __init__(self, sysroot: str, named: Iterable[int]) -> None:
        self._sysroot = sysroot
        self._named = frozenset(named)
        self._parents: dict[int, int | None] = {}
        self._inside: dict[int, bool] = {}
        for name in os.listdir(place(sysroot, "/proc")):
            if name.isdigit():
                self._parents[int(name)] = find_parent(sysroot, int(name))

    def note_fork(self, parent: int, child: int) -> None:
        """Take in that a process made another, whose number may have been a third one's before."""
        self._parents[child] = parent
        self._inside.pop(child, None)
        if not self._named:
            return
        is_inside = self.find_membership(parent)
        if is_inside is not None:
            self._inside[child] = is_inside

    def find_parent(self, pid: int) -> int | None:
        """Find the process that made another, 0 where it is in no namespace of omn's; None where nobody told."""
        if pid not in self._parents:
            self._parents[pid] = find_parent(self._sysroot, pid)
        return self._parents[pid]

    def find_membership(self, pid: int) -> bool | None:
        """Find whether a process is of the family; None where it came from is unknown, so that nobody can tell."""
        if not self._named:
            return True
        path: list[int] = []
        at: int | None = pid
        while at is not None and at not in self._inside and at not in self._named and at != 0 and at not in path:
            path.append(at)
            at = self.find_parent(at)
        if at is None:
            return None
        is_inside = at in self._named or self._inside.get(at, False)
        for each in path:
            self._inside[each] = is_inside
        return is_inside
