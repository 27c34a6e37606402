"""Counters that grow, appear, vanish and step back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_kernel.counters import Account, Accounts, Growth, Misses


def make_accounts(misses: Misses | None = None) -> Accounts[int]:
    return Accounts(misses or Misses(), lambda cpu: f"cpu {cpu}")


def test_growth_is_since_the_reading_before() -> None:
    """Two readings give two intervals, each over its own length; the first reading is a baseline."""
    misses = Misses()
    account = Account("this test", misses)
    assert account.advance({"a": 5}, 1000) is None
    assert account.advance({"a": 9}, 1500) == Growth(500, {"a": 4})
    assert account.advance({"a": 9}, 1500) == Growth(1, {"a": 0})
    assert misses.to_losses().is_empty


@pytest.mark.spec("EVT-5")
def test_a_step_back_leaves_the_interval_unknown_and_is_counted() -> None:
    """It neither reads negative nor as zero nor takes from the interval after it; the loss names the counter."""
    misses = Misses()
    account = Account("this test", misses)
    account.advance({"a": 100, "b": 1}, 0)
    assert account.advance({"a": 40, "b": 2}, 10) is None
    assert account.advance({"a": 45, "b": 2}, 20) == Growth(10, {"a": 5, "b": 0})
    assert misses.to_losses().failed_reads == 1
    assert misses.reasons == ["the kernel's a of this test stepped back, and that interval is unknown"]


def test_a_step_back_of_one_account_leaves_the_others() -> None:
    """Each row stands on its own counters."""
    misses = Misses()
    accounts = make_accounts(misses)
    accounts.advance({0: {"a": 10}, 1: {"a": 10}}, 0)
    assert accounts.advance({0: {"a": 9}, 1: {"a": 12}}, 5) == {1: Growth(5, {"a": 2})}
    assert misses.reasons == ["the kernel's a of cpu 0 stepped back, and that interval is unknown"]


def test_a_reason_is_said_once_and_every_miss_counted() -> None:
    """Two misses of one kind are two failed readings with one reason."""
    misses = Misses()
    misses.note("gone")
    misses.note("gone")
    losses = misses.to_losses()
    assert (losses.failed_reads, losses.reasons) == (2, ("gone",))


def test_a_counter_that_appears_is_left_out_of_its_first_interval() -> None:
    """A cpu plugged in mid-run starts at its first reading: its count until then is nobody's interval."""
    accounts = make_accounts()
    accounts.advance({0: {"a": 10}}, 0)
    assert accounts.advance({0: {"a": 11}, 1: {"a": 5000}}, 1) == {0: Growth(1, {"a": 1})}
    assert accounts.advance({0: {"a": 12}, 1: {"a": 5001}}, 2) == {0: Growth(1, {"a": 1}), 1: Growth(1, {"a": 1})}
    account = Account("this test", Misses())
    account.advance({"a": 1}, 0)
    assert account.advance({"a": 2, "b": 7}, 1) == Growth(1, {"a": 1})


def test_a_counter_that_vanished_and_came_back_starts_anew() -> None:
    """A cpu that was offline for an interval is not billed for it."""
    accounts = make_accounts()
    accounts.advance({0: {"a": 10}, 1: {"a": 10}}, 0)
    assert accounts.advance({0: {"a": 11}}, 1) == {0: Growth(1, {"a": 1})}
    assert accounts.advance({0: {"a": 12}, 1: {"a": 90}}, 2) == {0: Growth(1, {"a": 1})}


@pytest.mark.spec("EVT-5")
@given(st.lists(st.dictionaries(st.integers(0, 3), st.integers(0, 2**64 - 1)), min_size=1))
def test_no_sequence_of_readings_grows_by_less_than_nothing(readings: list[dict[int, int]]) -> None:
    """Whatever is read, an interval is between zero and the reading itself, or counted as unknown."""
    misses = Misses()
    accounts = make_accounts(misses)
    backwards = 0
    for before, reading in zip([{}, *readings], readings, strict=False):
        backwards += sum(value < before.get(cpu, 0) for cpu, value in reading.items())
        for cpu, growth in accounts.advance({cpu: {"a": value} for cpu, value in reading.items()}, 0).items():
            assert 0 <= growth.by["a"] <= reading[cpu]
    assert misses.count == backwards


def test_a_counter_that_starts_over_goes_on_growing() -> None:
    """The kernel's 32 bits end and begin at zero: what lies between is growth, past the end and again later."""
    misses = Misses()
    account = Account("sda", misses, {"busy_ms": 1 << 32})
    account.advance({"busy_ms": (1 << 32) - 10, "reads": 5}, 0)
    assert account.advance({"busy_ms": 15, "reads": 5}, 10) == Growth(10, {"busy_ms": 25, "reads": 0})
    assert account.advance({"busy_ms": 17, "reads": 6}, 20) == Growth(10, {"busy_ms": 2, "reads": 1})
    assert misses.to_losses().is_empty


@pytest.mark.spec("EVT-5")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"busy_ms": 5000, "reads": 5}, {"busy_ms": 10, "reads": 5}),
        ({"busy_ms": (1 << 32) - 10, "reads": 5}, {"busy_ms": 15, "reads": 4}),
    ],
)
def test_an_account_that_began_anew_is_no_counter_that_started_over(
    before: dict[str, int], after: dict[str, int]
) -> None:
    """Further from its end than half of it, or beside another counter that stepped back, it is a step back."""
    misses = Misses()
    account = Account("sda", misses, {"busy_ms": 1 << 32})
    account.advance(before, 0)
    assert account.advance(after, 10) is None
    assert misses.to_losses().failed_reads == 1
