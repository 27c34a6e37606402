"""Times off the cpu as a window cuts them, and the states that threads leave in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omn_sched.programs.leaving import DEAD, IDLE

Records = npt.NDArray[Any]

_STATES = ((1, "interruptible"), (2, "uninterruptible"), (4, "stopped"), (8, "traced"), (0x40, "parked"))
"""TASK_INTERRUPTIBLE and the others of <linux/sched.h>, the bits that say what a thread waits for."""


def name_state(state: int) -> str:
    """Name the state that a thread left in: `runnable` where it was made to give way, `dead` of one that has ended."""
    if state == 0:
        return "runnable"
    if state & DEAD:
        return "dead"
    if state & IDLE == IDLE:
        return "idle"
    return next((name for bit, name in _STATES if state & bit), f"{state:#x}")


def end_at(records: Records, left: Records, closed_ns: int) -> tuple[Records, int]:
    """End at the close of a window what had not ended then, and return all with how many these are.

    `records` are of threads that came back, some after the close; `left` of those that have not. The time until the
    close is what a thread was off the cpu, but of one that was made to give way, which waited for a cpu all the time.
    """
    is_late = (records["ns"] > closed_ns) & (records["left_ns"] < closed_ns)
    late = records[is_late]
    gap = closed_ns - late["left_ns"].astype(np.int64)
    late["off_ns"] = np.minimum(late["off_ns"], gap)
    late["queued_ns"] = gap - late["off_ns"]
    open_still = left[left["left_ns"] < closed_ns]
    gap = closed_ns - open_still["left_ns"].astype(np.int64)
    is_ready = open_still["state"] == 0
    open_still["off_ns"] = np.where(is_ready, 0, gap)
    open_still["queued_ns"] = np.where(is_ready, gap, 0)
    unfinished = np.concatenate([late, open_still])
    unfinished["ns"] = closed_ns
    whole = np.concatenate([records[~is_late], unfinished])
    return whole[np.argsort(whole["ns"], kind="stable")], len(unfinished)
