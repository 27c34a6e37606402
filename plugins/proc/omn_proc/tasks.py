"""proc.tasks: the processes of the machine, or the threads of some processes, at each reading."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any

from omn_kernel.mounts import read_mounts
from omn_kernel.polled import place, read_file
from omn_kernel.polling import PolledCollector, Rows
from omn_kernel.procfs.process import ProcessGone, find_folder, find_process_key, list_threads
from omn_kernel.procfs.task import PAGE_BYTES, parse_statm
from omn_kernel.task_files import DescriptorLoan, TaskFiles, TaskId

from omn_core.api import BoundTarget, TargetGone
from omn_proc.task_table import ALWAYS, WHERE_SHOWN, Found, TaskRow, TaskTable


class Tasks(PolledCollector[list[Found]], ABC):
    """A row for each task: one read of its stat file, and what else is read of it only where the answer can show it.

    Polled, the reading at the attach is the baseline; a task that comes later is first seen with its whole life, which
    lies in the window. A snapshot has no baseline: every task is first seen.
    """

    def open_files(self, target: BoundTarget) -> None:
        """Take descriptors for the tasks' files."""
        loan = self.hold(DescriptorLoan())
        self._stats = self.hold(TaskFiles(self.context.sysroot, "stat", loan))
        self._statms = self.hold(TaskFiles(self.context.sysroot, "statm", loan))
        self._table = TaskTable(self.misses)
        self._shown = [name for name in WHERE_SHOWN if self.resolved.shows(name)]
        self._keys: dict[int, str | None] = {}
        self._closed: set[int] = set()

    @abstractmethod
    def list_tasks(self) -> list[TaskId]:
        """List the tasks there are now. Raises TargetGone when there will be none any more."""

    def read_baseline(self) -> None:
        """Read what intervals begin with; nothing for a snapshot, which has none."""
        if self.resolved.mode != "snapshot":
            super().read_baseline()

    def read(self) -> list[Found]:
        """Read every task. One that ends meanwhile is left out; one that is closed to this user is noted."""
        found: list[Found] = []
        residents: dict[int, int | None] = {}
        tasks = self.list_tasks()
        for task in tasks:
            try:
                # A second time: the number may have passed to another task, whose file is another.
                stat = self._stats.read(task) or self._stats.read(task)
                if stat is None:
                    continue
                one = Found(task, stat, self.context.clock())
                if "rss_bytes" in self._shown:
                    one.resident_bytes = self._read_resident(task[0], residents)
            except PermissionError:
                self._closed.add(task[0])
                continue
            if "user" in self._shown:
                one.user = self._find_user(task)
            found.append(one)
        self._stats.retain(set(tasks))
        self._statms.retain({(pid, None) for pid in residents})
        return found

    def _read_resident(self, pid: int, known: dict[int, int | None]) -> int | None:
        """Read the resident set of a process once a reading, None where it has no memory of its own, or has ended."""
        if pid not in known:
            content = self._statms.read((pid, None)) or self._statms.read((pid, None))
            size, resident, _ = (0, 0, 0) if content is None else parse_statm(content)
            known[pid] = resident * PAGE_BYTES if size else None
        return known[pid]

    def _find_user(self, task: TaskId) -> int | None:
        """Find the effective user of a task: who owns its folder, which the kernel keeps so whatever it can dump."""
        try:
            return os.stat(place(self.context.sysroot, find_folder(*task))).st_uid
        except OSError:
            return None

    def make_rows(self, content: list[Found], at_ns: int) -> Rows:
        """Return a row for each task."""
        rows = self._table.advance(content, self._read_boot_offset)
        self.note_rows(rows)
        if not rows:
            return Rows()
        attributes: dict[str, list[Any]] = {name: [read(row) for row in rows] for name, read in ALWAYS.items()}
        if self.resolved.mode != "snapshot":
            # A snapshot's shares are over lives, of which none weighs more than another.
            attributes["interval_ns"] = [row.length_ns for row in rows]
        for name in self._shown:
            attributes[name] = [WHERE_SHOWN[name](row) for row in rows]
        return Rows(self._identify(rows), attributes)

    def note_rows(self, rows: list[TaskRow]) -> None:
        """Do nothing: what the rows say changes nothing of who is read next."""

    def _identify(self, rows: list[TaskRow]) -> dict[str, list[Any]]:
        tasks = [row.found.task for row in rows]
        keys: dict[str, list[Any]] = {"task": [pid if tid is None else tid for pid, tid in tasks]}
        if self.resolved.shows("proc"):
            for row, (pid, tid) in zip(rows, tasks, strict=True):
                if pid not in self._keys or (row.is_first and tid is None):
                    self._keys[pid] = find_process_key(self.context.sysroot, pid)
            keys["proc"] = [self._keys[pid] for pid, _ in tasks]
            self._keys = {pid: self._keys[pid] for pid, _ in tasks}
        return keys

    def _read_boot_offset(self) -> int:
        # /proc/uptime counts from the machine's start in hundredths of a second, as task starts are counted.
        seconds, _, hundredths = read_file(self.context.sysroot, "/proc/uptime").split(None, 1)[0].partition(b".")
        return int(seconds) * 1_000_000_000 + int(hundredths) * 10_000_000 - self.context.clock()

    def fields(self) -> dict[str, int]:
        """Return how many tasks ended: what each used after its last reading is in no row."""
        return {"tasks_ended": self._table.ended}


class MachineTasks(Tasks):
    """Every process that this /proc shows: one listing and one read a process."""

    def list_tasks(self) -> list[TaskId]:
        """List the processes."""
        return [(int(name), None) for name in os.listdir(place(self.context.sysroot, "/proc")) if name.isdigit()]

    def degradations(self) -> tuple[str, ...]:
        """Say that other users' processes are in no row, where /proc keeps them from this user."""
        if self._closed:
            return (f"{len(self._closed)} processes are closed to this user, and in no row",)
        if self._is_hiding():
            return ("/proc hides other users' processes from this user (hidepid), and they are in no row",)
        return ()

    def _is_hiding(self) -> bool:
        if os.path.exists(place(self.context.sysroot, "/proc/1")):
            return False
        mounts = [mount for mount in read_mounts(self.context.sysroot) if mount.point == "/proc"]
        return any(option.startswith("hidepid=") for mount in mounts for option in mount.options)


class ProcessTasks(Tasks):
    """The threads of each process of the target, or the one thread that it names.

    A process that has exited is read once more, for its last words.
    """

    def open_files(self, target: BoundTarget) -> None:
        """Follow the target's processes."""
        super().open_files(target)
        self._pids = [handle.pid for handle in target.processes]
        self._tid = target.tid

    def list_tasks(self) -> list[TaskId]:
        """List the threads of the processes that are left. Raises TargetGone when none is."""
        tasks: list[TaskId] = []
        for pid in list(self._pids):
            try:
                tids = list_threads(self.context.sysroot, pid)
            except ProcessGone:
                self._pids.remove(pid)
                continue
            tasks += [(pid, tid) for tid in tids if self._tid in (None, tid)]
        if not tasks:
            raise TargetGone
        return tasks

    def note_rows(self, rows: list[TaskRow]) -> None:
        """Follow no longer the processes of which nothing but zombies was read."""
        running = {row.found.task[0] for row in rows if not row.has_ended}
        self._pids = [pid for pid in self._pids if pid in running or all(row.found.task[0] != pid for row in rows)]
