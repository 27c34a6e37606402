"""The samples of a run: kept within the bound of memory, walked at its end, or sooner where memory runs short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from omn_kernel.perf.call_stacks import CallStacks
from omn_kernel.perf.samples import Samples
from omn_kernel.perf.unwinding import Unwinder

_JOINED_BYTES = 4 << 20
"""How much is laid end to end to be walked at once: to copy more costs more than it saves."""


@attrs.define(eq=False, repr=False)
class _Part:
    samples: Samples
    calls: CallStacks | None = None

    @property
    def nbytes(self) -> int:
        return self.samples.nbytes + (0 if self.calls is None else self.calls.nbytes)

    def walk(self, unwinder: Unwinder) -> CallStacks:
        """Walk the samples, and let go of what that was made of."""
        if self.calls is None:
            self.calls = unwinder.make(self.samples)
            self.samples = self.samples.drop_chains()
        return self.calls


class HeldSamples:
    """Samples of one request. Without an unwinder they have no stacks.

    A copied stack holds many times the memory of the frames found in it. So what is held is walked as soon as half the
    bound is used: `walked_early` counts the samples that were.
    """

    def __init__(self, unwinder: Unwinder | None, memory_bytes: int) -> None:
        self.walked_early = 0
        self._unwinder = unwinder
        self._memory_bytes = memory_bytes
        self._held_bytes = 0
        self._parts: list[_Part] = []

    def add(self, samples: Samples) -> bool:
        """Keep samples. False where they are past the bound, and are not kept."""
        part = _Part(samples)
        if self._held_bytes + part.nbytes > self._memory_bytes // 2:
            self._walk_copies([*self._parts, part])
        if self._held_bytes + part.nbytes > self._memory_bytes:
            return False
        self._held_bytes += part.nbytes
        self._parts.append(part)
        return True

    def _walk_copies(self, parts: Sequence[_Part]) -> None:
        for part in parts:
            if part.samples.copied is not None and self._unwinder is not None:
                self.walked_early += len(part.samples)
                part.walk(self._unwinder)
        self._held_bytes = sum(part.nbytes for part in self._parts)

    def count(self) -> int:
        """Count the samples that are not the idle task's."""
        return sum(int((part.samples.pid != 0).sum()) for part in self._parts)

    def finish(self) -> tuple[Samples, CallStacks | None] | None:
        """Walk what is left and return everything that was kept, None where that is nothing."""
        if not self._parts:
            return None
        unwinder = self._unwinder
        self._parts = list(_iter_joined(self._parts))
        calls = None if unwinder is None else CallStacks.concatenate([part.walk(unwinder) for part in self._parts])
        return Samples.concatenate([part.samples for part in self._parts]), calls


def _iter_joined(parts: Sequence[_Part]) -> Iterator[_Part]:
    """Yield the parts in their order, small ones that are yet to be walked joined: a walk has to lay out its memory."""
    waiting: list[_Part] = []
    waiting_bytes = 0
    for part in parts:
        size = part.nbytes
        if waiting and (part.calls is not None or waiting_bytes + size > _JOINED_BYTES):
            yield _join(waiting)
            waiting, waiting_bytes = [], 0
        if part.calls is not None:
            yield part
        else:
            waiting.append(part)
            waiting_bytes += size
    if waiting:
        yield _join(waiting)


def _join(parts: Sequence[_Part]) -> _Part:
    return parts[0] if len(parts) == 1 else _Part(Samples.concatenate([part.samples for part in parts]))
