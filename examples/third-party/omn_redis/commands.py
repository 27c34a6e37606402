"""redis.commands: what a server ran, by the command's name (INFO commandstats)."""

from __future__ import annotations

from collections.abc import Mapping

from omn_core.api import Batch
from omn_redis.info import CommandCount, parse_commands
from omn_redis.reading import ServerReading, Span

_INFO = "info"
_NOTHING = CommandCount(0, 0, 0, 0)


class Commands(ServerReading):
    """Calls of each command since the last reading, one row for each command that ran.

    The server counts an INFO once it has answered it, so a reading holds every INFO of this collector but the one it
    asks with; those are taken out of the row of `info`, their time with them where it was theirs alone.
    """

    section = "commandstats"
    _last: Mapping[str, CommandCount] = {}

    def take_baseline(self, info: Mapping[str, str]) -> None:
        """Keep the counts at the opening of the window."""
        self._last = parse_commands(info)

    def make_batch(self, span: Span, info: Mapping[str, str]) -> Batch:
        """Return a row for each command that was called, failed or was rejected in the interval."""
        now = parse_commands(info)
        last, self._last = self._last, now
        if any(name not in now or now[name].calls < count.calls for name, count in last.items()):
            self.note_reset("the counts of its commands")
            return Batch.empty()
        grown = {name: _subtract(count, last.get(name, _NOTHING)) for name, count in now.items()}
        self._leave_out_own(grown)
        rows = {name: count for name, count in grown.items() if count.calls or count.failed or count.rejected}
        if not rows:
            return Batch.empty()
        return Batch.of_reading(
            span,
            self.context.names,
            {"redis.command": list(rows)},
            {
                "calls": [count.calls for count in rows.values()],
                "exec_ns": [count.exec_ns for count in rows.values()],
                "failed": [count.failed for count in rows.values()],
                "rejected": [count.rejected for count in rows.values()],
                "command": list(rows),
            },
        )

    def _leave_out_own(self, grown: dict[str, CommandCount]) -> None:
        """Take this collector's own INFO out: one a reading, the one that found the server at the first."""
        own = grown.get(_INFO)
        if own is None:
            return
        calls = max(own.calls - 1, 0)
        grown[_INFO] = CommandCount(calls, own.exec_ns if calls else 0, own.failed, own.rejected)


def _subtract(now: CommandCount, then: CommandCount) -> CommandCount:
    failed = None if now.failed is None else now.failed - (then.failed or 0)
    rejected = None if now.rejected is None else now.rejected - (then.rejected or 0)
    return CommandCount(now.calls - then.calls, now.exec_ns - then.exec_ns, failed, rejected)
