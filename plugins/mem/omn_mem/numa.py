"""mem.numa: what the machine and a process hold on each memory node."""

from __future__ import annotations

from omn_kernel.counters import Counters
from omn_kernel.polled import PolledFile, place
from omn_kernel.procfs.machine import parse_flat_keyed
from omn_kernel.procfs.memory import parse_numa_maps
from omn_kernel.sysfs import parse_node_meminfo, read_nodes

from omn_core.api import Batch, BoundTarget, CollectorBase, Column, Losses, MachineRefused
from omn_mem.processes import FollowedProcesses, is_asked

_FOLDER = "/sys/devices/system/node/node{}"
AMOUNTS = {
    "node_bytes": b"MemUsed",
    "total_bytes": b"MemTotal",
    "free_bytes": b"MemFree",
    "anon_bytes": b"AnonPages",
    "file_bytes": b"FilePages",
}
"""Each attribute of a node, and the kernel's name for it."""

ALLOCATIONS = {
    "hit_pages": b"numa_hit",
    "miss_pages": b"numa_miss",
    "foreign_pages": b"numa_foreign",
    "local_pages": b"local_node",
    "other_pages": b"other_node",
}
"""Each allocation counter of a node's numastat (Documentation/admin-guide/numastat)."""


class NodesCollector(CollectorBase):
    """A row for each memory node: what it holds, and the pages allocated on it in the interval."""

    reads_at_open = True

    def attach(self, target: BoundTarget) -> None:
        """Open the files of every node that is online, and read the counters as they stand."""
        try:
            self._nodes = list(read_nodes(self.context.sysroot))
        except FileNotFoundError:
            raise MachineRefused("this kernel is built without memory nodes (CONFIG_NUMA)") from None
        folders = [place(self.context.sysroot, _FOLDER.format(node)) for node in self._nodes]
        self._amounts = [PolledFile(f"{folder}/meminfo") for folder in folders]
        self._allocations = [PolledFile(f"{folder}/numastat") for folder in folders]
        self._before = Counters(self._read_allocations())

    def _read_allocations(self) -> dict[tuple[int, bytes], int]:
        return {
            (node, name): value
            for node, file in zip(self._nodes, self._allocations, strict=True)
            for name, value in parse_flat_keyed(file.read()).items()
        }

    def sample(self, now_ns: int) -> Batch:
        """Read every node once."""
        before = self.context.clock()
        readings = [parse_node_meminfo(file.read()) for file in self._amounts]
        grown = self._before.advance(self._read_allocations())
        span = (before, self.context.clock())
        attributes: dict[str, list[int | None]] = {
            name: [amounts.get(field) for amounts in readings] for name, field in AMOUNTS.items()
        }
        if self.resolved.mode != "snapshot":
            for name, field in ALLOCATIONS.items():
                attributes[name] = [grown.get((node, field)) for node in self._nodes]
        return Batch.of_reading(span, self.context.names, {"node": self._nodes}, attributes)

    def stop(self) -> Batch:
        """Close the files."""
        for file in [*self._amounts, *self._allocations]:
            file.close()
        return Batch.empty()

    def facts(self) -> tuple[str, ...]:
        """Say that a counter stepped back, if one did."""
        return self._before.facts()


class ProcessNodesCollector(CollectorBase):
    """A row for each memory node that a process has pages on, from /proc/<pid>/numa_maps."""

    reads_at_open = True

    def attach(self, target: BoundTarget) -> None:
        """Open nothing yet: the file belongs to the address space, which an execve replaces."""
        self._wants_comm = is_asked(self.resolved, "comm")
        self._followed: FollowedProcesses[dict[int, int]] = FollowedProcesses(
            target, self.context, "numa_maps", _parse_nodes, many_records=True, bound_to_memory=True
        )
        if not target.launched:
            self._followed.check_readable()

    def sample(self, now_ns: int) -> Batch:
        """Read every process once. Raises TargetGone when none has memory any more."""
        reading = self._followed.read()
        rows = [
            (file, node, held)
            for file, nodes in zip(reading.files, reading.rows, strict=True)
            for node, held in sorted(nodes.items())
        ]
        if not rows:
            return Batch.empty()
        names = self.context.names
        files = [file for file, _, _ in rows]
        keys = self._followed.keys_of(files) | {"node": Column.of([node for _, node, _ in rows], names)}
        attributes: dict[str, list[int | bytes | None]] = {
            "node_bytes": [held for _, _, held in rows],
            "pid": [file.pid for file in files],
        }
        if self._wants_comm:
            comms = dict(zip(reading.files, self._followed.read_comms(reading.files), strict=True))
            attributes["comm"] = [comms[file] for file in files]
        return Batch.of_reading(reading.span, names, keys, attributes)

    def stop(self) -> Batch:
        """Let go of the processes."""
        self._followed.close()
        return Batch.empty()

    def losses(self) -> Losses:
        """Return the reads that failed while their process ran."""
        return self._followed.losses()


def _parse_nodes(content: bytes) -> dict[int, int] | None:
    return parse_numa_maps(content) if content else None
