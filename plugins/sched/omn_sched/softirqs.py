"""The kinds of deferred interrupt work, by the names that /proc/softirqs has."""

from __future__ import annotations

SOFTIRQS = ("HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU")
"""HI_SOFTIRQ and the others of <linux/interrupt.h>, each at its number."""


def name_softirq(number: int) -> str | None:
    """Name a kind of deferred interrupt work by its number, None for none."""
    return SOFTIRQS[number] if 0 <= number < len(SOFTIRQS) else None
