"""Callers of the instructions that samples were taken at, walked natively over the stacks that were copied."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from omn_kernel.native._unwind import ffi, lib
from omn_kernel.unwind.copied import CopiedStacks
from omn_kernel.unwind.tables import FrameTable

_CHUNK_FRAMES = 1 << 18


class Ended(enum.IntEnum):
    """Why a walk ended: at the outermost frame, where the copy does, at code without or with bad tables, too deep."""

    ROOT = lib.OMN_ROOT
    STACK_END = lib.OMN_STACK_END
    NO_TABLE = lib.OMN_NO_TABLE
    BAD_TABLE = lib.OMN_BAD_TABLE
    TOO_DEEP = lib.OMN_TOO_DEEP


@attrs.frozen(eq=False, repr=False)
class CodeRange:
    """Executable memory: addresses less the bias are the object's own. Without a table no walk passes through it.

    `entry` is where the kernel begins to run the object, whose code there has no caller; 0 for none.
    """

    start: int
    end: int
    bias: int
    table: FrameTable | None
    entry: int = 0


class Found(enum.IntEnum):
    """What a walk by frame pointers makes of where a sample was taken.

    `FRAMED`: its caller is found by the frame pointer. `FRAMELESS`: it has set none up and the pointer is its caller's
    own, which is passed over. `CLOBBERED`: it holds something else there. `UNKNOWN`: its caller cannot be told.
    """

    FRAMED = lib.OMN_FRAMED
    FRAMELESS = lib.OMN_FRAMELESS
    CLOBBERED = lib.OMN_CLOBBERED
    UNKNOWN = lib.OMN_UNKNOWN


@attrs.frozen(eq=False, repr=False)
class Callers:
    """The address that each sample's code returns to, zero where it cannot be told, and what was `Found`."""

    addresses: NDArray[np.uint64]
    found: NDArray[np.uint8]


@attrs.frozen(eq=False, repr=False)
class Chains:
    """Walks of many samples: sample n's addresses are `addresses[ends[n-1]:ends[n]]`, innermost first.

    `is_exact` tells an address of the next instruction (the sample's own, what a signal interrupted, what its handler
    returns to) from one of the instruction after a call: the call itself, and its function, is at one less.
    """

    addresses: NDArray[np.uint64]
    is_exact: NDArray[np.bool_]
    ends: NDArray[np.int64]
    reasons: NDArray[np.uint8]

    def get_chain(self, sample: int) -> NDArray[np.uint64]:
        """Return one sample's addresses."""
        return self.addresses[(self.ends[sample - 1] if sample else 0) : self.ends[sample]]

    def compute_call_sites(self) -> NDArray[np.uint64]:
        """Compute what to name each frame by: the call rather than what follows it, which may be another function."""
        return self.addresses - ~self.is_exact


class Walker:
    """Walks samples of one memory, whose executable ranges do not overlap."""

    def __init__(self, ranges: Sequence[CodeRange]) -> None:
        tables = list({id(one.table): one.table for one in ranges if one.table is not None}.values())
        numbers = {id(table): number for number, table in enumerate(tables)}
        # What cffi's structures point to lives as long as they are kept.
        self._kept: list[object] = []
        self._tables = ffi.new("struct omn_frame_table[]", [self._lay_out(table) for table in tables])
        in_order = sorted(ranges, key=lambda one: one.start)
        self._ranges = ffi.new(
            "struct omn_frame_range[]",
            [(one.start, one.end, one.bias % (1 << 64), numbers.get(id(one.table), -1), one.entry) for one in in_order],
        )
        self._count = len(in_order)

    def _lay_out(self, table: FrameTable) -> tuple[object, ...]:
        content = ffi.from_buffer("uint8_t[]", table.content)
        columns = [ffi.from_buffer("uint64_t[]", column) for column in (table.starts, table.ends, table.entries)]
        self._kept += [table, content, *columns]
        return (content, len(table.content), table.address, table.debug_at, *columns, len(table.starts))

    def walk(self, copied: CopiedStacks, *, deepest: int = 1024) -> Chains:
        """Walk samples, each to at most so many addresses. The GIL is released while it walks."""
        chunk = max(_CHUNK_FRAMES // deepest, 1)
        parts = [self._walk(copied.take(slice(at, at + chunk)), deepest) for at in range(0, len(copied), chunk)]
        lengths = np.concatenate([np.empty(0, np.int64), *(part[2] for part in parts)])
        return Chains(
            addresses=np.concatenate([np.empty(0, np.uint64), *(part[0] for part in parts)]),
            is_exact=np.concatenate([np.empty(0, bool), *(part[1] for part in parts)]),
            ends=np.cumsum(lengths),
            reasons=np.concatenate([np.empty(0, np.uint8), *(part[3] for part in parts)]),
        )

    def find_callers(self, copied: CopiedStacks) -> Callers:
        """Find the caller of the code that each sample was taken at. The GIL is released meanwhile."""
        callers, kinds = np.zeros(len(copied), np.uint64), np.zeros(len(copied), np.uint8)
        lib.omn_find_callers(
            *self._given(copied), ffi.from_buffer("uint64_t[]", callers), ffi.from_buffer("uint8_t[]", kinds)
        )
        return Callers(callers, kinds)

    def _walk(
        self, copied: CopiedStacks, deepest: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool_], NDArray[np.int64], NDArray[np.uint8]]:
        count = len(copied)
        addresses, exact = np.empty((count, deepest), np.uint64), np.empty((count, deepest), np.uint8)
        lengths, reasons = np.empty(count, np.uint32), np.empty(count, np.uint8)
        lib.omn_unwind_many(
            *self._given(copied),
            ffi.from_buffer("uint64_t[]", addresses),
            ffi.from_buffer("uint8_t[]", exact),
            deepest,
            ffi.from_buffer("uint32_t[]", lengths),
            ffi.from_buffer("uint8_t[]", reasons),
        )
        longest = int(lengths.max(initial=0))  # few walks are near as deep as they may be
        walked = np.arange(longest) < lengths[:, None]
        kept, are_exact = addresses[:, :longest][walked], exact[:, :longest][walked]
        return kept, are_exact.astype(bool), lengths.astype(np.int64), reasons

    def _given(self, copied: CopiedStacks) -> tuple[Any, Any, int, int, Any, Any, Any, Any]:
        """Return what every native walk is given first."""
        columns = (copied.registers, copied.starts, copied.ends)
        registers, starts, ends = (ffi.from_buffer("uint64_t[]", np.ascontiguousarray(column)) for column in columns)
        stacks = ffi.from_buffer("uint8_t[]", copied.stacks)
        return self._tables, self._ranges, self._count, len(copied), registers, stacks, starts, ends
