"""mem.cgroup: what a cgroup and everything below it is charged, on either hierarchy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from omn_kernel.cgroup import UNIFIED
from omn_kernel.cgroup_accounts import parse_limit
from omn_kernel.cgroup_files import CgroupCollector
from omn_kernel.polling import Rows
from omn_kernel.procfs.machine import parse_flat_keyed

from omn_core.api import BoundTarget

Contents = Mapping[str, bytes]


class ChargeCollector(CgroupCollector, ABC):
    """A gauge of one cgroup, from the files of the hierarchy that carries the memory controller for it."""

    reads_at_open = True
    without = "its memory is not accounted on this hierarchy"

    @abstractmethod
    def select(self, contents: Contents) -> dict[str, int | None]:
        """Return the amounts that the files hold, None for what is absent."""

    def make_rows(self, content: Contents, at_ns: int) -> Rows:
        """Return the one row."""
        return Rows.of_one(self.select(content), self.keys)


def _number(contents: Contents, name: str) -> int | None:
    return int(contents[name]) if name in contents else None


def _limit(contents: Contents, name: str) -> int | None:
    return parse_limit(contents[name]) if name in contents else None


class UnifiedCollector(ChargeCollector):
    """cgroup2: memory.current, which the kernel keeps hierarchically, memory.stat and memory.events."""

    hierarchy = UNIFIED
    files = ("memory.current", "memory.max", "memory.peak", "memory.swap.current", "memory.stat", "memory.events")

    def select(self, contents: Contents) -> dict[str, int | None]:
        """Return the amounts. memory.peak is written since Linux 5.19, `kernel` in memory.stat since 5.18."""
        stat = parse_flat_keyed(contents.get("memory.stat", b""))
        events = parse_flat_keyed(contents.get("memory.events", b""))
        return {
            "usage_bytes": _number(contents, "memory.current"),
            "limit_bytes": _limit(contents, "memory.max"),
            "peak_bytes": _number(contents, "memory.peak"),
            "anon_bytes": stat.get(b"anon"),
            "file_bytes": stat.get(b"file"),
            "shmem_bytes": stat.get(b"shmem"),
            "kernel_bytes": stat.get(b"kernel"),
            "swap_bytes": _number(contents, "memory.swap.current"),
            "limit_events": events.get(b"max"),
            "oom_kills": events.get(b"oom_kill"),
        }


class LegacyCollector(ChargeCollector):
    """cgroup v1: memory.usage_in_bytes, and the `total_` lines of memory.stat, which hold what is below too."""

    hierarchy = "memory"
    files = (
        "memory.usage_in_bytes",
        "memory.limit_in_bytes",
        "memory.max_usage_in_bytes",
        "memory.kmem.usage_in_bytes",
        "memory.failcnt",
        "memory.oom_control",
        "memory.stat",
        "memory.use_hierarchy",
    )

    def open_files(self, target: BoundTarget) -> None:
        """Open the files, and read whether the usage holds what is below."""
        super().open_files(target)
        self._is_hierarchical = self.read().get("memory.use_hierarchy", b"1").strip() != b"0"

    def select(self, contents: Contents) -> dict[str, int | None]:
        """Return the amounts. rss is anonymous memory and cache the page cache, shared memory in it, as in cgroup2."""
        stat = parse_flat_keyed(contents.get("memory.stat", b""))
        kills = parse_flat_keyed(contents.get("memory.oom_control", b""))
        return {
            "usage_bytes": _number(contents, "memory.usage_in_bytes"),
            "limit_bytes": _limit(contents, "memory.limit_in_bytes"),
            "peak_bytes": _number(contents, "memory.max_usage_in_bytes"),
            "anon_bytes": stat.get(b"total_rss"),
            "file_bytes": stat.get(b"total_cache"),
            "shmem_bytes": stat.get(b"total_shmem"),
            "kernel_bytes": _number(contents, "memory.kmem.usage_in_bytes"),
            "swap_bytes": stat.get(b"total_swap"),
            "charges_failed": _number(contents, "memory.failcnt"),
            "oom_kills": kills.get(b"oom_kill"),
        }

    def degradations(self) -> tuple[str, ...]:
        """Say that usage leaves out what is below, where the hierarchy is set so (only before Linux 5.11)."""
        if self._is_hierarchical:
            return ()
        return ("usage, limit and peak are this cgroup's alone: memory.use_hierarchy is 0",)
