"""mem.meminfo: the machine's memory by what holds it, from /proc/meminfo."""

from __future__ import annotations

from omn_kernel.polling import MachineFileCollector, Rows
from omn_kernel.procfs.machine import parse_meminfo

FIELDS = {
    "total_bytes": b"MemTotal",
    "free_bytes": b"MemFree",
    "available_bytes": b"MemAvailable",
    "buffers_bytes": b"Buffers",
    "cached_bytes": b"Cached",
    "swap_cached_bytes": b"SwapCached",
    "swap_total_bytes": b"SwapTotal",
    "swap_free_bytes": b"SwapFree",
    "active_bytes": b"Active",
    "inactive_bytes": b"Inactive",
    "dirty_bytes": b"Dirty",
    "writeback_bytes": b"Writeback",
    "anon_bytes": b"AnonPages",
    "mapped_bytes": b"Mapped",
    "shmem_bytes": b"Shmem",
    "slab_bytes": b"Slab",
    "slab_reclaimable_bytes": b"SReclaimable",
    "slab_unreclaimable_bytes": b"SUnreclaim",
    "kernel_stack_bytes": b"KernelStack",
    "page_tables_bytes": b"PageTables",
    "commit_limit_bytes": b"CommitLimit",
    "committed_bytes": b"Committed_AS",
    "hugetlb_bytes": b"Hugetlb",
    "anon_huge_bytes": b"AnonHugePages",
}
"""Each attribute, and the kernel's name for it. Hugetlb is written since Linux 4.15; what is not written is absent."""


class MeminfoCollector(MachineFileCollector):
    """Every field a tick; used is the total less what the kernel estimates to be available without swapping."""

    reads_at_open = True
    path = "/proc/meminfo"

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return the one row."""
        amounts = parse_meminfo(content)
        available = amounts.get(b"MemAvailable")
        used = None if available is None else amounts[b"MemTotal"] - available
        return Rows.of_one({"used_bytes": used, **{name: amounts.get(field) for name, field in FIELDS.items()}})
