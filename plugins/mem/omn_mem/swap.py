"""mem.swap: bytes moved to and from swap, of the machine and of a cgroup."""

from __future__ import annotations

from collections.abc import Mapping

from omn_kernel.cgroup import UNIFIED
from omn_kernel.cgroup_files import CgroupCollector
from omn_kernel.counters import Accounts, Misses
from omn_kernel.polling import MachineFileCollector, Rows
from omn_kernel.procfs.machine import parse_flat_keyed
from omn_kernel.procfs.task import PAGE_BYTES

from omn_core.api import BoundTarget, MachineRefused

_COUNTERS = {"read": "pswpin", "write": "pswpout"}
"""Each direction, as the swap device sees it, and the kernel's count of pages."""

_NO_COUNTERS = "it has no cgroup2 memory controller, or this kernel does not count swapping by cgroup"


class SwapAccounts:
    """The rows of an interval: pages read from swap and pages written to it, each a page of the machine's size."""

    def __init__(self, whose: str, misses: Misses) -> None:
        self._accounts: Accounts[str] = Accounts(misses, lambda _: whose)

    def make_rows(self, counters: Mapping[bytes, int], at_ns: int, cgroup: str | None = None) -> Rows:
        """Return a row for each direction; one whose counter stepped back has none."""
        readings = {way: {name: counters[name.encode()]} for way, name in _COUNTERS.items()}
        grown = self._accounts.advance(readings, at_ns)
        if not grown:
            return Rows()
        pages = [growth.by[_COUNTERS[way]] for way, growth in grown.items()]
        keys = {"dir": list(grown)} | ({} if cgroup is None else {"cgroup": [cgroup] * len(grown)})
        return Rows(keys, {"swapped_bytes": [count * PAGE_BYTES for count in pages], "swapped_pages": pages})


class MachineSwapCollector(MachineFileCollector):
    """The machine's flow, from /proc/vmstat."""

    path = "/proc/vmstat"
    many_records = True

    def open_files(self, target: BoundTarget) -> None:
        """Open the file."""
        super().open_files(target)
        self._accounts = SwapAccounts("the machine", self.misses)

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return both directions. Raises MachineRefused on a kernel built without swap, which writes no counters."""
        counters = parse_flat_keyed(content)
        if b"pswpin" not in counters:
            raise MachineRefused("this kernel is built without swap: /proc/vmstat has no pswpin")
        return self._accounts.make_rows(counters, at_ns)


class CgroupSwapCollector(CgroupCollector):
    """The flow of a cgroup and everything below it, from memory.stat, which has it on recent kernels."""

    hierarchy = UNIFIED
    files = ("memory.stat",)
    without = _NO_COUNTERS

    def open_files(self, target: BoundTarget) -> None:
        """Open the file."""
        super().open_files(target)
        self._accounts = SwapAccounts(f"cgroup {self.place.path}", self.misses)

    def make_rows(self, content: Mapping[str, bytes], at_ns: int) -> Rows:
        """Return both directions. Raises MachineRefused for a cgroup whose memory.stat lacks the counters."""
        counters = parse_flat_keyed(content["memory.stat"])
        if b"pswpin" not in counters:
            raise MachineRefused(f"cgroup {self.place.path!r} has no pswpin in memory.stat: {_NO_COUNTERS}")
        return self._accounts.make_rows(counters, at_ns, self.place.path)
