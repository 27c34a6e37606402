"""What each task called itself when: from records, and from /proc for those that were there before."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from omn_kernel.procfs.process import find_comm


class TaskNames:
    """The names of tasks over time."""

    def __init__(self, sysroot: str) -> None:
        self._sysroot = sysroot
        self._names: dict[int, list[tuple[int, bytes]]] = {}

    def note(self, tid: int, comm: bytes, ts_ns: int) -> None:
        """Note that a task took a name."""
        self._names.setdefault(tid, []).append((ts_ns, comm))

    def note_start(self, parent: int, tid: int, ts_ns: int) -> None:
        """Note that a task began, with the name of the one that made it; an earlier task of its number is another."""
        comm = self.find(parent, ts_ns)
        self._names[tid] = [] if comm is None else [(ts_ns, comm)]

    def follow(self, pid: int, tid: int) -> None:
        """Read the name of a task at its first sight. One that is gone already stays without."""
        if tid not in self._names:
            comm = find_comm(self._sysroot, pid, tid)
            self._names[tid] = [] if comm is None else [(0, comm)]

    def find(self, tid: int, ts_ns: int) -> bytes | None:
        """Find what a task called itself at a time, None where nobody said."""
        names = self._names.get(tid)
        if not names:
            return None
        if len(names) == 1:
            return names[0][1]
        return names[max(bisect_right([since for since, _ in names], ts_ns) - 1, 0)][1]

    def list_at(
        self, tids: npt.NDArray[Any], times: npt.NDArray[np.int64]
    ) -> tuple[list[bytes | None], npt.NDArray[np.int64]]:
        """List names, None where nobody said, and for each task at each time the place of its own among them."""
        listed: list[bytes | None] = []
        places = np.empty(len(tids), np.int64)
        order = np.argsort(tids, kind="stable")
        ordered = tids[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1)).tolist()
        for first, end in pairwise([*starts, len(order)]):
            rows = order[first:end]
            named = self._names.get(int(ordered[first]))
            since = [start for start, _ in named[1:]] if named else []
            places[rows] = len(listed) + np.searchsorted(since, times[rows], side="right")
            listed += [comm for _, comm in named] if named else [None]
        return listed, places
