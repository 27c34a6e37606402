"""Stacks of addresses made stacks of names: every address named once, every stack interned into the run's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from omn_core.api import Frame, Stacks
from omn_kernel.distinct import list_distinct
from omn_kernel.perf.alike import find_alike
from omn_kernel.perf.call_stacks import CallStacks
from omn_kernel.symbols.spaces import AddressSpaces
from omn_kernel.symbols.symboliser import Symboliser

RECOVERED = " [recovered]"
"""What the name of a frame ends in that was inferred and not walked."""


def make_stacks(
    processes: npt.NDArray[np.int32],
    times_ns: npt.NDArray[np.int64],
    calls: CallStacks,
    symboliser: Symboliser,
    stacks: Stacks,
) -> npt.NDArray[np.int64]:
    """Return the number of each stack in the run's table, -1 for one without a frame.

    `processes` are those whose stacks they are, and `times_ns` when they were taken.
    """
    firsts, places = find_alike(processes, _find_ages(processes, times_ns, symboliser.spaces), calls)
    return _intern(processes[firsts], times_ns[firsts], calls.take(firsts), symboliser, stacks)[places]


def _find_ages(
    processes: npt.NDArray[np.int32], times_ns: npt.NDArray[np.int64], spaces: AddressSpaces
) -> npt.NDArray[np.int64]:
    ages = np.zeros(len(processes), np.int64)
    for pid in list_distinct(processes):
        chosen = np.flatnonzero(processes == pid)
        ages[chosen] = spaces.find_ages(pid, times_ns[chosen])
    return ages


def _intern(
    processes: npt.NDArray[np.int32],
    times_ns: npt.NDArray[np.int64],
    calls: CallStacks,
    symboliser: Symboliser,
    stacks: Stacks,
) -> npt.NDArray[np.int64]:
    pids = np.repeat(processes, calls.lengths)
    times = np.repeat(times_ns, calls.lengths)
    symbols = np.full(len(calls.sites), -1, np.int64)
    for pid in list_distinct(pids):
        chosen = np.flatnonzero(pids == pid)
        symbols[chosen] = symboliser.resolve(pid, calls.sites[chosen], times[chosen]).symbol
    frames = _intern_frames(symbols, calls.is_recovered, symboliser, stacks)
    return np.array(
        [
            stacks.intern(frames[begin : begin + length].tolist()) if length else -1
            for begin, length in zip(calls.starts.tolist(), calls.lengths.tolist(), strict=True)
        ],
        np.int64,
    )


def _intern_frames(
    symbols: npt.NDArray[np.int64], is_recovered: npt.NDArray[np.bool_], symboliser: Symboliser, stacks: Stacks
) -> npt.NDArray[np.int64]:
    numbers, places = np.unique(symbols * 2 + is_recovered, return_inverse=True)
    codes: Sequence[int] = [
        _intern_frame(number // 2, bool(number % 2), symboliser, stacks) for number in numbers.tolist()
    ]
    return np.array(codes, np.int64)[places.reshape(-1)]


def _intern_frame(number: int, is_recovered: bool, symboliser: Symboliser, stacks: Stacks) -> int:
    symbol = symboliser.symbols[number]
    label = symbol.label + RECOVERED if is_recovered else symbol.label
    return stacks.intern_frame(Frame(label, symbol.path, symbol.named_by, symbol.build_id))
