"""The paths of cgroups by the numbers that the kernel knows them by, which are the inodes of their folders."""

from __future__ import annotations

import os

from omn_kernel.cgroup import UNIFIED, find_hierarchies
from omn_kernel.mounts import read_mounts
from omn_kernel.polled import place


class CgroupNames:
    """The cgroup2 cgroups that there were at each look. One that came and went between two looks has no name."""

    def __init__(self, sysroot: str = "/") -> None:
        mount = find_hierarchies(read_mounts(sysroot)).get(UNIFIED)
        self._top = None if mount is None else place(sysroot, mount.point)
        self._paths: dict[int, str] = {}

    def look(self) -> None:
        """Read which cgroups there are now."""
        if self._top is None:
            return
        for folder, _, _ in os.walk(self._top):
            try:
                self._paths[os.stat(folder).st_ino] = folder.removeprefix(self._top) or "/"
            except OSError:  # it was removed since it was listed
                continue

    def find(self, number: int) -> str | None:
        """Find a cgroup's path below the root of the hierarchy, None for one that no look found."""
        return self._paths.get(number)
