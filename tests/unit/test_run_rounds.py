"""When readings are due, and which are swallowed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omn_core.run.rounds import Grid


def test_a_reading_is_due_one_interval_after_the_opening() -> None:
    """Nothing is due at the opening itself; ticks lie on the grid whatever the instant they were read at."""
    grid = Grid(1000, 100)
    assert not grid.take(1099)
    assert grid.take(1103)
    grid.settle(1104)
    assert grid.due_ns == 1200
    assert grid.take(1200)
    assert (grid.late, grid.swallowed) == (0, 0)


@pytest.mark.spec("RUN-6", "RUN-15")
def test_a_round_that_overruns_is_late_once_and_its_readings_are_counted_apart() -> None:
    """A reading that lasts over three ticks is one late round, three swallowed readings, and the grid has not moved."""
    grid = Grid(0, 100)
    assert grid.take(100)
    grid.settle(450)
    assert (grid.late, grid.swallowed) == (1, 3)
    assert grid.due_ns == 500


def test_a_reading_that_lasts_to_the_tick_after_swallows_that_one() -> None:
    """Ending on the next tick is overrunning the interval."""
    grid = Grid(0, 100)
    assert grid.take(100)
    grid.settle(200)
    assert (grid.late, grid.swallowed, grid.due_ns) == (1, 1, 300)


def test_a_request_kept_waiting_by_another_is_read_at_once() -> None:
    """Its tick came while another's reading lasted: it is read late, and only the ticks before that one are gone."""
    grid = Grid(0, 100)
    assert grid.take(370)
    grid.settle(371)
    assert (grid.late, grid.swallowed, grid.due_ns) == (1, 2, 400)


@pytest.mark.spec("RUN-6")
def test_a_round_that_came_late_and_overran_is_one_late_round() -> None:
    """The ticks before it and those it lasted past are all swallowed, by one round."""
    grid = Grid(0, 100)
    assert grid.take(370)
    grid.settle(650)
    assert (grid.late, grid.swallowed) == (1, 5)
    assert grid.take(900)
    assert (grid.late, grid.swallowed) == (2, 7)


@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=1, max_size=60),
)
def test_every_tick_is_read_or_swallowed(interval: int, steps: list[tuple[int, int]]) -> None:
    """Ticks passed = readings taken + readings swallowed; late rounds outnumber neither."""
    grid = Grid(7, interval)
    now, taken = 7, 0
    for wait, lasts in steps:
        now += wait
        if grid.take(now):
            taken += 1
            now += lasts
            grid.settle(now)
    passed = (now - 7) // interval
    waiting = passed - (grid.due_ns - 7) // interval + 1
    assert taken + grid.swallowed + waiting == passed
    assert 0 <= grid.late <= min(grid.swallowed, taken)
    assert grid.due_ns > 7
