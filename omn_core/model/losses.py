"""What was not measured, counted."""

from __future__ import annotations

from collections.abc import Iterable

import attrs


@attrs.frozen(repr=False)
class Drain:
    """Events lost by the time of one drain: CLOCK_MONOTONIC nanoseconds and how many."""

    ts_ns: int
    dropped: int


@attrs.frozen(repr=False)
class Losses:
    """Losses of one request, by kind; each count is exact, and each kind that is not zero has a reason.

    `dropped` are events a buffer reported losing; `throttled` periods in which the kernel declined to deliver, so that
    how many events they held is not known; `evicted` events older than what a recorder retained; `failed_reads`
    readings that were attempted and gave nothing; `late_ticks` rounds that overran their interval and `swallowed` the
    readings that fell into those rounds; `skipped` runs of a program that the kernel did not make.
    """

    dropped: int = 0
    throttled: int = 0
    evicted: int = 0
    failed_reads: int = 0
    late_ticks: int = 0
    swallowed: int = 0
    skipped: int = 0
    reasons: tuple[str, ...] = ()
    drains: tuple[Drain, ...] = ()

    @property
    def is_lower_bound(self) -> bool:
        """Whether a figure over these events is only a lower bound. Eviction takes nothing from inside the window."""
        return bool(self.dropped or self.throttled or self.failed_reads or self.skipped)

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was lost."""
        return not (self.is_lower_bound or self.evicted or self.late_ticks or self.swallowed)


COUNTS = tuple(field.name for field in attrs.fields(Losses) if field.name not in ("reasons", "drains"))


def compute_total_losses(parts: Iterable[Losses]) -> Losses:
    """Add losses of several origins: counts summed, reasons once each in order, drains by time."""
    parts = list(parts)
    counts = {name: sum(getattr(part, name) for part in parts) for name in COUNTS}
    reasons = tuple(dict.fromkeys(reason for part in parts for reason in part.reasons))
    drains = tuple(sorted((drain for part in parts for drain in part.drains), key=lambda drain: drain.ts_ns))
    return Losses(**counts, reasons=reasons, drains=drains)
