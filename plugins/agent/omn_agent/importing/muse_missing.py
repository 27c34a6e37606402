"""What Muse's logs lack: events whose numbers are in none, and children that have no log of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from omn_agent.importing.fields import find_count
from omn_agent.importing.session import Session


@attrs.define
class _Log:
    """One file's numbers: of its own stream, and of those that it mirrors."""

    own: set[int] = attrs.field(factory=set)
    mirrored: set[int] = attrs.field(factory=set)
    children: set[str] = attrs.field(factory=set)

    def count_gaps(self) -> int:
        """Return how many numbers between the first and the last of its own are in no event of the file."""
        if not self.own:
            return 0
        first, last = min(self.own), max(self.own)
        others = {number for number in self.mirrored - self.own if first < number < last}
        return last - first + 1 - len(self.own) - len(others)


@attrs.define
class Missing:
    """Takes note of each event of each file, and says in the sessions what is missing.

    Whether a mirrored event has a number of its stream's or of the file's nobody says: those count as if they were the
    file's, so that at least so many events are missing.
    """

    _logs: dict[str, _Log] = attrs.field(factory=dict)

    def note(self, path: Path, record: Mapping[str, Any], stream: str) -> None:
        """Take note of an event."""
        log = self._logs.setdefault(path.parent.name, _Log())
        number = find_count(record, "sequence")
        if stream != path.parent.name:
            log.children.add(stream)
        if number is not None:
            (log.own if stream == path.parent.name else log.mirrored).add(number)

    def tell(self, sessions: Mapping[str, Session]) -> None:
        """Say in each session how many of its events, and how many of its children's logs, are missing."""
        for name, log in self._logs.items():
            counts = {
                "missing_journal_records": log.count_gaps(),
                "unavailable_child_sessions": len(log.children - self._logs.keys()),
            }
            if name in sessions:
                sessions[name].fields |= {what: count for what, count in counts.items() if count}
