"""Readings of intervals: a summary weighs each by how long it describes."""

from __future__ import annotations

import numpy as np
import pytest
from shapes import ask, make_batch

VALUES, LENGTHS = [0.3, 0.3, 1.0], [100_000_000, 100_000_000, 1_000_000]


@pytest.mark.spec("EMT-1", "RUN-10")
def test_a_share_over_a_short_interval_counts_for_as_long_as_it_lasted() -> None:
    """A 1 ms reading of 1.0 beside two of 0.3 over 100 ms leaves mean and percentiles at what the window held."""
    figures = ask("summary", make_batch(VALUES, interval_ns=LENGTHS), unit="ratio", adds_up=False)
    assert figures["count"] == 3
    assert figures["mean"] == pytest.approx(float(np.average(VALUES, weights=LENGTHS)))
    assert figures["p50"] == figures["p90"] == figures["p99"] == 0.3
    assert (figures["min"], figures["max"], figures["last"]) == (0.3, 1.0, 1.0)


def test_what_adds_up_is_counted_once_whatever_its_interval() -> None:
    """A delta of a counter is its own amount: its mean is over readings, and its total over all."""
    figures = ask("summary", make_batch([10, 20, 30], interval_ns=LENGTHS), unit="count", adds_up=True)
    assert (figures["mean"], figures["total"]) == (20, 60)


def test_a_time_is_not_weighed_by_its_interval() -> None:
    """One of 100 ms counts for no more than one of 1 ms."""
    figures = ask("summary", make_batch(LENGTHS, interval_ns=LENGTHS), unit="ns", adds_up=False)
    assert figures["mean"] == pytest.approx(sum(LENGTHS) / len(LENGTHS))
