"""Counters that only grow, and what to make of one that does not."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)


class Counters(Generic[Name]):
    """What counters grew by since the reading before.

    A counter that steps back (a cpu that went offline, per-cpu sums taken while they move) never reads as a negative
    or a huge figure: its interval is zero, it counts on from where it stands, and `stepped_back` says how often.
    """

    def __init__(self, baseline: Mapping[Name, int]) -> None:
        self._last = dict(baseline)
        self.stepped_back = 0

    def advance(self, reading: Mapping[Name, int]) -> dict[Name, int]:
        """Return the growth of each counter that both readings have. One that is new is remembered and left out."""
        grown: dict[Name, int] = {}
        last = self._last
        for name, value in reading.items():
            before = last.get(name)
            if before is None:
                continue
            if value < before:
                self.stepped_back += 1
            grown[name] = value - before if value > before else 0
        self._last = dict(reading)
        return grown

    def facts(self) -> tuple[str, ...]:
        """Say how often counters stepped back, if they did."""
        if not self.stepped_back:
            return ()
        times = "once" if self.stepped_back == 1 else f"{self.stepped_back} times"
        return (f"a counter of the kernel stepped back {times}; such an interval reads as zero",)
