"""Which of many stacks are alike, so that each distinct one is named once: a program is mostly where it was before."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omn_kernel.perf.call_stacks import CallStacks, Counts

_ODD = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio in 64 bits: its multiples are spread over all of them


def find_alike(
    processes: npt.NDArray[np.int32], ages: Counts, calls: CallStacks
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Find the first sample of each distinct stack, and for every sample which of those is alike.

    Alike are those of one process and one age of its memory, with the same frames. They are found by a hash, and held
    to each other: where two that differ share one, which is not to be expected, none are taken for alike.
    """
    marks = _compute_marks(processes, ages, calls)
    _, firsts, places = np.unique(marks, return_index=True, return_inverse=True)
    places = places.reshape(-1)
    if _are_same(processes, ages, calls, firsts[places]):
        return firsts.astype(np.int64), places.astype(np.int64)
    everyone = np.arange(len(calls), dtype=np.int64)
    return everyone, everyone


def _compute_marks(processes: npt.NDArray[np.int32], ages: Counts, calls: CallStacks) -> npt.NDArray[np.uint64]:
    # In place: what a million frames cost is the memory that each step would otherwise take anew.
    parts = calls.sites << np.uint64(1)
    parts |= calls.is_recovered
    parts *= _ODD
    parts ^= parts >> np.uint64(29)
    depths = np.arange(len(parts), dtype=np.uint64)
    depths -= np.repeat(calls.starts.astype(np.uint64), calls.lengths)
    depths <<= np.uint64(1)
    depths |= np.uint64(1)
    parts *= depths
    parts *= _ODD
    sums = np.zeros(len(parts) + 1, np.uint64)
    np.cumsum(parts, out=sums[1:])
    ends = calls.starts + calls.lengths
    whose = (processes.astype(np.int64) << 32 ^ ages << 12 ^ calls.lengths).astype(np.uint64) * _ODD
    found: npt.NDArray[np.uint64] = sums[ends] - sums[calls.starts] ^ whose
    return found


def _are_same(processes: npt.NDArray[np.int32], ages: Counts, calls: CallStacks, firsts: npt.NDArray[np.int64]) -> bool:
    """Tell whether each sample has the frames of the one that it is taken for."""
    for column in (processes, ages, calls.lengths):
        if (column != column[firsts]).any():
            return False
    frames = calls.list_frames(firsts)
    return bool((calls.sites == calls.sites[frames]).all() and (calls.is_recovered == calls.is_recovered[frames]).all())
