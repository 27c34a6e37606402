"""Stacks that a library kept inside programs, named and put into the run's table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omn_core.api import Stacks as Table
from omn_kernel.distinct import list_distinct
from omn_kernel.injected.memory import MOST_FRAMES, NO_STACK, Stacks
from omn_kernel.perf.call_stacks import CallStacks, Ending
from omn_kernel.perf.chains import make_stacks
from omn_kernel.symbols.symboliser import Symboliser

Array = npt.NDArray[Any]
_IMAGE, _AGE, _NOWHERE = np.uint64(52), np.uint64(20), np.uint32((1 << 20) - 1)
"""Where the number of a program and the age of its memory stand beside the place of a stack, in one number."""


def number_stacks(
    kept: Stacks, records: Array, images: Array, pids: Array, symboliser: Symboliser, table: Table
) -> npt.NDArray[np.int64]:
    """Return the number of each record's stack in the run's table, -1 for one that has none.

    `images` tell programs apart that were in one process after another, of the number `pids`: one stack of one program
    is named once for as long as the memory is the same.
    """
    times_ns, ages = records["ns"].astype(np.int64), np.zeros(len(records), np.uint64)
    for pid in list_distinct(pids):
        chosen = np.flatnonzero(pids == pid)
        ages[chosen] = symboliser.spaces.find_ages(pid, times_ns[chosen])
    taken = images.astype(np.uint64) << _IMAGE | ages << _AGE | np.minimum(records["stack"], _NOWHERE)
    _, firsts, places = np.unique(taken, return_index=True, return_inverse=True)
    calls = _take(kept, records["stack"][firsts])
    made = make_stacks(pids[firsts].astype(np.int32), times_ns[firsts], calls, symboliser, table)
    return made.numbers[places.reshape(-1)]


def _take(kept: Stacks, places: Array) -> CallStacks:
    """Take the stacks at some places; what is at none has no frame."""
    is_kept = places != NO_STACK
    starts, lengths = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
    starts[is_kept], lengths[is_kept] = kept.at[places[is_kept]], kept.length[places[is_kept]]
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    # Where a call returns to is behind it.
    sites = kept.frames[np.repeat(starts, lengths) + within] - np.uint64(1)
    endings = np.where(lengths >= MOST_FRAMES, np.uint8(Ending.CUT), np.uint8(Ending.WHOLE))
    return CallStacks(sites, np.zeros(len(sites), bool), lengths, endings)
