"""What a run waits for, all at once: the next instant, its signals, its program, the processes it was attached to."""

from __future__ import annotations

import select

from omn_core.model.collector import BoundTarget
from omn_core.run.interrupts import Interrupts
from omn_core.run.launcher import Launched
from omn_core.run.linux_clock import Timer


class Watch:
    """One poll over every descriptor of the run. Nothing here is read twice, and nobody spins or sleeps."""

    def __init__(self, interrupts: Interrupts, launched: Launched | None, targets: list[BoundTarget]) -> None:
        self._interrupts = interrupts
        self._launched = launched
        self._timer = Timer()
        self._poll = select.poll()
        self._poll.register(interrupts.descriptor, select.POLLIN)
        self._poll.register(self._timer.descriptor, select.POLLIN)
        if launched is not None:
            self._poll.register(launched.pidfd, select.POLLIN)
        self._living = {
            handle.pidfd
            for bound in targets
            if bound.target.kind in ("pid", "tid")
            for handle in bound.processes
            if handle.pidfd is not None
        }
        self._had_processes = bool(self._living)
        for descriptor in self._living:
            self._poll.register(descriptor, select.POLLIN)

    def wait(self, until_ns: int | None) -> None:
        """Wait until an instant (None: for as long as it takes), or until something ends or a signal comes."""
        self._timer.set(until_ns)
        for descriptor, _ in self._poll.poll():
            if descriptor == self._interrupts.descriptor:
                self._interrupts.drain()
            elif self._launched is not None and descriptor == self._launched.pidfd:
                self._poll.unregister(descriptor)
                self._launched.note_end()
            elif descriptor in self._living:
                self._poll.unregister(descriptor)
                self._living.discard(descriptor)

    def find_end(self) -> str | None:
        """Return why the run is over as far as processes and signals go, None while it is not.

        A program that omn launched is the window; where there is none, the processes it was attached to are.
        """
        if self._interrupts.first is not None:
            return self._interrupts.first
        if self._launched is not None:
            return "program" if self._launched.ended_ns is not None else None
        return "target" if self._had_processes and not self._living else None

    def has_ended(self, bound: BoundTarget) -> bool:
        """Tell whether every process of a target is known to have ended."""
        descriptors = [handle.pidfd for handle in bound.processes]
        is_watched = bound.target.kind in ("pid", "tid") and None not in descriptors and bool(descriptors)
        return is_watched and self._living.isdisjoint(descriptors)

    def close(self) -> None:
        """Let go of the timer."""
        self._timer.close()
