"""mem.slab: memory in the kernel's slab caches."""

from __future__ import annotations

from omn_kernel.polling import MachineFileCollector, Rows
from omn_kernel.procfs.machine import parse_meminfo
from omn_kernel.procfs.memory import SlabCache, parse_slabinfo
from omn_kernel.procfs.task import PAGE_BYTES


def compute_slab_bytes(cache: SlabCache) -> int:
    """Compute the memory of a cache: every slab's pages, whether its objects are in use or not."""
    return cache.slabs * cache.pages_per_slab * PAGE_BYTES


class CachesCollector(MachineFileCollector):
    """A row for each cache of /proc/slabinfo, which the kernel keeps for root.

    Polled and not divided by cache, one row stands for all of them: the readings of one instant add up over the
    caches and those of several instants do not, so that a series over time must not mix the caches. To list the raw
    rows divides nothing: what else is asked with them keeps its meaning.
    """

    reads_at_open = True
    path = "/proc/slabinfo"
    many_records = True

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return a row for each cache, or the one of their sums."""
        caches = parse_slabinfo(content)
        amounts = {
            "slab_bytes": [compute_slab_bytes(cache) for cache in caches],
            "active_bytes": [cache.active_objects * cache.object_bytes for cache in caches],
            "active_objects": [cache.active_objects for cache in caches],
            "objects": [cache.objects for cache in caches],
        }
        if self.resolved.mode != "snapshot" and not self.resolved.is_divided_by("cache"):
            return Rows.of_one({name: sum(values) for name, values in amounts.items()})
        amounts["object_bytes"] = [cache.object_bytes for cache in caches]
        return Rows({"cache": [cache.name for cache in caches]}, amounts)


class TotalsCollector(MachineFileCollector):
    """One total from the Slab line of /proc/meminfo, which anyone may read."""

    reads_at_open = True
    path = "/proc/meminfo"

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return the total."""
        return Rows.of_one({"slab_bytes": parse_meminfo(content)[b"Slab"]})
