"""redis.memory: what a server's allocator holds for it (INFO memory)."""

from __future__ import annotations

from collections.abc import Mapping

from omn_core.api import Batch
from omn_redis.info import get_number
from omn_redis.reading import ServerReading, Span

_FIELDS = {
    "used_bytes": "used_memory",
    "peak_bytes": "used_memory_peak",
    "rss_bytes": "used_memory_rss",
    "dataset_bytes": "used_memory_dataset",
    "overhead_bytes": "used_memory_overhead",
}


class Memory(ServerReading):
    """One row a reading, the window's opening included: a level stands for itself."""

    section = "memory"
    reads_at_open = True

    def take_baseline(self, info: Mapping[str, str]) -> None:
        """Refuse a server that does not state its memory, before anything runs."""
        get_number(info, _FIELDS["used_bytes"])

    def make_batch(self, span: Span, info: Mapping[str, str]) -> Batch:
        """Return the reading's one row. A figure that an old server does not state is absent."""
        get_number(info, _FIELDS["used_bytes"])
        found = {name: [int(info[field])] for name, field in _FIELDS.items() if field in info}
        return Batch.of_reading(span, self.context.names, {}, found)
