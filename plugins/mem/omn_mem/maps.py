"""mem.maps: what each mapping of a process holds, from /proc/<pid>/smaps."""

from __future__ import annotations

from collections.abc import Sequence

from omn_kernel.followed import Round
from omn_kernel.polling import Rows
from omn_kernel.procfs.memory import Mapping, parse_smaps

from omn_mem.processes import MemoryCollector

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


class MapsCollector(MemoryCollector[list[Mapping]]):
    """A row for each mapping of each process."""

    file = "smaps"
    walks_mappings = True

    def parse(self, content: bytes) -> list[Mapping] | None:
        """Return every mapping, None where there is none: the process has no memory any more."""
        return list(parse_smaps(content)) or None

    def tells_apart(self) -> bool:
        """Tell each process apart: a mapping is one's own."""
        return True

    def add_up(self, rows: Sequence[list[Mapping]]) -> list[Mapping]:
        """Return the mappings of several processes."""
        return [mapping for row in rows for mapping in row]

    def make_rows(self, content: Round[list[Mapping]], at_ns: int) -> Rows:
        """Return the rows, each under the key of its process and of what it maps."""
        mappings = [mapping for row in content.rows for mapping in row]
        owners = [process for process, row in zip(content.processes, content.rows, strict=True) for _ in row]
        keys, named = self.identify(owners)
        amounts = {name: [mapping.amounts.get(field) for mapping in mappings] for name, field in AMOUNTS.items()}
        private = [mapping.amounts[b"Private_Clean"] + mapping.amounts[b"Private_Dirty"] for mapping in mappings]
        return Rows(
            {**keys, "mapping": [mapping.name or None for mapping in mappings]},
            {
                **amounts,
                "private_bytes": private,
                "address": [mapping.start for mapping in mappings],
                "permissions": [mapping.permissions for mapping in mappings],
                **named,
            },
        )
