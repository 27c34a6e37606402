"""Callchains made stacks: every address named once, every stack interned into the run's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from omn_core.api import Frame, Stacks
from omn_kernel.perf.records import Samples
from omn_kernel.symbols.symboliser import Symboliser


def compute_addresses(samples: Samples) -> npt.NDArray[np.uint64]:
    """Compute the address to name for each frame: of a caller the one before it returns to, inside its call.

    The first frame of each half, the kernel's and the program's, is where it was, and stays.
    """
    is_exact = np.zeros(len(samples.addresses), bool)
    begins = samples.chain_starts.astype(np.int64)
    lengths = samples.chain_lengths.astype(np.int64)
    in_kernel = samples.kernel_frames.astype(np.int64)
    is_exact[begins[lengths > 0]] = True
    is_exact[(begins + in_kernel)[in_kernel < lengths]] = True
    return samples.addresses - (~is_exact & (samples.addresses > 0)).astype(np.uint64)


def make_stacks(samples: Samples, symboliser: Symboliser, stacks: Stacks) -> npt.NDArray[np.int64]:
    """Return the number of each sample's stack in the run's table, -1 for one without a frame."""
    lengths = samples.chain_lengths.astype(np.int64)
    pids = np.repeat(samples.pid, lengths)
    times = np.repeat(samples.time.astype(np.int64), lengths)
    addresses = compute_addresses(samples)
    symbols = np.full(len(addresses), -1, np.int64)
    for pid in np.unique(pids).tolist():
        chosen = np.flatnonzero(pids == pid)
        symbols[chosen] = symboliser.resolve(pid, addresses[chosen], times[chosen]).symbol
    frames = _intern_frames(symbols, symboliser, stacks)
    return np.array(
        [
            stacks.intern(frames[begin : begin + length].tolist()) if length else -1
            for begin, length in zip(samples.chain_starts.tolist(), lengths.tolist(), strict=True)
        ],
        np.int64,
    )


def _intern_frames(symbols: npt.NDArray[np.int64], symboliser: Symboliser, stacks: Stacks) -> npt.NDArray[np.int64]:
    numbers, places = np.unique(symbols, return_inverse=True)
    codes: Sequence[int] = [_intern_frame(number, symboliser, stacks) for number in numbers.tolist()]
    return np.array(codes, np.int64)[places.reshape(-1)]


def _intern_frame(number: int, symboliser: Symboliser, stacks: Stacks) -> int:
    symbol = symboliser.symbols[number]
    return stacks.intern_frame(Frame(symbol.label, symbol.path, symbol.named_by, symbol.build_id))
