"""mem.rss, mem.pss, mem.uss: what a process keeps in memory, from statm, smaps_rollup and smaps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from omn_kernel.followed import Round
from omn_kernel.polling import Rows
from omn_kernel.procfs.memory import parse_smaps_rollup, parse_smaps_total
from omn_kernel.procfs.task import PAGE_BYTES, parse_statm
from omn_kernel.release import parse_release, read_release

from omn_mem.processes import MemoryCollector

Amounts = tuple[int | None, ...]

_ROUGH_FROM, _ROUGH_UNTIL = (6, 2, 0), (6, 16, 0)
"""6.2 made counters of each cpu of the resident set, and 6.16 has statm add them exactly; no file tells which it is."""


class FootprintCollector(MemoryCollector[Amounts], ABC):
    """A gauge of each process: one file read a tick, its amounts in the order of `attributes`."""

    attributes: tuple[str, ...]

    def add_up(self, rows: Sequence[Amounts]) -> Amounts:
        """Return the sum of each amount; one that the kernel does not write stays absent."""
        return tuple(
            None if any(one is None for one in amounts) else sum(one or 0 for one in amounts)
            for amounts in zip(*rows, strict=True)
        )

    def make_rows(self, content: Round[Amounts], at_ns: int) -> Rows:
        """Return a row for each process, or for all; an amount that the kernel does not write is absent."""
        if not content.rows:
            return Rows()
        keys, named = self.identify(content.processes)
        columns = zip(self.attributes, zip(*content.rows, strict=True), strict=False)
        return Rows(keys, {name: values for name, values in columns if any(one is not None for one in values)} | named)


class StatmCollector(FootprintCollector):
    """mem.rss from /proc/<pid>/statm: pages of the resident set, and those of them that a file or shm backs."""

    file = "statm"
    attributes = ("rss_bytes", "file_bytes")

    def parse(self, content: bytes) -> Amounts | None:
        """Return both in bytes, None for a process without an address space."""
        size, resident, shared = parse_statm(content)
        return (resident * PAGE_BYTES, shared * PAGE_BYTES) if size else None

    def facts(self) -> tuple[str, ...]:
        """Say where this kernel's counters are of each cpu apart, which statm adds up only roughly."""
        try:
            release = read_release(self.context.sysroot)
        except OSError:
            return super().facts()
        if not _ROUGH_FROM <= (parse_release(release) or _ROUGH_UNTIL) < _ROUGH_UNTIL:
            return super().facts()
        return (
            *super().facts(),
            f"Linux {release} may keep what is resident for each cpu apart, and statm then adds it up only roughly",
        )


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
