"""What tasks called themselves when: one at a time, and of many samples at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_kernel.perf.task_names import TaskNames

TASKS = st.integers(1, 5)
TIMES = st.integers(0, 40)


@pytest.mark.spec("EVT-1", "EVT-5")
@given(st.lists(st.tuples(TIMES, TASKS, st.binary(max_size=3))), st.lists(st.tuples(TASKS, TIMES), max_size=60))
def test_many_names_are_those_that_are_found_one_by_one(
    notes: list[tuple[int, int, bytes]], asked: list[tuple[int, int]]
) -> None:
    """Whoever took a name, in whatever order the samples stand: the last before each, the first where none was yet."""
    names = TaskNames("/")
    for ts_ns, tid, comm in sorted(notes):
        names.note(tid, comm, ts_ns)
    rows = np.array(asked, np.int64).reshape(-1, 2)
    listed, places = names.list_at(rows[:, 0].astype(np.int32), rows[:, 1])
    assert [listed[place] for place in places.tolist()] == [names.find(tid, ts_ns) for tid, ts_ns in asked]
    assert len(listed) <= len(notes) + len({tid for tid, _ in asked})


def test_a_task_begins_with_the_name_of_the_one_that_made_it() -> None:
    """And an earlier task of its number is another."""
    names = TaskNames("/")
    names.note(7, b"old", 1)
    names.note(5, b"shell", 2)
    names.note_start(5, 7, 10)
    names.note(7, b"new", 20)
    listed, places = names.list_at(np.array([7, 7, 5, 9]), np.array([15, 20, 30, 1]))
    assert [listed[place] for place in places.tolist()] == [b"shell", b"new", b"shell", None]
