"""io.syscall and io.fsync: calls that move bytes, and calls that wait until bytes are safe."""

from __future__ import annotations

from omn_kernel.bpf.choosing import ChosenCollector

from omn_core.api import ResolvedRequest
from omn_io.file_calls import FileCallRecords, FileCallRows
from omn_io.programs.file_calls import READ, WRITE, CallKind

TRANSFERS = {
    **dict.fromkeys(("read", "pread64", "readv", "preadv", "preadv2"), CallKind(READ)),
    **dict.fromkeys(("write", "pwrite64", "writev", "pwritev", "pwritev2"), CallKind(WRITE)),
    **dict.fromkeys(("sendfile", "sendfile64"), CallKind(WRITE, second=1)),
    **dict.fromkeys(("copy_file_range", "splice"), CallKind(READ, second=2)),
}
SYNCS = {
    **dict.fromkeys(("fsync", "fdatasync", "sync_file_range", "syncfs"), CallKind()),
    **dict.fromkeys(("sync", "msync"), CallKind(has_file=False)),
}


class Transfers(ChosenCollector):
    """Each call that reads or writes, or the sums of them."""

    def choose(self, resolved: ResolvedRequest) -> FileCallRecords | FileCallRows:
        """Choose sums in the kernel for a count that no stacks divide."""
        adds_up = resolved.mode == "count" and not resolved.stack_keys
        self.reads_between = not adds_up
        return FileCallRows(TRANSFERS) if adds_up else FileCallRecords(TRANSFERS)


class Syncs(FileCallRecords):
    """Each call that waits for bytes to reach a device."""

    def __init__(self) -> None:
        super().__init__(SYNCS)
