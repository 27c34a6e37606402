"""Kernel accounts that only grow, read twice: what they grew by, over how long, and the readings that tell neither."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

import attrs

from omn_core.api import Batch, CollectorBase, Losses, ResolvedRequest, RunContext


@attrs.frozen
class Growth:
    """What counters grew by between two readings, and the nanoseconds between them, never zero."""

    length_ns: int
    by: Mapping[str, int]


@attrs.define
class Misses:
    """Readings that gave nothing, with the reasons once each."""

    count: int = 0
    reasons: list[str] = attrs.field(factory=list)

    def note(self, reason: str, times: int = 1) -> None:
        """Count readings that gave nothing for one reason."""
        self.count += times
        if reason not in self.reasons:
            self.reasons.append(reason)

    def to_losses(self) -> Losses:
        """Return them as the losses of a request."""
        return Losses(failed_reads=self.count, reasons=tuple(self.reasons))


class Account:
    """One group of counters and its last reading.

    A counter that stepped back leaves its whole interval unknown: a figure of zero would be as false as a negative
    one. The reading then is the baseline of the next, and it is counted as one that gave nothing.
    """

    def __init__(self, name: str, reading: Mapping[str, int], at_ns: int) -> None:
        self.name = name
        self._last = reading
        self._at_ns = at_ns

    def advance(self, reading: Mapping[str, int], at_ns: int, misses: Misses) -> Growth | None:
        """Return the growth since the last reading, None where a counter stepped back; this reading is the last now."""
        grown = {name: value - self._last[name] for name, value in reading.items() if name in self._last}
        growth = Growth(max(at_ns - self._at_ns, 1), grown)
        self._last, self._at_ns = reading, at_ns
        backwards = sorted(name for name, value in grown.items() if value < 0)
        if backwards:
            misses.note(
                f"the kernel's {', '.join(backwards)} of {self.name} stepped back, and that interval is unknown"
            )
            return None
        return growth


class AccountCollector(CollectorBase):
    """A collector of accounts: it counts the readings that gave nothing, and lets go of its files when it stops.

    A subclass notes the first in `misses` and pushes what it opens on `files`.
    """

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Begin with nothing missed and nothing open."""
        super().prepare(resolved, context)
        self.misses = Misses()
        self.files = ExitStack()

    def stop(self) -> Batch:
        """Let go of every file. A reading is never buffered."""
        self.files.close()
        return Batch.empty()

    def losses(self) -> Losses:
        """Return the readings that gave nothing."""
        return self.misses.to_losses()
