"""io.util: the share of time in which a device had requests, and how many, from two clocks of /proc/diskstats."""

from __future__ import annotations

from omn_kernel.polling import Rows

from omn_io.devices import DeviceCounterCollector, Moved

_NS_PER_MS = 1_000_000


def compute_use(moved: Moved) -> dict[str, int | float]:
    """Compute `util` and `queue` of an interval, beside the times that they are made of, nanoseconds.

    The kernel adds a request's time up when it completes, so that a reading may hold some of the time before its
    interval: `util` is one at most, and `queue`, all requests' time over the interval's, may be late.
    """
    busy_ns = moved.growth.by["busy_ms"] * _NS_PER_MS
    request_ns = moved.growth.by["request_ms"] * _NS_PER_MS
    return {
        "util": min(busy_ns / moved.growth.length_ns, 1.0),
        "queue": request_ns / moved.growth.length_ns,
        "busy_ns": busy_ns,
        "request_ns": request_ns,
        "interval_ns": moved.growth.length_ns,
    }


class Busy(DeviceCounterCollector):
    """A row for each device in each interval; of the machine, not divided by device, the row of the busiest.

    Shares of several devices make no share together: the machine's answer is which one was nearest to its limit.
    """

    def make_moved_rows(self, moved: list[Moved]) -> Rows:
        """Return the rows."""
        uses = {one.name: compute_use(one) for one in moved}
        if not self.devices.is_divided:
            busiest = max(uses, key=lambda name: (uses[name]["util"], uses[name]["queue"]))
            uses = {busiest: uses[busiest]}
        names = list(next(iter(uses.values())))
        return Rows({"dev": list(uses)}, {name: [use[name] for use in uses.values()] for name in names})
