"""mem.thp: transparent huge pages given, refused and split, by their size."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

from omn_kernel.counters import Counters
from omn_kernel.polled import PolledFile, place
from omn_kernel.procfs.machine import parse_flat_keyed
from omn_kernel.sysfs import find_huge_page_folders, read_pmd_page_bytes

from omn_core.api import Batch, BoundTarget, CollectorBase, MachineRefused

COUNTERS = {
    "fault_alloc": ("anon_fault_alloc", b"thp_fault_alloc"),
    "fault_fallback": ("anon_fault_fallback", b"thp_fault_fallback"),
    "fault_fallback_charge": ("anon_fault_fallback_charge", b"thp_fault_fallback_charge"),
    "shmem_alloc": ("shmem_alloc", b"thp_file_alloc"),
    "shmem_fallback": ("shmem_fallback", b"thp_file_fallback"),
    "shmem_fallback_charge": ("shmem_fallback_charge", b"thp_file_fallback_charge"),
    "swpout": ("swpout", b"thp_swpout"),
    "swpout_fallback": ("swpout_fallback", b"thp_swpout_fallback"),
    "split": ("split", b"thp_split_page"),
    "split_failed": ("split_failed", b"thp_split_page_failed"),
    "split_deferred": ("split_deferred", b"thp_deferred_split_page"),
}
"""Each attribute: its file under a size's stats, and the vmstat counter the kernel raises with it for the largest."""

_Reading = dict[tuple[int, str], int]


class HugePageCollector(CollectorBase, ABC):
    """One row for each size an interval: how much each counter grew. One that this kernel lacks is absent."""

    @abstractmethod
    def read(self) -> _Reading:
        """Read every counter of every size."""

    def begin(self) -> None:
        """Read the counters as they stand."""
        self._before = Counters(self.read())

    def sample(self, now_ns: int) -> Batch:
        """Return the growth since the last reading."""
        before = self.context.clock()
        grown = self._before.advance(self.read())
        span = (before, self.context.clock())
        sizes = list(dict.fromkeys(size for size, _ in grown))
        names = list(dict.fromkeys(name for _, name in grown))
        attributes = {name: [grown.get((size, name)) for size in sizes] for name in names}
        return Batch.of_reading(span, self.context.names, {"size": sizes}, attributes)

    def facts(self) -> tuple[str, ...]:
        """Say that a counter stepped back, if one did."""
        return self._before.facts()


class SizesCollector(HugePageCollector):
    """The counters of /sys/kernel/mm/transparent_hugepage/hugepages-*kB/stats (Linux 6.8 and later)."""

    def attach(self, target: BoundTarget) -> None:
        """Open the counters of every size."""
        self._files = {
            (size, name): PolledFile(f"{folder}/{file}", size=64)
            for size, folder in find_huge_page_folders(self.context.sysroot).items()
            for name, (file, _) in COUNTERS.items()
            if os.path.exists(f"{folder}/{file}")
        }
        if not self._files:
            raise MachineRefused("this kernel counts no huge pages by size")
        self.begin()

    def read(self) -> _Reading:
        """Read every file."""
        return {place: int(file.read()) for place, file in self._files.items()}

    def stop(self) -> Batch:
        """Close the files."""
        for file in self._files.values():
            file.close()
        return Batch.empty()


class VmstatCollector(HugePageCollector):
    """The same counters for pages of one page middle directory, from /proc/vmstat."""

    def attach(self, target: BoundTarget) -> None:
        """Open the file, and read the size its counters are about."""
        self._size = read_pmd_page_bytes(self.context.sysroot)
        self._file = PolledFile(place(self.context.sysroot, "/proc/vmstat"), many_records=True)
        self.begin()
        if not self.read():
            raise MachineRefused("this kernel is built without transparent huge pages: /proc/vmstat has no thp_ line")

    def read(self) -> _Reading:
        """Read the counters that this kernel has."""
        counters = parse_flat_keyed(self._file.read())
        return {(self._size, name): counters[line] for name, (_, line) in COUNTERS.items() if line in counters}

    def stop(self) -> Batch:
        """Close the file."""
        self._file.close()
        return Batch.empty()
