"""Following the processes of a target whose memory is asked for: each by one file of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from omn_kernel.processes import ProcessTreeCollector
from omn_kernel.procfs.process import ProcessFile, ProcessGone, list_threads, read_stat

from omn_core.api import BoundTarget, MachineRefused

Row = TypeVar("Row")


def check_memory(target: BoundTarget, sysroot: str) -> None:
    """Raise MachineRefused for a process that has no memory of its own, each kind with its own sentence."""
    for process in target.processes:
        try:
            stat = read_stat(sysroot, process.pid, target.tid)
        except ProcessGone as gone:
            raise MachineRefused(str(gone)) from None
        if stat.is_kernel_thread:
            raise MachineRefused(
                f"process {process.pid} is a kernel thread, which has no memory of its own",
                "name a process of a program",
            )


class MemoryFile(Generic[Row]):
    """A file of a process's memory, read through its first thread, and through another once that one has ended.

    The kernel shows no memory in the files of a first thread that ended (pthread_exit in main), although the process
    lives on in its others and the memory is all of theirs.
    """

    def __init__(
        self, sysroot: str, pid: int, name: str, parse: Callable[[bytes], Row | None], *, walks_mappings: bool
    ) -> None:
        self.name = name
        self._sysroot = sysroot
        self._parse = parse
        self._walks_mappings = walks_mappings
        self._pid = pid
        self._file = self._open(None)

    def read(self) -> Row | None:
        """Read the file. Raises what `ProcessFile.read` does; None for a process that has no memory any more."""
        failure: Exception | None = None
        row: Row | None = None
        try:
            row = self._parse(self._file.read())
        except (ProcessGone, ProcessLookupError) as error:
            failure = error
        if row is None:
            row = self._read_through_another()
        if row is None and failure is not None:
            raise failure
        return row

    def _read_through_another(self) -> Row | None:
        for tid in list_threads(self._sysroot, self._pid):
            file = self._open(tid)
            try:
                row = self._parse(file.read())
            except (ProcessGone, ProcessLookupError):
                continue
            if row is not None:
                self._file.close()
                self._file = file
                return row
            file.close()
        return None

    def _open(self, tid: int | None) -> ProcessFile:
        walks = self._walks_mappings
        return ProcessFile(self._sysroot, self._pid, self.name, tid=tid, many_records=walks, bound_to_memory=walks)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class MemoryCollector(ProcessTreeCollector[Row], ABC):
    """A gauge of each process of the target and of those it starts, made of one file of /proc/<pid>.

    `walks_mappings` says that the kernel makes the file by walking the address space, which an execve replaces.
    """

    reads_at_open = True

    file: str
    walks_mappings = False

    @abstractmethod
    def parse(self, content: bytes) -> Row | None:
        """Return what the file says, None where it says that the process has no memory any more."""

    def open_files(self, target: BoundTarget) -> None:
        """Follow the processes. A kernel thread is refused, and before anything runs a file closed to this user."""
        check_memory(target, self.context.sysroot)
        super().open_files(target)
        for process in () if target.launched else self.followed.named:
            try:
                process.source.read()
            except ProcessGone as gone:
                raise MachineRefused(str(gone)) from None

    def open_source(self, pid: int, tid: int | None) -> MemoryFile[Row]:
        """Open the process's file."""
        return MemoryFile(self.context.sysroot, pid, self.file, self.parse, walks_mappings=self.walks_mappings)
