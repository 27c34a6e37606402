"""What is noted of a run while it lasts: when it was watched, and whom it took over."""

from __future__ import annotations

import attrs


@attrs.frozen(repr=False)
class Window:
    """When something was watched, CLOCK_MONOTONIC nanoseconds."""

    opened_ns: int
    closed_ns: int

    @property
    def length_ns(self) -> int:
        """Nanoseconds from opening to close."""
        return self.closed_ns - self.opened_ns


@attrs.frozen(repr=False)
class Adopted:
    """A process that outlived the program that started it: taken over by omn, and ended by it at the close."""

    pid: int
    comm: str
    ended: bool
