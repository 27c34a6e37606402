"""mem.slab: memory in the kernel's slab caches."""

from __future__ import annotations

from omn_kernel.polled import PolledFile, place
from omn_kernel.procfs.machine import parse_meminfo
from omn_kernel.procfs.memory import SlabCache, parse_slabinfo
from omn_kernel.procfs.task import PAGE_BYTES

from omn_core.api import Batch, BoundTarget, CollectorBase, MachineRefused
from omn_mem.processes import is_asked


def compute_slab_bytes(cache: SlabCache) -> int:
    """Compute the memory of a cache: every slab's pages, whether its objects are in use or not."""
    return cache.slabs * cache.pages_per_slab * PAGE_BYTES


class CachesCollector(CollectorBase):
    """A row for each cache of /proc/slabinfo; polled and not divided by cache, one row for all of them.

    The readings of one instant add up over the caches and those of several instants do not, so that a series over
    time must not mix the caches.
    """

    reads_at_open = True

    def attach(self, target: BoundTarget) -> None:
        """Open the file, which the kernel keeps for root."""
        resolved = self.resolved
        self._divides = resolved.mode == "snapshot" or is_asked(resolved, "cache")
        try:
            self._file = PolledFile(place(self.context.sysroot, "/proc/slabinfo"), many_records=True, size=1 << 16)
        except PermissionError:
            raise MachineRefused("/proc/slabinfo is closed to this user", "run omn as root") from None

    def sample(self, now_ns: int) -> Batch:
        """Read every cache once."""
        before = self.context.clock()
        content = self._file.read()
        span = (before, self.context.clock())
        caches = parse_slabinfo(content)
        rows = {
            "slab_bytes": [compute_slab_bytes(cache) for cache in caches],
            "active_bytes": [cache.active_objects * cache.object_bytes for cache in caches],
            "active_objects": [cache.active_objects for cache in caches],
            "objects": [cache.objects for cache in caches],
        }
        if not self._divides:
            totals = {name: [sum(values)] for name, values in rows.items()}
            return Batch.of_reading(span, self.context.names, {}, totals)
        rows["object_bytes"] = [cache.object_bytes for cache in caches]
        return Batch.of_reading(span, self.context.names, {"cache": [cache.name for cache in caches]}, rows)

    def stop(self) -> Batch:
        """Close the file."""
        self._file.close()
        return Batch.empty()


class TotalsCollector(CollectorBase):
    """One total from the Slab line of /proc/meminfo, which anyone may read."""

    reads_at_open = True

    def attach(self, target: BoundTarget) -> None:
        """Open the file."""
        self._file = PolledFile(place(self.context.sysroot, "/proc/meminfo"))

    def sample(self, now_ns: int) -> Batch:
        """Read the total once."""
        before = self.context.clock()
        content = self._file.read()
        span = (before, self.context.clock())
        return Batch.of_reading(span, self.context.names, {}, {"slab_bytes": [parse_meminfo(content)[b"Slab"]]})

    def stop(self) -> Batch:
        """Close the file."""
        self._file.close()
        return Batch.empty()
