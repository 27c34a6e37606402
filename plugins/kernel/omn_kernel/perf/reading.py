"""Counters read together, in one native call, and what they grew by; a count that shared its unit is scaled up."""

from __future__ import annotations

import os
from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt

from omn_kernel.native._perf import ffi, lib
from omn_kernel.perf.attributes import READ_WORDS

Readings = npt.NDArray[np.uint64]
"""A row for each counter: what it counted, and the nanoseconds that it was enabled and that it ran."""


def read_counters(descriptors: Sequence[int], words: int = READ_WORDS) -> Readings:
    """Read counters that were opened with their times, or to be read as so many words. Raises OSError as read(2)."""
    values = np.zeros((len(descriptors), words), np.uint64)
    numbers = np.array(descriptors, np.int32)
    failed = lib.omn_events_read(
        ffi.from_buffer("int[]", numbers), len(descriptors), words, ffi.from_buffer("uint64_t[]", values)
    )
    if failed < 0:
        raise OSError(-failed, os.strerror(-failed))
    return values


@attrs.frozen(repr=False)
class Counted:
    """What some counters of one event grew by together.

    `value` is scaled up where they ran only a part of the time that they were enabled (`running_ns` of `enabled_ns`),
    and `raw` is what was counted; None where one that was enabled never ran, so that what it would have counted is
    unknown.
    """

    value: int | None
    raw: int
    enabled_ns: int
    running_ns: int


def compute_counted(growth: npt.NDArray[np.int64]) -> Counted:
    """Add up the growth of an event's counters, each scaled by its own share of the unit."""
    value, is_known = 0, True
    for raw, enabled_ns, running_ns in growth.tolist():
        if running_ns == 0 and enabled_ns > 0:
            is_known = False
        elif running_ns < enabled_ns:
            value += (raw * enabled_ns + running_ns // 2) // running_ns
        else:
            value += raw
    raw, enabled_ns, running_ns = growth.sum(axis=0).tolist()
    return Counted(value if is_known else None, raw, enabled_ns, running_ns)
