"""When readings are due: a grid fixed at the opening, which a late round never moves."""

from __future__ import annotations

import attrs


@attrs.define(repr=False)
class Grid:
    """The ticks of one request: `opened_ns` + k intervals, k from 1.

    A tick is swallowed when it passed unread: because a reading lasted past it, or because nobody came before the one
    after it. `late` counts the rounds in which that happened, each once, `swallowed` the ticks that went.
    """

    opened_ns: int
    interval_ns: int
    late: int = 0
    swallowed: int = 0
    _next: int = 1
    _is_late: bool = False

    @property
    def due_ns(self) -> int:
        """The instant of the next tick."""
        return self.opened_ns + self._next * self.interval_ns

    def take(self, now_ns: int) -> bool:
        """Tell whether a reading is due; it is then taken, and ticks that already passed before it are swallowed."""
        if now_ns < self.due_ns:
            return False
        latest = (now_ns - self.opened_ns) // self.interval_ns
        self._is_late = False
        self._swallow(latest - self._next)
        self._next = latest + 1
        return True

    def settle(self, now_ns: int) -> None:
        """Note that the reading taken has ended: the ticks it lasted past are swallowed."""
        latest = (now_ns - self.opened_ns) // self.interval_ns
        self._swallow(latest + 1 - self._next)
        self._next = max(self._next, latest + 1)

    def _swallow(self, ticks: int) -> None:
        if ticks > 0:
            self.late += not self._is_late
            self._is_late = True
            self.swallowed += ticks
