"""What the three collectors share: a server found, asked once a tick, and missed with a reason."""

from __future__ import annotations

import os
import select
from abc import ABC, abstractmethod
from collections.abc import Mapping

from omn_core.api import (
    Batch,
    BoundTarget,
    CollectorBase,
    Losses,
    MachineRefused,
    ProcessHandle,
    ResolvedRequest,
    RunContext,
    TargetGone,
)
from omn_redis.info import parse_info
from omn_redis.resp import Connection, ReplyError
from omn_redis.server import connect

Span = tuple[int, int]


class ServerReading(CollectorBase, ABC):
    """One section of INFO at each reading.

    A launched server is not there when the others attach: until it answers, nothing is read and nothing is missed,
    for its counters begin at zero when it does. One that never answers is a failed reading each time it was asked.
    """

    section: str

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Begin with nothing found and nothing missed."""
        super().prepare(resolved, context)
        self._connection: Connection | None = None
        self._unanswered = 0
        self._failed = 0
        self._reasons: list[str] = []
        self._silence: str | None = None

    def attach(self, target: BoundTarget) -> None:
        """Find the server and read the baseline. Raises MachineRefused where the process is no Redis server."""
        self._process: ProcessHandle = target.processes[0]
        if not target.launched:
            self._connection = connect(self._process.pid, self.context.sysroot)
            try:
                self.take_baseline(self._ask(self._connection))
            except (OSError, ReplyError, ValueError) as error:
                raise MachineRefused(f"the server does not answer INFO {self.section}: {error}") from error

    def sample(self, now_ns: int) -> Batch:
        """Return what the server counted since the last reading."""
        before = self.context.clock()
        connection = self._connection or self._find_launched()
        if connection is None:
            return Batch.empty()
        try:
            info = self._ask(connection)
            return self.make_batch((before, self.context.clock()), info)
        except (OSError, ReplyError, ValueError) as error:
            self._miss(f"the server did not answer INFO {self.section}: {error}")
            self._end_if_gone()
            return Batch.empty()

    def stop(self) -> Batch:
        """Let the connection go."""
        if self._connection is not None:
            self._connection.close()
        return Batch.empty()

    def losses(self) -> Losses:
        """Return the readings that gave nothing, those of a server that never answered among them."""
        never = self._unanswered if self._connection is None else 0
        reasons = [*self._reasons, *([self._silence] if never and self._silence else [])]
        return Losses(failed_reads=self._failed + never, reasons=tuple(dict.fromkeys(reasons)))

    @abstractmethod
    def take_baseline(self, info: Mapping[str, str]) -> None:
        """Keep what the server stood at when the window opened."""

    @abstractmethod
    def make_batch(self, span: Span, info: Mapping[str, str]) -> Batch:
        """Make the batch of one reading. Raises ValueError where the server states it in no known form."""

    def note_reset(self, what: str) -> None:
        """Count a reading whose interval is lost: the server's counters were set back in it."""
        self._miss(f"{what} were reset (CONFIG RESETSTAT), and what was counted since the last reading with them")

    def _ask(self, connection: Connection) -> dict[str, str]:
        return parse_info(connection.call("INFO", self.section))

    def _find_launched(self) -> Connection | None:
        """Look for the launched server, and keep why it does not answer."""
        try:
            self._connection = connect(self._process.pid, self.context.sysroot)
        except MachineRefused as error:
            self._unanswered += 1
            self._silence = str(error)
            self._end_if_gone()
        return self._connection

    def _miss(self, reason: str) -> None:
        self._failed += 1
        self._reasons.append(reason)

    def _end_if_gone(self) -> None:
        if _has_ended(self._process, self.context.sysroot):
            raise TargetGone


def _has_ended(process: ProcessHandle, sysroot: str) -> bool:
    """Whether a process has exited: its pidfd is readable, or without one its folder is gone."""
    if process.pidfd is None:
        return not os.path.exists(os.path.join(sysroot, "proc", str(process.pid)))
    poller = select.poll()
    poller.register(process.pidfd, select.POLLIN)
    return bool(poller.poll(0))
