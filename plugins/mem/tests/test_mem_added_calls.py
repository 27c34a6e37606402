"""Calls of an allocator that are alike, added up."""

from __future__ import annotations

import itertools

import numpy as np
import omn_mem.added_calls
import pytest
from omn_kernel.injected.heap_records import AddedUp, HeapRecords
from omn_kernel.injected.memory import PART, Part
from omn_mem.added_calls import AddedCalls
from omn_mem.heap_events import find_calls
from omn_mem.programs.heap import FREE, MALLOC, OPERATIONS, REALLOC

RECORD = np.dtype([("ns", "u8"), ("bytes", "u8"), ("addr", "u8"), ("given", "u8"), ("op", "u4"), ("stack", "u4")])
CALLS = np.array(
    [
        (1, 8, 0x10, 0, MALLOC, 5),
        (2, 8, 0x20, 0, MALLOC, 5),
        (3, 8, 0, 0, MALLOC, 5),
        (4, 9, 0x30, 0, MALLOC, 5),
        (5, 0, 0, 0x30, FREE, 0),
        (6, 0, 0, 0x20, REALLOC, 5),
    ],
    RECORD,
)


@pytest.mark.parametrize("most_rows", [1, 1 << 17])
def test_what_is_alike_is_one_row(monkeypatch: pytest.MonkeyPatch, most_rows: int) -> None:
    """By size, caller, thread and name, and whether it was had; whether rows of readings are joined or not."""
    monkeypatch.setattr(omn_mem.added_calls, "_MOST_ROWS", most_rows)
    owners = np.zeros(len(CALLS), PART)
    owners["name"] = b"one"
    others = owners.copy()
    others["thread"] = 7
    added = AddedCalls(CALLS[:0], owners[:0])
    # One reading's rows: the first is of two calls that were alike.
    rows_of_reading, weights_of_reading = [0, 2, 3], np.array([2, 1, 1])
    for whose in (owners, others, owners):
        added.add(AddedUp(CALLS[rows_of_reading], whose[rows_of_reading], weights_of_reading, frees=1))
    added.keep_apart(CALLS, owners)
    records, told, weights = added.read()
    rows: dict[tuple[int, int, bool], int] = {}
    for record, owner, weight in zip(records, told, weights.tolist(), strict=True):
        key = int(owner["thread"]), int(record["bytes"]), bool(record["addr"])
        rows[key] = rows.get(key, 0) + weight
    assert rows == {
        (0, 8, True): 6,
        (0, 8, False): 3,
        (0, 9, True): 3,
        (7, 8, True): 2,
        (7, 8, False): 1,
        (7, 9, True): 1,
    }
    assert added.frees == 3
    # What comes after the last reading stays apart, each with its own time; what was no call for a block is not there.
    assert (weights[-4:].tolist(), records["ns"][-4:].tolist()) == ([1] * 4, [1, 2, 3, 4])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_added_up_while_it_comes_is_what_is_found_after(operation: int) -> None:
    """Both tell a call that was to make a block from one that gave back: of each function, asked and answered so."""
    asked, made, handed = ((0, 8), (0, 0x10), (0, 0x20))
    for size, block, given in itertools.product(asked, made, handed):
        words = {FREE: (given,), REALLOC: (block, size, given, 1)}.get(operation, (block, size))
        content = np.array([operation, *words], np.uint64).view(np.uint8)
        part = Part(content, np.array([(4, 40, len(content), b"one", 0)], PART))
        records, _ = HeapRecords().read([part])
        assert len(records) == 1
        added = HeapRecords().add_up(part)
        assert (added.weights.tolist(), added.frees) == ([1] * int(find_calls(records).sum()), int(operation == FREE))
