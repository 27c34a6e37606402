"""Distinct stacks among many: each named once, none taken for another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_kernel.perf import alike
from omn_kernel.perf.alike import find_alike
from omn_kernel.perf.call_stacks import CallStacks

ROWS = st.lists(
    st.tuples(st.integers(1, 2), st.integers(0, 1), st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=3)),
    max_size=30,
)
Row = tuple[int, int, list[tuple[int, bool]]]


def lay_out(rows: list[Row]) -> tuple[np.ndarray, np.ndarray, CallStacks]:
    frames = [frame for _, _, stack in rows for frame in stack]
    calls = CallStacks(
        np.array([site for site, _ in frames], np.uint64),
        np.array([is_recovered for _, is_recovered in frames], bool),
        np.array([len(stack) for _, _, stack in rows], np.int64),
        np.zeros(len(rows), np.uint8),
    )
    return np.array([pid for pid, _, _ in rows], np.int32), np.array([age for _, age, _ in rows], np.int64), calls


@given(ROWS)
def test_each_distinct_stack_has_one_first_and_every_sample_one_like_it(rows: list[Row]) -> None:
    """Of one process, one age of its memory, the same frames and the same marks."""
    firsts, places = find_alike(*lay_out(rows))
    assert [rows[firsts[place]] for place in places.tolist()] == rows
    assert len(firsts) == len({(pid, age, tuple(stack)) for pid, age, stack in rows})


@given(ROWS)
def test_stacks_that_share_a_hash_are_not_taken_for_alike(rows: list[Row]) -> None:
    """Where the hash tells nothing apart, what is alike is still what is the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alike, "_compute_marks", lambda processes, *_: np.zeros(len(processes), np.uint64))
        firsts, places = find_alike(*lay_out(rows))
    assert [rows[firsts[place]] for place in places.tolist()] == rows
