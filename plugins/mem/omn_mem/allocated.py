"""mem.page_alloc of the machine from /proc/vmstat: the pages that the allocator handed out, all zones together."""

from __future__ import annotations

from omn_kernel.counters import Account
from omn_kernel.polling import MachineFileCollector, Rows
from omn_kernel.procfs.machine import parse_flat_keyed
from omn_kernel.procfs.task import PAGE_BYTES

from omn_core.api import BoundTarget, MachineRefused

_PREFIX = b"pgalloc_"


class MachineAllocations(MachineFileCollector):
    """Bytes alone: how many allocations they were is not counted."""

    path = "/proc/vmstat"

    def open_files(self, target: BoundTarget) -> None:
        """Open the file."""
        super().open_files(target)
        self._account = Account("the machine", self.misses)

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return what was handed out since the last reading. Raises MachineRefused where no zone is counted."""
        zones = [pages for name, pages in parse_flat_keyed(content).items() if name.startswith(_PREFIX)]
        if not zones:
            raise MachineRefused("this kernel does not count pages handed out: /proc/vmstat has no pgalloc")
        growth = self._account.advance({"pgalloc": sum(zones)}, at_ns)
        return Rows() if growth is None else Rows.of_one({"bytes": growth.by["pgalloc"] * PAGE_BYTES})
