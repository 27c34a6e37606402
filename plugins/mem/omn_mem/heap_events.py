"""The events of mem.heap.alloc, of what calls of an allocator came to, whoever recorded them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.columns import make_address_column, make_named_column

from omn_core.api import Column, Names
from omn_mem.block_lives import LIVE, compute_lives
from omn_mem.programs.heap import FREE, OPERATIONS, REALLOC

_MOST = np.uint64(np.iinfo(np.int64).max)
Records = npt.NDArray[Any]


@attrs.frozen(eq=False)
class HeapCalls:
    """The calls that were to make a block, when each one's was given back, and what all of them came to.

    `is_call` says which of the records they are.
    """

    is_call: npt.NDArray[np.bool_]
    calls: Records
    ended_ns: npt.NDArray[np.int64]
    counts: Mapping[str, int]

    def make_columns(self, names: Names) -> dict[str, Column]:
        """Make columns of what each made and how long that lived, or what it was refused."""
        made, ended = make_asked_columns(self.calls, names), self.ended_ns
        is_made = self.calls["addr"] != 0
        return {
            **made,
            "live_bytes": Column(np.where(is_made & (ended == LIVE), made["bytes"].values, 0)),
            "lifetime_ns": Column(ended - self.calls["ns"].astype(np.int64), is_made & (ended >= 0)),
            "addr": make_address_column(self.calls["addr"], names),
        }


def make_asked_columns(calls: Records, names: Names) -> dict[str, Column]:
    """Make columns of what calls asked for and had, whatever became of it."""
    is_made = calls["addr"] != 0
    asked = np.minimum(calls["bytes"], _MOST).astype(np.int64)
    return {
        "bytes": Column(np.where(is_made, asked, 0)),
        "allocations": Column(is_made.astype(np.int64)),
        "failed_bytes": Column(asked, ~is_made),
        "op": make_named_column(calls["op"].astype(np.int64), OPERATIONS.get, names),
    }


def compute_calls(records: Records, freed_ns: npt.NDArray[Any], closed_ns: int) -> HeapCalls:
    """Find the calls that were to make a block among records in the order of their stamps, and match what frees them.

    `freed_ns` is from when on a block that a record was handed may have been another's (`compute_lives`).
    """
    lives = compute_lives(records, freed_ns, closed_ns)
    is_call = find_calls(records)
    calls, ended_ns = records[is_call], lives.ended_ns[is_call]
    is_live = (ended_ns == LIVE) & (calls["addr"] != 0) & (calls["ns"] <= closed_ns)
    counts = {
        "frees": int(np.count_nonzero((records["op"] == FREE) & (records["ns"] <= closed_ns))),
        "frees_of_unknown": lives.unknown,
        "live": int(np.count_nonzero(is_live)),
        "live_bytes": int(calls["bytes"][is_live].sum()),
    }
    return HeapCalls(is_call, calls, ended_ns, counts)


def find_calls(records: Records) -> npt.NDArray[np.bool_]:
    """Find the calls that were to make a block: not free, nor realloc that was asked for nothing, which gives back."""
    is_asked_nothing = (records["op"] == REALLOC) & (records["bytes"] == 0) & (records["given"] != 0)
    found: npt.NDArray[np.bool_] = (records["op"] != FREE) & ~(is_asked_nothing & (records["addr"] == 0))
    return found
