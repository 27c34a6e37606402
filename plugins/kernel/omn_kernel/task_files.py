"""Reading files of each of many tasks at every tick: files stay open while descriptors are to be had."""

from __future__ import annotations

import os
import resource

from omn_kernel.polled import PolledFile, place, raise_descriptor_limit, restore_descriptor_limit
from omn_kernel.procfs.process import find_folder

TaskId = tuple[int, int | None]
"""A process by its number, or one of its threads by both."""

MOST_KEPT = 4096
"""How many files stay open for all files of all tasks; those of further tasks are opened for each reading."""

_SPARE = 64
_GONE = (FileNotFoundError, ProcessLookupError)


class DescriptorLoan:
    """Descriptors for files that stay open, the soft limit raised for them until it is closed.

    What is launched later inherits the limit as it was: take the loan once the program exists.
    """

    def __init__(self) -> None:
        self._soft = raise_descriptor_limit(MOST_KEPT)
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = MOST_KEPT if soft == resource.RLIM_INFINITY else soft - len(os.listdir("/proc/self/fd")) - _SPARE
        self.left = max(0, min(free, MOST_KEPT))

    def close(self) -> None:
        """Put the limit back."""
        restore_descriptor_limit(self._soft)


class TaskFiles:
    """One file of each task, by its name in the task's folder: one record, or `many_records`."""

    def __init__(self, sysroot: str, name: str, loan: DescriptorLoan, *, many_records: bool = False) -> None:
        self._sysroot = sysroot
        self._name = name
        self._loan = loan
        self._many_records = many_records
        self._kept: dict[TaskId, PolledFile] = {}

    def read(self, task: TaskId) -> bytes | None:
        """Read a task's file, None where the task that it was opened on has ended. Raises OSError as the kernel does.

        The next read of the same number opens the file of whichever task has that number then.
        """
        kept = self._kept.get(task)
        try:
            return self._open_and_read(task) if kept is None else kept.read()
        except _GONE:
            self.forget(task)
            return None

    def _open_and_read(self, task: TaskId) -> bytes:
        path = place(self._sysroot, f"{find_folder(*task)}/{self._name}")
        file = PolledFile(path, size=1024, many_records=self._many_records)
        content = file.read()
        if self._loan.left:
            self._loan.left -= 1
            self._kept[task] = file
        else:
            file.close()
        return content

    def retain(self, tasks: set[TaskId]) -> None:
        """Let go of the files of all other tasks."""
        for task in self._kept.keys() - tasks:
            self.forget(task)

    def forget(self, task: TaskId) -> None:
        """Let go of a task's file where one is kept."""
        kept = self._kept.pop(task, None)
        if kept is not None:
            kept.close()
            self._loan.left += 1

    def close(self) -> None:
        """Let go of every file."""
        for task in list(self._kept):
            self.forget(task)
