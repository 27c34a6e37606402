"""Counters that only grow, read twice: what they grew by, over how long, and the readings that tell neither."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

import attrs

from omn_core.api import Losses

Key = TypeVar("Key", bound=Hashable)


@attrs.frozen(repr=False)
class Growth:
    """What counters grew by between two readings, and the nanoseconds between them, never zero."""

    length_ns: int
    by: Mapping[str, int]


@attrs.define(repr=False)
class Misses:
    """Readings that gave nothing, with the reasons once each."""

    count: int = 0
    reasons: list[str] = attrs.field(factory=list)

    def note(self, reason: str) -> None:
        """Count a reading that gave nothing."""
        self.count += 1
        if reason not in self.reasons:
            self.reasons.append(reason)

    def note_step_back(self, counters: str, whose: str) -> None:
        """Count a reading in which counters stepped back, by their names and what they are about."""
        self.note(f"the kernel's {counters} of {whose} stepped back, and that interval is unknown")

    def to_losses(self) -> Losses:
        """Return them as the losses of a request."""
        return Losses(failed_reads=self.count, reasons=tuple(self.reasons))


class Account:
    """The counters that one row is made of, and their last reading. `whose` names what they are about in a loss.

    A counter that steps back (a cpu that went offline, per-cpu sums taken while they move) leaves its whole interval
    unknown: a figure of zero would be as false as a negative one. That reading is counted as one that gave nothing,
    and is the baseline of the next. `wraps` names the counters that the kernel starts over at some number, with that
    number: such a step back is growth where it is less than half of it, and where no other counter stepped back.
    """

    def __init__(self, whose: str, misses: Misses, wraps: Mapping[str, int] | None = None) -> None:
        self.whose = whose
        self._misses = misses
        self._wraps = wraps or {}
        self._last: Mapping[str, int] | None = None
        self._at_ns = 0

    def advance(self, reading: Mapping[str, int], at_ns: int) -> Growth | None:
        """Return the growth since the last reading, None where this is the first or a counter stepped back.

        A counter that only one of the two readings has is left out.
        """
        last, then_ns = self._last, self._at_ns
        self._last, self._at_ns = reading, at_ns
        if last is None:
            return None
        grown = {name: value - last[name] for name, value in reading.items() if name in last}
        backwards = [name for name, value in grown.items() if value < 0]
        wrapped = {name: grown[name] + self._wraps[name] for name in backwards if name in self._wraps}
        if len(wrapped) < len(backwards) or any(value > self._wraps[name] // 2 for name, value in wrapped.items()):
            self._misses.note_step_back(", ".join(sorted(backwards)), self.whose)
            return None
        return Growth(max(at_ns - then_ns, 1), {**grown, **wrapped})


class Accounts(Generic[Key]):
    """An account for each row of a reading: one that comes begins with its first, one that goes is forgotten."""

    def __init__(self, misses: Misses, name: Callable[[Key], str], wraps: Mapping[str, int] | None = None) -> None:
        self._misses = misses
        self._name = name
        self._wraps = wraps
        self._accounts: dict[Key, Account] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._accounts

    def advance(self, readings: Mapping[Key, Mapping[str, int]], at_ns: int) -> dict[Key, Growth]:
        """Return the growth of each account that has one, in the readings' order; one not read is forgotten."""
        for key in self._accounts.keys() - readings.keys():
            del self._accounts[key]
        grown = {key: self.advance_one(key, reading, at_ns) for key, reading in readings.items()}
        return {key: growth for key, growth in grown.items() if growth is not None}

    def advance_one(self, key: Key, reading: Mapping[str, int], at_ns: int) -> Growth | None:
        """Return the growth of one account, as `Account.advance` does."""
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = Account(self._name(key), self._misses, self._wraps)
        return account.advance(reading, at_ns)
