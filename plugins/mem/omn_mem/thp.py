"""mem.thp: transparent huge pages given, refused and split, by their size."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

from omn_kernel.counters import Accounts
from omn_kernel.polled import place
from omn_kernel.polling import PolledCollector, Rows
from omn_kernel.procfs.machine import parse_flat_keyed
from omn_kernel.sysfs import find_huge_page_folders, read_pmd_page_bytes

from omn_core.api import BoundTarget, MachineRefused

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

Readings = dict[int, dict[str, int]]
"""Every counter of every size."""


class HugePageCollector(PolledCollector[Readings], ABC):
    """One row for each size an interval: how much each counter grew. One that this kernel lacks is absent."""

    def open_files(self, target: BoundTarget) -> None:
        """Open what holds the counters."""
        self._accounts: Accounts[int] = Accounts(self.misses, lambda size: f"huge pages of {size} bytes")
        self.open_counters()

    @abstractmethod
    def open_counters(self) -> None:
        """Open them. Raises MachineRefused where this kernel has none."""

    def make_rows(self, content: Readings, at_ns: int) -> Rows:
        """Return the growth since the last reading."""
        grown = self._accounts.advance(content, at_ns)
        names = dict.fromkeys(name for growth in grown.values() for name in growth.by)
        attributes = {name: [growth.by.get(name) for growth in grown.values()] for name in names}
        return Rows({"size": list(grown)}, attributes)


class SizesCollector(HugePageCollector):
    """The counters of /sys/kernel/mm/transparent_hugepage/hugepages-*kB/stats (Linux 6.8 and later)."""

    def open_counters(self) -> None:
        """Open the counters of every size."""
        self._files = {
            size: {
                name: self.open_file(f"{folder}/{file}", size=64)
                for name, (file, _) in COUNTERS.items()
                if os.path.exists(place(self.context.sysroot, f"{folder}/{file}"))
            }
            for size, folder in find_huge_page_folders(self.context.sysroot).items()
        }
        if not any(self._files.values()):
            raise MachineRefused("this kernel counts no huge pages by size")

    def read(self) -> Readings:
        """Read every file."""
        return {size: {name: int(file.read()) for name, file in files.items()} for size, files in self._files.items()}


class VmstatCollector(HugePageCollector):
    """The same counters for pages of one page middle directory, from /proc/vmstat."""

    def open_counters(self) -> None:
        """Open the file, and read the size its counters are about."""
        self._size = read_pmd_page_bytes(self.context.sysroot)
        self._file = self.open_file("/proc/vmstat", many_records=True)
        if not self.read()[self._size]:
            raise MachineRefused("this kernel is built without transparent huge pages: /proc/vmstat has no thp_ line")

    def read(self) -> Readings:
        """Read the counters that this kernel has."""
        counters = parse_flat_keyed(self._file.read())
        return {self._size: {name: counters[line] for name, (_, line) in COUNTERS.items() if line in counters}}
