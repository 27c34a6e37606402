"""Following the processes of a target whose memory is asked for: each by one file of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from omn_kernel.processes import ParsedFile, ProcessCollector
from omn_kernel.procfs.process import ProcessFile, ProcessGone, read_stat

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
                "ask for the machine with --system",
            )


class MemoryCollector(ProcessCollector[Row], ABC):
    """A gauge of each process, made of one file of /proc/<pid>.

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
        for process in () if target.launched else self.followed.processes:
            try:
                process.source.read()
            except ProcessGone as gone:
                raise MachineRefused(str(gone)) from None

    def open_source(self, pid: int, tid: int | None) -> ParsedFile[Row]:
        """Open the process's file."""
        walks = self.walks_mappings
        file = ProcessFile(self.context.sysroot, pid, self.file, tid=tid, many_records=walks, bound_to_memory=walks)
        return ParsedFile(self.file, file, self.parse)
