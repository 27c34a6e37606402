"""How many segments TCP sent again by the kernel's own counts, which each network namespace has of its own."""

from __future__ import annotations

from omn_kernel.namespaces import list_networks, run_in_network
from omn_kernel.polled import read_file
from omn_kernel.procfs.net import parse_protocol_pairs

from omn_core.api import MachineRefused


class SegmentCounts:
    """The counts of omn's own namespace and of those that have a name, where this user may enter them.

    No file is kept open between two readings: it would keep a namespace that ends meanwhile.
    """

    def __init__(self) -> None:
        try:
            self._namespaces = list_networks("/")
        except MachineRefused:  # a kernel without namespaces names none
            self._namespaces = []

    @property
    def inodes(self) -> list[int]:
        """The namespaces, as the kernel numbers them."""
        return [namespace.inode for namespace in self._namespaces]

    def read(self) -> dict[int, int]:
        """Read how many segments each sent again so far, without one that ended or cannot be entered."""
        counts = {}
        for namespace in self._namespaces:
            try:
                counts[namespace.inode] = run_in_network(namespace, _read_sent)
            except (MachineRefused, OSError):
                continue
        return counts


def _read_sent() -> int:
    """Read RetransSegs of the namespace that this thread is in, without those that could not be sent."""
    counted = parse_protocol_pairs(read_file("/", "/proc/thread-self/net/snmp"))["Tcp"]["RetransSegs"]
    failed = parse_protocol_pairs(read_file("/", "/proc/thread-self/net/netstat"))["TcpExt"]["TCPRetransFail"]
    return counted - failed
