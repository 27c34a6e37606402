"""proc.threads: how many threads a process has, all together, by their names, or one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import attrs
from omn_kernel.followed import ParsedFile, Round, Source
from omn_kernel.polling import Rows
from omn_kernel.processes import ProcessTreeCollector
from omn_kernel.procfs.process import ProcessFile, find_comm, has_ended, list_threads
from omn_kernel.procfs.task import parse_stat

from omn_core.api import BoundTarget


@attrs.frozen
class Named:
    """Threads that are one row: their name, None where none was read, how many, and whose number stands for them."""

    comm: bytes | None
    count: int
    task: int | None = None


class ThreadNames:
    """The threads of a process, each asked for its name: /proc/<pid>/task, and comm of each."""

    name = "task"

    def __init__(self, sysroot: str, pid: int) -> None:
        self._sysroot = sysroot
        self._pid = pid

    def read(self) -> list[Named] | None:
        """Read every thread's name; one that ends meanwhile is left out. None when the process has ended."""
        tids = list_threads(self._sysroot, self._pid)
        if len(tids) == 1 and has_ended(self._sysroot, self._pid):
            return None
        found = [(tid, find_comm(self._sysroot, self._pid, tid)) for tid in tids]
        return [Named(comm, 1, tid) for tid, comm in found if comm is not None]

    def close(self) -> None:
        """Do nothing: nothing is held."""


def parse_thread_count(content: bytes) -> list[Named] | None:
    """Parse num_threads of /proc/<pid>/stat, None for a process that has ended."""
    stat = parse_stat(content)
    return None if stat.process_has_ended else [Named(None, stat.threads)]


class Threads(ProcessTreeCollector[list[Named]]):
    """A row for all processes; for each name of their threads where names divide the answer; for each thread by `task`.

    The threads of one instant add up and those of several do not, so that a snapshot is always thread by thread and
    a poll only where it is asked to be.
    """

    reads_at_open = True

    def open_files(self, target: BoundTarget) -> None:
        """Follow the processes. Raises MachineRefused for one that is not there."""
        self._by_task = self.resolved.mode == "snapshot" or self.resolved.is_divided_by("task")
        self._by_name = self.resolved.is_divided_by("comm")
        super().open_files(target)

    def tells_apart(self) -> bool:
        """Tell processes apart where each thread has a row, too."""
        return self._by_task or super().tells_apart()

    def list_shared(self) -> list[str]:
        """Return what else divides: no name, since those are of threads."""
        return [name for name in super().list_shared() if name != "comm"]

    def add_up(self, rows: Sequence[list[Named]]) -> list[Named]:
        """Return how many threads several processes have together."""
        return _merge([one for row in rows for one in row])

    def open_source(self, pid: int, tid: int | None) -> Source[list[Named]]:
        """Open the process's count of threads, or each thread's name where the answer divides by them."""
        sysroot = self.context.sysroot
        if self._by_task or self._by_name:
            return ThreadNames(sysroot, pid)
        return ParsedFile("stat", ProcessFile(sysroot, pid, "stat"), parse_thread_count)

    def make_rows(self, content: Round[list[Named]], at_ns: int) -> Rows:
        """Return the rows of each process, or of all, each under its own name or its threads'."""
        parts = [row if self._by_task else _merge(row) for row in content.rows]
        owners = [process for process, row in zip(content.processes, parts, strict=True) for _ in row]
        threads = [one for row in parts for one in row]
        keys, named = self.identify(owners)
        if self._by_task:
            keys = {**keys, "task": [one.task for one in threads]}
        if self._by_task or self._by_name:
            named["comm"] = [one.comm for one in threads]
        return Rows(keys, {"threads": [one.count for one in threads], **named})


def _merge(threads: list[Named]) -> list[Named]:
    """Return threads of one name as one."""
    counted: Counter[bytes | None] = Counter()
    for one in threads:
        counted[one.comm] += one.count
    return [Named(comm, count) for comm, count in counted.items()]
