"""How sure a difference is: tails against tables, and false verdicts counted over many pairs that do not differ."""

from __future__ import annotations

import math

import numpy as np
import pytest

from omn_core.diff.model import LESS, MORE, Figure, Row
from omn_core.diff.rows import BOUND, FEW, compare_rows
from omn_core.diff.statistics import FALSE_RATE, choose_certain, compare, compute_t_tail

PAIRS, FUNCTIONS = 1000, 20


def make_figure(*counts: float, factor: float = 1.0, is_bound: bool = False) -> Figure:
    """Make the figure of so many samples of a millisecond in each run, each run so much slower."""
    values = tuple(count * factor for count in counts)
    noises = tuple(count * factor**2 for count in counts)
    return Figure(values, noises, step=factor, events=sum(counts) / len(counts), is_bound=is_bound)


def make_row(a: Figure, b: Figure, name: str = "f") -> Row:
    return Row({"function": name}, a, b, b.mean - a.mean)


@pytest.mark.parametrize(
    ("t", "degrees", "chance"),
    [
        (12.706, 1, 0.05),
        (2.776, 4, 0.05),
        (4.604, 4, 0.01),
        (3.169, 10, 0.01),
        (2.042, 30, 0.05),
        (1.96, 1e7, 0.05),
        (31.599, 2, 0.001),
    ],
)
def test_the_tail_of_students_t_is_that_of_the_tables(t: float, degrees: float, chance: float) -> None:
    """The two-sided critical values that every table prints."""
    assert compute_t_tail(t, degrees) == pytest.approx(chance, rel=2e-3)
    assert compute_t_tail(-t, degrees) == compute_t_tail(t, degrees)
    assert compute_t_tail(0.0, degrees) == pytest.approx(1.0)


@pytest.mark.spec("DIF-1")
def test_between_runs_the_test_is_welchs() -> None:
    """The example of Welch's own kind: unequal spreads, unequal numbers of runs."""
    a, b = (Figure(values) for values in ((3.0, 4.0, 1.0, 2.1), (490.2, 340.0, 433.9)))
    outcome = compare(a, b)
    assert outcome is not None
    assert outcome.p == pytest.approx(0.0107515, rel=1e-4)  # R: t.test(c(3,4,1,2.1), c(490.2,340,433.9))


@pytest.mark.spec("DIF-1")
def test_between_runs_no_error_is_less_than_what_counting_makes() -> None:
    """Runs that happen to agree do not make counts of a hundred exact."""
    agreeing = compare(make_figure(100, 100), make_figure(109, 109))
    assert agreeing is not None
    assert agreeing.error == pytest.approx(math.sqrt(50 + 54.5))
    assert compare(Figure((5.0, 5.0)), Figure((6.0, 6.0))) is None


@pytest.mark.spec("DIF-1")
def test_within_one_run_the_error_is_that_of_counting() -> None:
    """A run a side: a count of n is known to its root, and a figure that counts nothing is not tested."""
    outcome = compare(make_figure(400), make_figure(500))
    assert outcome is not None
    assert outcome.error == pytest.approx(30.0)
    assert outcome.p == pytest.approx(math.erfc(99 / 30 / math.sqrt(2)))
    assert compare(Figure((5.0,)), Figure((6.0,))) is None


def test_what_is_certain_among_many_is_chosen_by_its_rank() -> None:
    """The step-up of Benjamini and Hochberg: a chance past its own limit is held by a later one that keeps to its."""
    assert choose_certain([0.04, 0.02, 0.001, None, 0.9], rate=0.08) == [True, True, True, False, False]
    assert choose_certain([0.04, 0.6, 0.7, 0.9], rate=0.08) == [False] * 4
    assert choose_certain([None]) == [False]


def allow(pairs: int) -> int:
    """Return how many false pairs are likely: the binomial's 99.99 % point is below mean plus four deviations."""
    return math.ceil(pairs * FALSE_RATE + 4 * math.sqrt(pairs * FALSE_RATE))


@pytest.mark.spec("DIF-1")
@pytest.mark.parametrize("runs", [1, 2, 3, 5])
def test_the_same_program_twice_has_no_verdict_but_for_one_pair_in_a_hundred(runs: int) -> None:
    """Profiles drawn from one program: counts that are Poisson's, of runs that are each a few percent slower or not.

    Within one run the machine's own noise is no part of what is tested, and none is drawn.
    """
    draw = np.random.default_rng(20_261_130 + runs)
    shares = 3000 / np.arange(1, FUNCTIONS + 1)
    false_pairs = 0
    for _ in range(PAIRS):
        slower = draw.normal(1, 0.05 if runs > 1 else 0, (2, runs, 1)) * draw.normal(
            1, 0.02 if runs > 1 else 0, (2, runs, FUNCTIONS)
        )
        counts = draw.poisson(shares * slower)
        rows = [
            make_row(*(make_figure(*map(float, counts[side, :, place])) for side in (0, 1)), name=str(place))
            for place in range(FUNCTIONS)
        ]
        _, judged = compare_rows(rows)
        false_pairs += any(row.verdict for row in judged)
    assert false_pairs <= allow(PAIRS)


@pytest.mark.spec("DIF-1")
@pytest.mark.parametrize("runs", [1, 5])
def test_a_share_that_moved_from_seventy_to_fifty_is_always_seen(runs: int) -> None:
    """A thousand samples a run, 70/30 made 50/50: each of a hundred pairs has both verdicts and the right ones."""
    draw = np.random.default_rng(7)
    for _ in range(100):
        counts = draw.poisson([[[700.0, 300.0]] * runs, [[500.0, 500.0]] * runs])
        rows = [make_row(make_figure(*counts[0, :, place]), make_figure(*counts[1, :, place])) for place in (0, 1)]
        verdicts = {row.difference > 0: row.verdict for row in compare_rows(rows)[1]}
        assert verdicts == {False: LESS, True: MORE}


@pytest.mark.spec("DIF-1")
def test_a_row_of_under_ten_samples_a_run_on_both_sides_is_flagged_and_not_tested() -> None:
    """Nine against nothing is listed last, whatever it looks like; ten on one side are tested."""
    rows = [
        make_row(make_figure(9), make_figure(0), "few"),
        make_row(make_figure(9), make_figure(100), "many"),
        make_row(make_figure(9.5, 9.5), make_figure(0, 0), "few runs"),
    ]
    _, judged = compare_rows(rows)
    assert [(row.name["function"], row.flag, row.p is None) for row in judged] == [
        ("many", None, False),
        ("few runs", FEW, True),
        ("few", FEW, True),
    ]


@pytest.mark.spec("DIF-1", "EMT-3")
def test_a_lower_bound_is_not_said_to_be_less() -> None:
    """What was lost may be the difference: no verdict where the lesser side lost something, one where the other did."""
    lossy = make_figure(500, is_bound=True)
    ((hidden,), (kept,)) = (
        compare_rows([make_row(make_figure(1000), lossy)])[1],
        compare_rows([make_row(make_figure(100), lossy)])[1],
    )
    assert (hidden.verdict, hidden.flag) == (None, BOUND)
    assert (kept.verdict, kept.flag) == (MORE, None)
