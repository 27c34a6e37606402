"""Counters that grow, appear, vanish and step back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_kernel.counters import Counters


def test_growth_is_since_the_reading_before() -> None:
    """Two readings give two intervals."""
    counters = Counters({"a": 5})
    assert counters.advance({"a": 9}) == {"a": 4}
    assert counters.advance({"a": 9}) == {"a": 0}
    assert counters.facts() == ()


def test_a_step_back_is_zero_and_said() -> None:
    """A counter that steps back neither reads negative nor takes from the interval after it."""
    counters = Counters({"a": 100})
    assert counters.advance({"a": 40}) == {"a": 0}
    assert counters.advance({"a": 45}) == {"a": 5}
    assert counters.stepped_back == 1
    assert "stepped back once" in counters.facts()[0]


def test_a_counter_that_appears_is_left_out_of_its_first_interval() -> None:
    """A cpu plugged in mid-run starts at its first reading: its count until then is nobody's interval."""
    counters = Counters({0: 10})
    assert counters.advance({0: 11, 1: 5000}) == {0: 1}
    assert counters.advance({0: 12, 1: 5001}) == {0: 1, 1: 1}


def test_a_counter_that_vanished_and_came_back_starts_anew() -> None:
    """A cpu that was offline for an interval is not billed for it."""
    counters = Counters({0: 10, 1: 10})
    assert counters.advance({0: 11}) == {0: 1}
    assert counters.advance({0: 12, 1: 90}) == {0: 1}


@pytest.mark.spec("EVT-5")
@given(st.lists(st.dictionaries(st.integers(0, 3), st.integers(0, 2**64 - 1)), min_size=1))
def test_no_sequence_of_readings_grows_by_less_than_nothing(readings: list[dict[int, int]]) -> None:
    """Whatever is read, an interval is between zero and the reading itself."""
    counters = Counters(readings[0])
    for reading in readings[1:]:
        for name, grown in counters.advance(reading).items():
            assert 0 <= grown <= reading[name]
