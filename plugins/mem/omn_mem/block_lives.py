"""Which allocations were given back, and when: frees matched to what they free, over all that a program did."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from omn_mem.programs.heap import FREE, REALLOC

Array = npt.NDArray[Any]
LIVE, REPLACED = -1, -2
"""An allocation's end where it has none, and where nobody saw it: its address was handed out again."""
_END = np.dtype([("process", "i8"), ("address", "u8"), ("ns", "i8"), ("is_made", "?"), ("record", "i8")])


@attrs.frozen(eq=False)
class Lives:
    """Of each allocation when it was given back, or `LIVE` or `REPLACED`; and how many frees were of none of them."""

    ended_ns: npt.NDArray[np.int64]
    unknown: int


def compute_lives(records: Array, freed_ns: Array, until_ns: int) -> Lives:
    """Match the blocks that are given back to the calls that made them, of records in the order of their stamps.

    A block is given back by free, and by realloc that made another or was asked for nothing: from `freed_ns` on, which
    may be before the record's own stamp, its address may be another block's. What happens after `until_ns` has not
    happened.
    """
    operation = records["op"]
    is_made = (operation != FREE) & (records["addr"] != 0)
    is_moved = (operation == REALLOC) & (records["given"] != 0) & ((records["addr"] != 0) | (records["bytes"] == 0))
    is_freed = ((operation == FREE) | is_moved) & (records["ns"] <= until_ns)
    made, freed = np.flatnonzero(is_made), np.flatnonzero(is_freed)
    ends = _order(records, freed_ns, made, freed)
    ended = np.full(len(records), LIVE, np.int64)
    before, after = ends[:-1], ends[1:]
    is_same = (before["process"] == after["process"]) & (before["address"] == after["address"]) & before["is_made"]
    is_end = is_same & ~after["is_made"]
    ended[before["record"][is_end]] = after["ns"][is_end]
    ended[before["record"][is_same & after["is_made"]]] = REPLACED
    return Lives(ended, len(freed) - int(np.count_nonzero(is_end)))


def _order(records: Array, freed_ns: Array, made: Array, freed: Array) -> Array:
    """Order what was made and freed by process and address, at each by time, a free before what is made at one time."""
    which = np.concatenate([made, freed])
    ends = np.empty(len(which), _END)
    ends["record"] = which
    ends["process"] = records["process"][which]
    ends["ns"] = np.concatenate([records["ns"][made], freed_ns[freed]])
    ends["address"] = np.concatenate([records["addr"][made], records["given"][freed]])
    ends["is_made"] = np.arange(len(which)) < len(made)
    return ends[np.lexsort([ends[name] for name in ("is_made", "ns", "address", "process")])]
