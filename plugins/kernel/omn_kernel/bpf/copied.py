"""Records copied while a run goes on and decoded after it, within a bound of memory; and what was lost of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from omn_core.api import Drain, Losses
from omn_kernel.bpf.transport import Bytes, Transport


class CopiedRecords:
    """The records that came through a transport. `memory_bytes` bounds what is held of them undecoded.

    What comes past the bound is dropped and counted, the records already held being kept.
    """

    def __init__(self, transport: Transport, memory_bytes: int, clock: Callable[[], int]) -> None:
        self._transport = transport
        self._memory_bytes = memory_bytes
        self._clock = clock
        self._parts: list[Bytes] = []
        self._held_bytes = self._overrun = self._lost = 0
        self._drains: list[Drain] = []

    def copy(self) -> None:
        """Take what waits, and what the programs counted as lost since the last time."""
        self._keep(self._transport.drain())
        lost = self._transport.lost.read_count()
        if lost > self._lost:
            self._drains.append(Drain(self._clock(), lost - self._lost))
            self._lost = lost

    def _keep(self, part: Bytes) -> None:
        if self._held_bytes + len(part) > self._memory_bytes:
            self._overrun += self._transport.count(part)
        elif len(part):
            self._held_bytes += len(part)
            self._parts.append(part)

    def decode(self) -> npt.NDArray[Any]:
        """Return the records that are held, in the order of their stamps, and hold them no longer."""
        parts, self._parts, self._held_bytes = self._parts, [], 0
        return self._transport.decode(parts)

    def drop(self, count: int) -> None:
        """Count records that were decoded and found no room then."""
        self._overrun += count

    @property
    def losses(self) -> Losses:
        """The records that programs found no room for, each drain's apart, and those past the bound."""
        reasons = []
        if self._lost:
            reasons.append("records found no room in the memory that programs write to")
        if self._overrun:
            reasons.append(f"records came when {self._memory_bytes} bytes, the bound of one request, were held")
        return Losses(dropped=self._lost + self._overrun, reasons=tuple(reasons), drains=tuple(self._drains))
