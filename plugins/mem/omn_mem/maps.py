"""mem.maps: what each mapping of a process holds, from /proc/<pid>/smaps."""

from __future__ import annotations

from omn_kernel.procfs.memory import Mapping, parse_smaps

from omn_core.api import Batch, BoundTarget, CollectorBase, Column, Losses
from omn_mem.processes import FollowedProcesses, is_asked

AMOUNTS = {
    "rss_bytes": b"Rss",
    "size_bytes": b"Size",
    "pss_bytes": b"Pss",
    "anonymous_bytes": b"Anonymous",
    "huge_bytes": b"AnonHugePages",
    "swap_bytes": b"Swap",
    "locked_bytes": b"Locked",
}
"""Each attribute, and the kernel's name for it in smaps."""


def parse_mappings(content: bytes) -> list[Mapping] | None:
    """Parse every mapping, None where there is none: the process has no memory any more."""
    return list(parse_smaps(content)) or None


class MapsCollector(CollectorBase):
    """A row for each mapping of each process."""

    reads_at_open = True

    def attach(self, target: BoundTarget) -> None:
        """Open nothing yet: the file belongs to the address space, which an execve replaces."""
        self._wants_comm = is_asked(self.resolved, "comm")
        self._followed: FollowedProcesses[list[Mapping]] = FollowedProcesses(
            target, self.context, "smaps", parse_mappings, many_records=True, bound_to_memory=True
        )
        if not target.launched:
            self._followed.check_readable()

    def sample(self, now_ns: int) -> Batch:
        """Read every mapping once. Raises TargetGone when no process has memory any more."""
        reading = self._followed.read()
        mappings = [mapping for row in reading.rows for mapping in row]
        if not mappings:
            return Batch.empty()
        names = self.context.names
        owners = [file for file, row in zip(reading.files, reading.rows, strict=True) for _ in row]
        keys = self._followed.keys_of(owners)
        keys = keys | {"mapping": Column.of([mapping.name or None for mapping in mappings], names)}
        attributes: dict[str, list[int | bytes | None]] = {
            name: [mapping.amounts.get(field) for mapping in mappings] for name, field in AMOUNTS.items()
        }
        attributes["private_bytes"] = [
            mapping.amounts[b"Private_Clean"] + mapping.amounts[b"Private_Dirty"] for mapping in mappings
        ]
        attributes["address"] = [mapping.start for mapping in mappings]
        attributes["permissions"] = [mapping.permissions for mapping in mappings]
        attributes["pid"] = [file.pid for file in owners]
        if self._wants_comm:
            comms = dict(zip(reading.files, self._followed.read_comms(reading.files), strict=True))
            attributes["comm"] = [comms[file] for file in owners]
        return Batch.of_reading(reading.span, names, keys, attributes)

    def stop(self) -> Batch:
        """Let go of the processes."""
        self._followed.close()
        return Batch.empty()

    def losses(self) -> Losses:
        """Return the reads that failed while their process ran."""
        return self._followed.losses()
