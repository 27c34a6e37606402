"""redis.lookups: keys looked up for reading, found or not (INFO stats)."""

from __future__ import annotations

from collections.abc import Mapping

from omn_core.api import Batch
from omn_redis.info import get_number
from omn_redis.reading import ServerReading, Span

_FIELDS = {
    "hits": "keyspace_hits",
    "misses": "keyspace_misses",
    "expired": "expired_keys",
    "evicted": "evicted_keys",
}


class Lookups(ServerReading):
    """One row a reading: what was counted since the last, zero included, for a zero is a measurement."""

    section = "stats"
    _last: Mapping[str, int] = dict.fromkeys(_FIELDS, 0)

    def take_baseline(self, info: Mapping[str, str]) -> None:
        """Keep the counters at the opening of the window."""
        self._last = _read_counters(info)

    def make_batch(self, span: Span, info: Mapping[str, str]) -> Batch:
        """Return the reading's one row."""
        now = _read_counters(info)
        last, self._last = self._last, now
        grown = {name: now[name] - last[name] for name in _FIELDS}
        if min(grown.values()) < 0:
            self.note_reset("the server's counters")
            return Batch.empty()
        grown["lookups"] = grown["hits"] + grown["misses"]
        return Batch.of_reading(span, self.context.names, {}, {name: [value] for name, value in grown.items()})


def _read_counters(info: Mapping[str, str]) -> dict[str, int]:
    return {name: get_number(info, field) for name, field in _FIELDS.items()}
