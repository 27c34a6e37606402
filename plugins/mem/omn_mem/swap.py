"""mem.swap: bytes moved to and from swap, of the machine and of a cgroup."""

from __future__ import annotations

from abc import ABC, abstractmethod

from omn_kernel.counters import Counters
from omn_kernel.polled import PolledFile, place
from omn_kernel.procfs.machine import parse_flat_keyed
from omn_kernel.procfs.task import PAGE_BYTES

from omn_core.api import Batch, BoundTarget, CollectorBase, Column, MachineRefused
from omn_mem.cgroup_files import CgroupFiles, get_place, make_cgroup_key

_COUNTERS = {"read": b"pswpin", "write": b"pswpout"}
"""Each direction, as the swap device sees it, and the kernel's count of pages."""


class SwapCollector(CollectorBase, ABC):
    """Two rows an interval: pages read from swap and written to it, each a page of the machine's size."""

    @abstractmethod
    def read(self) -> dict[bytes, int]:
        """Read the counters. Raises TargetGone where what they are about is gone."""

    def begin(self, keys: dict[str, Column]) -> None:
        """Keep the keys of both rows, and read the counters as they stand."""
        self._keys = keys | {"dir": Column.of(list(_COUNTERS), self.context.names)}
        self._before = Counters(self.read())

    def sample(self, now_ns: int) -> Batch:
        """Return what moved since the last reading."""
        before = self.context.clock()
        grown = self._before.advance(self.read())
        span = (before, self.context.clock())
        pages = [grown[name] for name in _COUNTERS.values()]
        attributes = {"swapped_bytes": [count * PAGE_BYTES for count in pages], "swapped_pages": pages}
        return Batch.of_reading(span, self.context.names, self._keys, attributes)

    def facts(self) -> tuple[str, ...]:
        """Say that a counter stepped back, if one did."""
        return self._before.facts()


class MachineSwapCollector(SwapCollector):
    """The machine's flow, from /proc/vmstat."""

    def attach(self, target: BoundTarget) -> None:
        """Open the file. A kernel built without swap writes no counters and is refused."""
        self._file = PolledFile(place(self.context.sysroot, "/proc/vmstat"), many_records=True)
        self.begin({})

    def read(self) -> dict[bytes, int]:
        """Read both counters."""
        counters = parse_flat_keyed(self._file.read())
        if b"pswpin" not in counters:
            raise MachineRefused("this kernel is built without swap: /proc/vmstat has no pswpin")
        return {name: counters[name] for name in _COUNTERS.values()}

    def stop(self) -> Batch:
        """Close the file."""
        self._file.close()
        return Batch.empty()


class CgroupSwapCollector(SwapCollector):
    """The flow of a cgroup and everything below it, from memory.stat, which has it on recent kernels."""

    def attach(self, target: BoundTarget) -> None:
        """Open the file. A cgroup whose memory.stat is missing or lacks the counters is refused."""
        found = get_place(target)
        self._path = found.path
        self._files = CgroupFiles(found.unified or "/nonexistent", ("memory.stat",))
        self.begin(make_cgroup_key(found, self.context.names, len(_COUNTERS)))

    def read(self) -> dict[bytes, int]:
        """Read both counters."""
        counters = parse_flat_keyed(self._files.read().get("memory.stat", b""))
        if b"pswpin" not in counters:
            raise MachineRefused(
                f"cgroup {self._path!r} has no pswpin in a memory.stat: it has no cgroup2 memory controller, "
                "or this kernel does not count swapping by cgroup"
            )
        return {name: counters[name] for name in _COUNTERS.values()}

    def stop(self) -> Batch:
        """Close the file."""
        self._files.close()
        return Batch.empty()
