"""Stacks that programs take, of the code that runs and of the kernel on its behalf, kept in the kernel by number."""

from __future__ import annotations

import errno
from typing import Any

import numpy as np
import numpy.typing as npt

from omn_core.api import Column, Names, Stacks
from omn_kernel.bpf.assembly import Assembly, Record
from omn_kernel.bpf.columns import make_named_column
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.registers import R0, R1, R2, R3, Register
from omn_kernel.perf.call_stacks import CallStacks, Ending, Half, join_halves
from omn_kernel.perf.chains import make_stacks
from omn_kernel.polled import read_file
from omn_kernel.symbols.symboliser import Symboliser

Array = npt.NDArray[Any]

STACK_FIELDS = [("kernel_stack", "i4"), ("user_stack", "i4")]
"""The fields of a record that `StackTable.take` fills: a number each, below zero where there is no stack."""

_USER_STACK = 1 << 8
"""BPF_F_USER_STACK of <linux/bpf.h>."""
_ENTRIES = 1 << 14
_OWN = ("bpf_prog_", "bpf_trampoline_", "bpf_trace_run", "__bpf_trace_", "__traceiter_")
_MOST_OWN_FRAMES = 8
"""What the kernel calls a program through, and how many such frames are looked for."""
_MOST_FRAMES = 127
_MOST_WAITING_FRAMES = 32
"""How deep a thread gives its cpu up, with what the kernel calls a program through."""
_KEY = np.dtype([("number", "u4")])


class StackTable:
    """The different stacks that programs took, each kept once. Raises MachineRefused where the kernel keeps none.

    `lost` counts stacks whose place another had. They are walked by frame pointers, as the kernel walks. Functions of
    the kernel that `passed_over` begin the names of are left out with the program's own, as far as they are innermost.
    """

    def __init__(self, passed_over: tuple[str, ...] = ()) -> None:
        self._own = (*_OWN, *passed_over)
        self._most_frames = min(_MOST_FRAMES, int(read_file("/", "/proc/sys/kernel/perf_event_max_stack")))
        value = np.dtype([("frames", "u8", (self._most_frames,))])
        self._table = Map(MapType.STACK_TRACE, "stacks", _KEY, value, _ENTRIES)
        self.lost = LostCounter()
        self._numbers = np.zeros(0, np.int64)
        self._frames = np.zeros((0, self._most_frames), np.uint64)

    def take(
        self,
        program: Assembly,
        record: Record,
        context: Register,
        *,
        is_user_only: bool = False,
        is_kernel_only: bool = False,
    ) -> None:
        """Emit what sets the stack's fields in a record to those of the task that runs. R0 to R5 hold nothing after it.

        `context` is a register that holds what R1 held when the program began. `is_user_only` leaves the kernel's part
        out, where it would be the same of every event; `is_kernel_only` that of the program, where it is anybody's.
        """
        halves = {"kernel_stack": 0, "user_stack": _USER_STACK}
        left_out = [name for name, is_left in zip(halves, (is_user_only, is_kernel_only), strict=True) if is_left]
        for field in left_out:
            del halves[field]
            program.set(record, field, -1)
        for field, flag in halves.items():
            program.move(R1, context)
            program.load_map(R2, self._table)
            program.move(R3, flag)
            program.call("get_stackid")
            program.set(record, field, R0)
            with program.when(R0, "==", -errno.EEXIST):
                self.lost.emit_count(program)

    def read(self) -> None:
        """Read the stacks that were taken, to be named when the maps are gone."""
        kept = self._table.read()
        order = np.argsort(kept.keys["number"])
        self._numbers = kept.keys["number"][order].astype(np.int64)
        self._frames = kept.values["frames"][order]

    def make_stacks(
        self, records: Array, processes: Array, symboliser: Symboliser, stacks: Stacks, callers: Array | None = None
    ) -> Array:
        """Return the number of each record's stack in the run's table, -1 for one that has none.

        `callers` says of stacks that were taken where a function is entered who called it: a function has set no frame
        up there, so that a walk passes its caller over. Such a stack begins with its caller.
        """
        kernel, user = (self._find_places(records[name]) for name in ("kernel_stack", "user_stack"))
        sites = kernel_sites = _make_sites(self._frames)
        if callers is not None:
            sites, user = _begin_with_callers(self._frames, user, callers)
        halves = [
            _make_half(kernel_sites, kernel, self._count_own_frames(symboliser)),
            _make_half(sites, user, np.zeros(len(sites), np.int64)),
        ]
        is_cut = halves[1].lengths >= self._most_frames
        calls_made: CallStacks = join_halves(halves, is_cut.astype(np.uint8) * np.uint8(Ending.CUT))
        return make_stacks(processes, records["ns"].astype(np.int64), calls_made, symboliser, stacks).numbers

    def find_waits(self, records: Array, symboliser: Symboliser, names: Names) -> Column:
        """Find the function of the kernel that each record's thread waits in (`Symboliser.find_waits`)."""
        asked, which = np.unique(self._find_places(records["kernel_stack"]), return_inverse=True)
        is_kept = asked < len(self._numbers)
        chains = _make_sites(self._frames)[asked[is_kept], :_MOST_WAITING_FRAMES]
        own = self._count_own_frames(symboliser)[asked[is_kept]]
        chains[np.arange(chains.shape[1]) < own[:, None]] = 0
        waits = np.full(len(asked), -1, np.int64)
        waits[is_kept] = symboliser.find_waits(chains)
        labels = (symbol.label for symbol in symboliser.symbols)
        return make_named_column(waits[which], dict(enumerate(labels)).get, names)

    def _count_own_frames(self, symboliser: Symboliser) -> Array:
        """Count, of each stack that was kept, the innermost frames that are the program's own, or passed over."""
        first = self._frames[:, :_MOST_OWN_FRAMES]
        times_ns = np.zeros(first.size, np.int64)
        symbols = symboliser.resolve(0, np.ascontiguousarray(first).reshape(-1), times_ns).symbol
        different, places = np.unique(symbols, return_inverse=True)
        is_own = np.array([symboliser.symbols[one].label.startswith(self._own) for one in different.tolist()], bool)
        marked = is_own[places.reshape(-1)].reshape(first.shape) & (first != 0)
        # A program that is unloaded has no name any more, and lies inside what called it.
        return np.where(marked.any(axis=1), first.shape[1] - marked[:, ::-1].argmax(axis=1), 0)

    def _find_places(self, numbers: Array) -> Array:
        """Find where stacks stand by their numbers: past the last for one that was not kept."""
        places = np.searchsorted(self._numbers, numbers)
        is_kept = places < len(self._numbers)
        is_kept[is_kept] = self._numbers[places[is_kept]] == numbers[is_kept]
        return np.where(is_kept, places, len(self._numbers))

    def close(self) -> None:
        """Let go of the maps. What they hold is lost."""
        self._table.close()
        self.lost.close()


def _make_sites(frames: Array) -> Array:
    """Return the frames of stacks as addresses inside the calls that were made."""
    sites = frames.copy()
    sites[:, 1:] -= (sites[:, 1:] != 0).astype(np.uint64)
    return sites


def _begin_with_callers(frames: Array, places: Array, callers: Array) -> tuple[Array, Array]:
    """Return sites that begin with a caller in place of the function that was entered, and which each record has."""
    pairs, which = np.unique(np.stack([places.astype(np.uint64), callers]), axis=1, return_inverse=True)
    width = frames.shape[1]
    padded = np.zeros((len(frames) + 1, width + 1), np.uint64)
    padded[:-1, :width] = frames
    taken = padded[pairs[0].astype(np.int64)]
    # Kernels since 6.11 find the caller themselves at some functions' entries.
    is_found = (taken[:, 1] == pairs[1])[:, np.newaxis]
    rest = np.where(is_found, taken[:, 2:], taken[:, 1:-1])
    whole = np.concatenate([pairs[1][:, np.newaxis], rest], axis=1)
    return whole - (whole != 0).astype(np.uint64), which.reshape(-1)


def _make_half(sites: Array, places: Array, skipped: Array) -> Half:
    """Make the sites of records' stacks, so many of each left out."""
    starts = np.append(skipped, 0)
    lengths = np.append((sites != 0).sum(axis=1), 0) - starts
    begins = places * sites.shape[1] + starts[places]
    return Half(sites.reshape(-1), np.zeros(sites.size, bool), begins, lengths[places])
