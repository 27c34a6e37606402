"""How many occurrences a sample stands for, where the kernel chooses the period from sample to sample."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from omn_kernel.perf.samples import Samples


def compute_periods(samples: Samples, first: Collection[int]) -> npt.NDArray[np.int64]:
    """Compute how many occurrences each sample of a software event ends, from the periods that the samples state.

    At a sample the kernel begins the next period, and it states that one's length (perf_swevent_event reads
    last_period, by which perf_swevent_set_period then counts down): what a sample ends was stated by the one before it
    of the same event. The first of the events that were opened, `first`, ends a period of one. An inherited event
    begins with the period that its parent had come to, which no record states: its first sample stands for what itself
    states.
    """
    stated = samples.period.astype(np.int64)
    order = np.argsort(samples.stream, kind="stable")
    streams = samples.stream[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = streams[1:] != streams[:-1]
    ended = np.empty_like(stated)
    ended[order] = np.where(is_first, stated[order], np.roll(stated[order], 1))
    is_opened = np.isin(streams, np.array(sorted(first), np.uint64))
    ended[order[is_first & is_opened]] = 1
    return ended
