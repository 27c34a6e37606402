"""Stacks of addresses made stacks of names: every address named once, every stack interned into the run's."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt

from omn_core.api import Frame, Stacks
from omn_kernel.distinct import list_distinct
from omn_kernel.perf.alike import find_alike
from omn_kernel.perf.call_stacks import CallStacks, Ending
from omn_kernel.symbols.spaces import AddressSpaces
from omn_kernel.symbols.symboliser import Symboliser

RECOVERED = " [recovered]"
"""What the name of a frame ends in that was inferred and not walked."""


_KERNEL_FROM = np.uint64(1 << 63)


@attrs.frozen(eq=False, repr=False)
class MadeStacks:
    """The number of each stack in the run's table, -1 for one without a frame, and the `Ending` that each has."""

    numbers: npt.NDArray[np.int64]
    endings: npt.NDArray[np.uint8]


def make_stacks(
    processes: npt.NDArray[np.int32],
    times_ns: npt.NDArray[np.int64],
    calls: CallStacks,
    symboliser: Symboliser,
    stacks: Stacks,
) -> MadeStacks:
    """Intern stacks into the run's table.

    `processes` are those whose stacks they are, and `times_ns` when they were taken. A caller that is in no memory that
    its process has for code is none: a walk by frame pointers read it where there was no frame, and what is behind it
    may be anything.
    """
    firsts, places = find_alike(processes, _find_ages(processes, times_ns, symboliser.spaces), calls)
    walked = calls.take(firsts)
    whose = np.repeat(firsts, walked.lengths)
    symbols = symboliser.resolve_all(processes[whose], walked.sites, times_ns[whose]).symbol
    found, kept = _end_at_no_code(walked, symbols, symboliser)
    frames = _intern_frames(symbols[kept], found.is_recovered, symboliser, stacks)
    numbers = [
        stacks.intern(frames[begin : begin + length].tolist()) if length else -1
        for begin, length in zip(found.starts.tolist(), found.lengths.tolist(), strict=True)
    ]
    return MadeStacks(np.array(numbers, np.int64)[places], found.endings[places])


def _find_ages(
    processes: npt.NDArray[np.int32], times_ns: npt.NDArray[np.int64], spaces: AddressSpaces
) -> npt.NDArray[np.int64]:
    ages = np.zeros(len(processes), np.int64)
    for pid in list_distinct(processes):
        chosen = np.flatnonzero(processes == pid)
        ages[chosen] = spaces.find_ages(pid, times_ns[chosen])
    return ages


def _end_at_no_code(
    calls: CallStacks, symbols: npt.NDArray[np.int64], symboliser: Symboliser
) -> tuple[CallStacks, npt.NDArray[np.bool_]]:
    """End each stack before its first caller that is no code of the program's, and tell which frames are left."""
    is_known = np.array([one.path is not None or one.name is not None for one in symboliser.symbols], bool)
    is_program = calls.sites < _KERNEL_FROM
    depths = np.arange(len(calls.sites)) - np.repeat(calls.starts, calls.lengths)
    innermost = np.repeat(_find_first(is_program, depths, calls), calls.lengths)
    is_none = (depths > innermost) & ~(is_program & is_known[symbols])
    lengths = _find_first(is_none, depths, calls)
    kept = depths < np.repeat(lengths, calls.lengths)
    endings = np.where(lengths < calls.lengths, np.uint8(Ending.BLIND), calls.endings)
    return CallStacks(calls.sites[kept], calls.is_recovered[kept], lengths, endings), kept


def _find_first(
    is_asked: npt.NDArray[np.bool_], depths: npt.NDArray[np.int64], calls: CallStacks
) -> npt.NDArray[np.int64]:
    """Find the depth of the first frame of each stack that is asked for, its length where none is."""
    found = calls.lengths.copy()
    whose = np.repeat(np.arange(len(calls)), calls.lengths)
    np.minimum.at(found, whose[is_asked], depths[is_asked])
    return found


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
