"""io.process: what each process read and wrote, from /proc/<pid>/io (proc(5))."""

from __future__ import annotations

from collections.abc import Mapping

from omn_kernel.followed import ParsedFile, Round
from omn_kernel.polling import Rows
from omn_kernel.processes import ProcessCounterCollector
from omn_kernel.procfs.process import ProcessFile, ProcessGone
from omn_kernel.procfs.task import parse_io

from omn_core.api import BoundTarget, MachineRefused

COUNTERS = ("read_bytes", "write_bytes", "cancelled_write_bytes", "rchar", "wchar", "syscr", "syscw")
"""What a row holds of the file, by the kernel's own names."""


class ProcessIo(ProcessCounterCollector):
    """A row for each process in each interval, or for all: what threads and children that ended did included.

    A launched program keeps its counters until it is reaped, so that its closing reading is whole. One of a thread
    holds that thread alone.
    """

    def open_files(self, target: BoundTarget) -> None:
        """Follow the processes. One whose file is closed to this user is refused before anything runs."""
        super().open_files(target)
        for process in () if target.launched else self.followed.named:
            try:
                process.source.read()
            except ProcessGone as gone:
                raise MachineRefused(str(gone)) from None

    def open_source(self, pid: int, tid: int | None) -> ParsedFile[Mapping[str, int]]:
        """Open the file of a process, or of a thread: it has mode 0400, and the kernel asks for ptrace access too."""
        file = ProcessFile(self.context.sysroot, pid, "io", tid=tid, takes=("sys_ptrace", "dac_read_search"))
        return ParsedFile("io", file, parse_io)

    def make_rows(self, content: Round[Mapping[str, int]], at_ns: int) -> Rows:
        """Return what each process, or all of them, did since the last reading."""
        grown = self.advance(content)
        if not grown:
            return Rows()
        keys, named = self.identify(list(grown))
        amounts = {name: [growth.by[name] for growth in grown.values()] for name in COUNTERS}
        whole = [read + write for read, write in zip(amounts["read_bytes"], amounts["write_bytes"], strict=True)]
        return Rows(keys, {"bytes": whole, **amounts, **named})
