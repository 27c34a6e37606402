"""mem.cgroup: what a cgroup and everything below it is charged, on either hierarchy."""

from __future__ import annotations

from abc import ABC, abstractmethod

from omn_kernel.cgroup import CgroupPlace
from omn_kernel.cgroup_accounts import parse_limit
from omn_kernel.procfs.machine import parse_flat_keyed

from omn_core.api import Batch, BoundTarget, CollectorBase, MachineRefused
from omn_mem.cgroup_files import CgroupFiles, get_place, make_cgroup_key

Amounts = dict[str, int | None]


class CgroupCollector(CollectorBase, ABC):
    """A gauge of one cgroup, from the files of the hierarchy that carries the memory controller for it."""

    reads_at_open = True

    files: tuple[str, ...]
    usage: str

    @abstractmethod
    def find_folder(self, place: CgroupPlace) -> str | None:
        """Return the cgroup's folder in this hierarchy, None where it has none."""

    @abstractmethod
    def select(self, contents: dict[str, bytes]) -> Amounts:
        """Return the amounts that the files hold, None for what is absent."""

    def attach(self, target: BoundTarget) -> None:
        """Open the cgroup's files. Raises MachineRefused where this hierarchy does not account its memory."""
        place = get_place(target)
        folder = self.find_folder(place)
        self._files = CgroupFiles(folder or "/nonexistent", self.files)
        if self.usage not in self._files:
            raise MachineRefused(
                f"cgroup {place.path!r} has no {self.usage}: its memory is not accounted on this hierarchy",
                "name it below the root of the hierarchies, or by its folder where the memory controller is",
            )
        self._keys = make_cgroup_key(place, self.context.names)

    def sample(self, now_ns: int) -> Batch:
        """Read every file once. Raises TargetGone when the cgroup was removed."""
        before = self.context.clock()
        contents = self._files.read()
        span = (before, self.context.clock())
        attributes = {name: [value] for name, value in self.select(contents).items() if value is not None}
        return Batch.of_reading(span, self.context.names, self._keys, attributes)

    def stop(self) -> Batch:
        """Close the files."""
        self._files.close()
        return Batch.empty()


def _number(contents: dict[str, bytes], name: str) -> int | None:
    return int(contents[name]) if name in contents else None


def _limit(contents: dict[str, bytes], name: str) -> int | None:
    return parse_limit(contents[name]) if name in contents else None


class UnifiedCollector(CgroupCollector):
    """cgroup2: memory.current, which the kernel keeps hierarchically, memory.stat and memory.events."""

    files = ("memory.current", "memory.max", "memory.peak", "memory.swap.current", "memory.stat", "memory.events")
    usage = "memory.current"

    def find_folder(self, place: CgroupPlace) -> str | None:
        """Return the cgroup2 folder."""
        return place.unified

    def select(self, contents: dict[str, bytes]) -> Amounts:
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


class LegacyCollector(CgroupCollector):
    """cgroup v1: memory.usage_in_bytes, and the `total_` lines of memory.stat, which hold what is below too."""

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
    usage = "memory.usage_in_bytes"

    def find_folder(self, place: CgroupPlace) -> str | None:
        """Return the folder of the v1 memory controller."""
        return place.find_legacy_folder("memory")

    def attach(self, target: BoundTarget) -> None:
        """Open the files, and read whether the usage holds what is below."""
        super().attach(target)
        self._is_hierarchical = self._files.read().get("memory.use_hierarchy", b"1").strip() != b"0"

    def select(self, contents: dict[str, bytes]) -> Amounts:
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
