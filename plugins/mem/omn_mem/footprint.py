"""mem.rss, mem.pss, mem.uss: what a process keeps in memory, from statm, smaps_rollup and smaps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from omn_kernel.procfs.memory import parse_smaps_rollup, parse_smaps_total
from omn_kernel.procfs.task import PAGE_BYTES, parse_statm

from omn_core.api import Batch, BoundTarget, CollectorBase, Column, Losses
from omn_mem.processes import FollowedProcesses, is_asked

Amounts = tuple[int | None, ...]


class FootprintCollector(CollectorBase, ABC):
    """A gauge of each process: one file read a tick, its amounts in the order of `attributes`."""

    reads_at_open = True

    file: str
    attributes: tuple[str, ...]
    walks_mappings = False

    @abstractmethod
    def parse(self, content: bytes) -> Amounts | None:
        """Return the amounts, None where the file says that the process has no memory any more."""

    def attach(self, target: BoundTarget) -> None:
        """Open each process's file. One closed to this user, and a kernel thread, are refused."""
        self._wants_comm = is_asked(self.resolved, "comm")
        self._followed: FollowedProcesses[Amounts] = FollowedProcesses(
            target,
            self.context,
            self.file,
            self.parse,
            many_records=self.walks_mappings,
            bound_to_memory=self.walks_mappings,
        )
        if not target.launched:
            self._followed.check_readable()

    def sample(self, now_ns: int) -> Batch:
        """Read every process once. Raises TargetGone when none has memory any more."""
        followed = self._followed
        reading = followed.read()
        if not reading.rows:
            return Batch.empty()
        columns = zip(*reading.rows, strict=True)
        names = self.context.names
        attributes = {
            name: Column.of(values, names)
            for name, values in zip(self.attributes, columns, strict=True)
            if any(value is not None for value in values)
        }
        keys = followed.keys_of(reading.files)
        attributes["pid"] = Column.of([file.pid for file in reading.files], names)
        if self._wants_comm:
            attributes["comm"] = Column.of(followed.read_comms(reading.files), names)
        return Batch.of_reading(reading.span, names, keys, attributes)

    def stop(self) -> Batch:
        """Close the files."""
        self._followed.close()
        return Batch.empty()

    def losses(self) -> Losses:
        """Return the reads that failed while their process ran."""
        return self._followed.losses()


class StatmCollector(FootprintCollector):
    """mem.rss from /proc/<pid>/statm: pages of the resident set, and those of them that a file or shm backs."""

    file = "statm"
    attributes = ("rss_bytes", "file_bytes")

    def parse(self, content: bytes) -> Amounts | None:
        """Return both in bytes, None for a process without an address space."""
        size, resident, shared = parse_statm(content)
        return (resident * PAGE_BYTES, shared * PAGE_BYTES) if size else None


class RollupCollector(FootprintCollector):
    """A gauge from the amounts of smaps_rollup, which an ended process leaves empty."""

    file = "smaps_rollup"
    walks_mappings = True
    read_amounts: Callable[[bytes], dict[bytes, int]] = staticmethod(parse_smaps_rollup)

    def parse(self, content: bytes) -> Amounts | None:
        """Return the amounts, None where there are none."""
        amounts = self.read_amounts(content)
        return self.select(amounts) if amounts else None

    @abstractmethod
    def select(self, amounts: dict[bytes, int]) -> Amounts:
        """Return the amounts of this source."""


class ResidentRollupCollector(RollupCollector):
    """mem.rss from smaps_rollup, which counts by walking the page tables what statm keeps counters of."""

    attributes = ("rss_bytes", "file_bytes")

    def select(self, amounts: dict[bytes, int]) -> Amounts:
        """Return the resident set, and what of it is not anonymous."""
        return amounts[b"Rss"], amounts[b"Rss"] - amounts[b"Anonymous"]


class ProportionalCollector(RollupCollector):
    """mem.pss: each page divided by how many processes map it. Kernels before 5.0 do not divide it by kind."""

    attributes = ("pss_bytes", "anon_bytes", "file_bytes", "shmem_bytes", "swap_pss_bytes")

    def select(self, amounts: dict[bytes, int]) -> Amounts:
        """Return the proportional set, its kinds where the kernel writes them, and the share of what is in swap."""
        kinds = (amounts.get(name) for name in (b"Pss_Anon", b"Pss_File", b"Pss_Shmem", b"SwapPss"))
        return amounts[b"Pss"], *kinds


class UniqueCollector(RollupCollector):
    """mem.uss: the pages that no other process maps."""

    attributes = ("uss_bytes", "private_clean_bytes", "private_dirty_bytes", "private_hugetlb_bytes")

    def select(self, amounts: dict[bytes, int]) -> Amounts:
        """Return clean and dirty private pages together and apart, and hugetlbfs pages beside them."""
        clean, dirty = amounts[b"Private_Clean"], amounts[b"Private_Dirty"]
        return clean + dirty, clean, dirty, amounts.get(b"Private_Hugetlb")


class ProportionalMapsCollector(ProportionalCollector):
    """mem.pss from smaps, for kernels before 4.14."""

    file = "smaps"
    read_amounts = staticmethod(parse_smaps_total)


class UniqueMapsCollector(UniqueCollector):
    """mem.uss from smaps, for kernels before 4.14."""

    file = "smaps"
    read_amounts = staticmethod(parse_smaps_total)
