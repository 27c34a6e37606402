"""Tolerances, and the four ways a pair can go."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.agreement import compute_agreement
from reference.load import load_pairs
from reference.model import Pair, Tolerance
from reference.verdict import State, Verdict, judge

pytestmark = pytest.mark.spec("BEN-1")
FIGURES = st.floats(-1e12, 1e12)


@pytest.fixture
def pair() -> Pair:
    """A pair of the tree, of bytes, within 1 %."""
    return next(one for one in load_pairs() if one.id == "mem-rss-ps")


@pytest.mark.parametrize(
    ("tolerance", "omn", "tool", "agrees"),
    [
        (Tolerance(relative=0.1), 110, 100, True),
        (Tolerance(relative=0.1), 111, 100, False),
        (Tolerance(absolute=5), 95, 100, True),
        (Tolerance(absolute=5), 94, 100, False),
        (Tolerance(relative=0.1, absolute=5), 4, 0, True),
        (Tolerance(relative=0.1, absolute=5), 910, 1000, True),
        (Tolerance(exact=True), 7, 7, True),
        (Tolerance(exact=True), 7, 8, False),
        (Tolerance(relative=0.1, side="above", reason="it sees more"), 109, 100, True),
        (Tolerance(relative=0.1, side="above", reason="it sees more"), 99.99, 100, False),
        (Tolerance(relative=0.1, side="above", reason="it sees more"), 100, 100, True),
        (Tolerance(relative=0.1, side="below", reason="it sees less"), 91, 100, True),
        (Tolerance(relative=0.1, side="below", reason="it sees less"), 100.01, 100, False),
        (Tolerance(log2_buckets=1), 3, 1, True),
        (Tolerance(log2_buckets=1), 4, 1, False),
        (Tolerance(log2_buckets=1), 0, 1, False),
        (Tolerance(log2_buckets=64), 0, 0, False),
    ],
)
def test_figures_agree_within_what_is_allowed(tolerance: Tolerance, omn: float, tool: float, agrees: bool) -> None:
    """The larger of the two bounds; nothing on the wrong side; no bucket for what is not above 0."""
    assert compute_agreement(omn, tool, tolerance) is agrees


@given(omn=FIGURES, tool=FIGURES, relative=st.floats(0, 1), absolute=st.floats(0, 1e9))
def test_a_side_takes_away_and_never_adds(omn: float, tool: float, relative: float, absolute: float) -> None:
    """What agrees on a side agrees without one, and what agrees without one agrees on one of the two sides."""
    free = compute_agreement(omn, tool, Tolerance(relative, absolute))
    sides = [
        compute_agreement(omn, tool, Tolerance(relative, absolute, side=side, reason="so it is"))
        for side in ("above", "below")
    ]
    assert free is any(sides)


def test_a_verdict_says_both_figures_and_what_is_allowed(pair: Pair) -> None:
    """In the pair's unit, as text output scales it."""
    assert str(judge(pair, 208.5 * 2**20, 208.4 * 2**20)) == (
        "PASS mem.rss vs ps -o rss: 208.5 MiB / 208.4 MiB, within 1 %"
    )
    assert str(judge(pair, 2**20, 2**21)) == "FAIL mem.rss vs ps -o rss: 1 MiB / 2 MiB, not within 1 %"
    assert str(Verdict(pair, State.SKIP, reason="ps is not installed here")) == (
        "SKIP mem.rss vs ps -o rss: ps is not installed here"
    )


def test_a_known_defect_excuses_numbers_and_fails_once_they_agree(pair: Pair) -> None:
    """A marker that outlives its defect would hide the next one."""
    marked = attrs.evolve(pair, known_defect="ps counts in the wrong unit")
    known = judge(marked, 1000, 2000)
    assert (known.state, known.reason) == (State.KNOWN, "ps counts in the wrong unit")
    gone = judge(marked, 1000, 1000)
    assert gone.state is State.FAIL
    assert "remove known_defect" in str(gone)
