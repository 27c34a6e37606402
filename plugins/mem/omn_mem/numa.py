"""mem.numa: what the machine and a process hold on each memory node."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from omn_kernel.counters import Accounts
from omn_kernel.followed import Round
from omn_kernel.polling import PolledCollector, Rows
from omn_kernel.procfs.machine import parse_flat_keyed
from omn_kernel.procfs.memory import parse_numa_maps
from omn_kernel.sysfs import parse_node_meminfo, read_nodes

from omn_core.api import BoundTarget, MachineRefused
from omn_mem.processes import MemoryCollector

_FOLDER = "/sys/devices/system/node/node"
AMOUNTS = {
    "node_bytes": b"MemUsed",
    "total_bytes": b"MemTotal",
    "free_bytes": b"MemFree",
    "anon_bytes": b"AnonPages",
    "file_bytes": b"FilePages",
}
"""Each attribute of a node, and the kernel's name for it."""

ALLOCATIONS = {
    "hit_pages": "numa_hit",
    "miss_pages": "numa_miss",
    "foreign_pages": "numa_foreign",
    "local_pages": "local_node",
    "other_pages": "other_node",
}
"""Each allocation counter of a node's numastat (Documentation/admin-guide/numastat)."""


@attrs.frozen
class Node:
    """What the two files of a memory node say: amounts in bytes, allocations in pages, by the kernel's names."""

    amounts: dict[bytes, int]
    allocations: dict[str, int]


class NodesCollector(PolledCollector[dict[int, Node]]):
    """A row for each memory node: what it holds, and the pages allocated on it in the interval."""

    reads_at_open = True

    def open_files(self, target: BoundTarget) -> None:
        """Open the files of every node that is online, and read the counters as they stand."""
        try:
            nodes = read_nodes(self.context.sysroot)
        except FileNotFoundError:
            raise MachineRefused("this kernel is built without memory nodes (CONFIG_NUMA)") from None
        self._files = {
            node: (self.open_file(f"{_FOLDER}{node}/meminfo"), self.open_file(f"{_FOLDER}{node}/numastat"))
            for node in nodes
        }
        self._accounts: Accounts[int] = Accounts(self.misses, lambda node: f"node {node}")
        self.read_baseline()

    def read(self) -> dict[int, Node]:
        """Read every node."""
        return {node: _parse_node(amounts.read(), counts.read()) for node, (amounts, counts) in self._files.items()}

    def make_rows(self, content: dict[int, Node], at_ns: int) -> Rows:
        """Return the rows; the allocations of a node whose counters stepped back are absent from its row."""
        grown = self._accounts.advance({node: read.allocations for node, read in content.items()}, at_ns)
        attributes: dict[str, list[int | None]] = {
            name: [read.amounts.get(field) for read in content.values()] for name, field in AMOUNTS.items()
        }
        if self.resolved.mode != "snapshot":
            for name, counter in ALLOCATIONS.items():
                attributes[name] = [grown[node].by.get(counter) if node in grown else None for node in content]
        return Rows({"node": list(content)}, attributes)


def _parse_node(meminfo: bytes, numastat: bytes) -> Node:
    allocations = {name.decode(): pages for name, pages in parse_flat_keyed(numastat).items()}
    return Node(parse_node_meminfo(meminfo), allocations)


class ProcessNodesCollector(MemoryCollector[dict[int, int]]):
    """A row for each memory node that processes have pages on, from /proc/<pid>/numa_maps."""

    file = "numa_maps"
    walks_mappings = True

    def parse(self, content: bytes) -> dict[int, int] | None:
        """Return the bytes on each node, None for a process without memory."""
        return parse_numa_maps(content) if content else None

    def add_up(self, rows: Sequence[dict[int, int]]) -> dict[int, int]:
        """Return what several processes hold on each node together."""
        return {node: sum(row.get(node, 0) for row in rows) for node in {node for row in rows for node in row}}

    def make_rows(self, content: Round[dict[int, int]], at_ns: int) -> Rows:
        """Return the rows, each under the key of its process and its node."""
        rows = [
            (process, node, held)
            for process, nodes in zip(content.processes, content.rows, strict=True)
            for node, held in sorted(nodes.items())
        ]
        keys, named = self.identify([process for process, _, _ in rows])
        return Rows(
            {**keys, "node": [node for _, node, _ in rows]}, {"node_bytes": [held for _, _, held in rows], **named}
        )
