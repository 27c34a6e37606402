"""What network namespaces count of TCP themselves, to which what programs saw is held."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from omn_kernel.namespaces import list_networks, run_in_network
from omn_kernel.polled import read_file
from omn_kernel.procfs.net import parse_protocol_pairs

from omn_core.api import MachineRefused

Counters = Mapping[str, int]
_FILES = {"snmp": "Tcp", "netstat": "TcpExt"}


class NamespaceCounts:
    """One count of omn's own namespace and of those that have a name, where this user may enter them.

    `compute` makes it of TCP's counters. No file is kept open between two readings: it would keep a namespace that ends
    meanwhile.
    """

    def __init__(self, compute: Callable[[Counters], int]) -> None:
        self._compute = compute
        try:
            self._namespaces = list_networks("/")
        except MachineRefused:  # a kernel without namespaces names none
            self._namespaces = []

    @property
    def inodes(self) -> list[int]:
        """The namespaces, as the kernel numbers them."""
        return [namespace.inode for namespace in self._namespaces]

    def read(self) -> dict[int, int]:
        """Read what each counted so far, without one that ended or cannot be entered."""
        counts = {}
        for namespace in self._namespaces:
            try:
                counts[namespace.inode] = self._compute(run_in_network(namespace, _read_tcp))
            except (MachineRefused, OSError):
                continue
        return counts


def _read_tcp() -> Counters:
    """Read TCP's counters of the namespace that this thread is in."""
    counters: dict[str, int] = {}
    for name, protocol in _FILES.items():
        counters |= parse_protocol_pairs(read_file("/", f"/proc/thread-self/net/{name}"))[protocol]
    return counters


def compute_sent_again(counters: Counters) -> int:
    """Compute how many segments were sent again, without those that could not be sent."""
    return counters["RetransSegs"] - counters["TCPRetransFail"]


def compute_taken(counters: Counters) -> int:
    """Compute how many connections were taken."""
    return counters["PassiveOpens"]
