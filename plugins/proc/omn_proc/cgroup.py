"""proc.cgroup: the cgroups that a process is in, and how many tasks each has and may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from omn_kernel.cgroup import UNIFIED, find_below_mount, find_hierarchies, parse_cgroup
from omn_kernel.cgroup_accounts import parse_limit
from omn_kernel.followed import Round
from omn_kernel.mounts import Mount, read_mounts
from omn_kernel.polled import place, read_file
from omn_kernel.polling import Rows
from omn_kernel.processes import ProcessCollector
from omn_kernel.procfs.process import ProcessFile, has_ended

from omn_core.api import BoundTarget


@attrs.frozen
class Membership:
    """A cgroup that a process is in: the hierarchy (`unified`, or a v1 controller or name), its path there.

    `tasks` is how many tasks it and those below it hold and `limit` how many they may; None where no pids controller
    counts them, or none is set.
    """

    hierarchy: str
    path: str
    tasks: int | None = None
    limit: int | None = None


class ProcessCgroups:
    """The cgroups of one process, read anew each time: it may be moved between two readings."""

    name = "cgroup"

    def __init__(self, sysroot: str, pid: int, mounts: Mapping[str, Mount]) -> None:
        self._sysroot = sysroot
        self._pid = pid
        self._mounts = mounts
        self._file = ProcessFile(sysroot, pid, "cgroup", many_records=True)

    def read(self) -> list[Membership] | None:
        """Read each membership. None for a process that has ended: a zombie is still listed, and may be in the root."""
        content = self._file.read()
        if has_ended(self._sysroot, self._pid):
            return None
        return [self._read_one(hierarchy, path) for hierarchy, path in parse_cgroup(content).items()]

    def _read_one(self, hierarchy: str, path: str) -> Membership:
        folder = self._find_folder(hierarchy, path) if hierarchy in (UNIFIED, "pids") else None
        if folder is None:
            return Membership(hierarchy, path)
        try:
            tasks = int(read_file("/", f"{folder}/pids.current"))
            return Membership(hierarchy, path, tasks, parse_limit(read_file("/", f"{folder}/pids.max")))
        except OSError:
            # The root of a hierarchy has no such files, nor has a cgroup2 without the controller, nor one just removed.
            return Membership(hierarchy, path)

    def _find_folder(self, hierarchy: str, path: str) -> str | None:
        """Find the folder of a path: None where it is outside what is mounted, as it is seen from a container."""
        mount = self._mounts.get(hierarchy)
        below = None if mount is None else find_below_mount(path, mount)
        if mount is None or below is None:
            return None
        return place(self._sysroot, mount.point) + below.rstrip("/")

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def find_counting(memberships: Sequence[Membership]) -> Membership | None:
    """Find the membership in the hierarchy that can count tasks: that of version 1's pids controller, else cgroup2."""
    by_hierarchy = {one.hierarchy: one for one in memberships}
    return by_hierarchy.get("pids") or by_hierarchy.get(UNIFIED)


class Cgroups(ProcessCollector[list[Membership]]):
    """A row for each hierarchy that a process is in; polled, for the one whose pids controller can count its tasks."""

    reads_at_open = True

    def open_files(self, target: BoundTarget) -> None:
        """Follow the processes."""
        self._mounts = find_hierarchies(read_mounts(self.context.sysroot))
        self._uncounted: dict[str, None] = {}
        super().open_files(target)

    def open_source(self, pid: int, tid: int | None) -> ProcessCgroups:
        """Open what is read of a process."""
        return ProcessCgroups(self.context.sysroot, pid, self._mounts)

    def make_rows(self, content: Round[list[Membership]], at_ns: int) -> Rows:
        """Return the rows; a cgroup whose tasks nobody counts has no figure, and one without a limit no share of it."""
        rows = [
            (process, one)
            for process, memberships in zip(content.processes, content.rows, strict=True)
            for one in self._select(memberships)
        ]
        if not rows:
            return Rows()
        keys, named = self.identify([process for process, _ in rows])
        memberships = [one for _, one in rows]
        return Rows(
            {**keys, "cgroup": [one.path for one in memberships]},
            {
                "tasks": [one.tasks for one in memberships],
                "tasks_limit": [one.limit for one in memberships],
                "used": [one.tasks / one.limit if one.tasks is not None and one.limit else None for one in memberships],
                "hierarchy": [one.hierarchy for one in memberships],
                **named,
            },
        )

    def _select(self, memberships: list[Membership]) -> list[Membership]:
        counting = find_counting(memberships)
        if counting is None or counting.tasks is None:
            where = "any cgroup" if counting is None else f"cgroup {counting.path} of {counting.hierarchy}"
            self._uncounted[where] = None
        if self.resolved.mode == "snapshot":
            return memberships
        return [] if counting is None else [counting]

    def facts(self) -> tuple[str, ...]:
        """Say which cgroup's tasks nobody counts."""
        return tuple(
            f"nothing counts the tasks of {where}: it is a root, or has no pids controller" for where in self._uncounted
        )
