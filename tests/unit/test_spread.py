"""The spread of a figure over runs, against the statistics that the standard library computes."""

from __future__ import annotations

import io
import math
import statistics
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapes import make_batch, make_document, make_result
from stack_runs import make_row, make_stack_result

from omn_core.emit.spread import compute_repeat, compute_spread, say_runs
from omn_core.format.as_json import JSON
from omn_core.format.as_ndjson import NDJSON
from omn_core.format.as_text import TEXT
from omn_core.format.as_toml import TOML
from omn_core.format.as_yaml import YAML
from omn_core.format.plain import compute_plain
from omn_core.model.losses import Losses
from omn_core.model.result import Document, Result
from omn_core.model.style import TextStyle

FIGURES = st.one_of(st.integers(-(10**12), 10**12), st.floats(-1e12, 1e12))


def make_repeated(*results: Result) -> Document:
    """Make the document of a session that was run once for each result."""
    runs = tuple(make_document(result) for result in results)
    repeat = compute_repeat(list(enumerate(results, 1)))
    last = attrs.evolve(runs[-1].results[0], repeat=repeat)
    return attrs.evolve(runs[-1], results=(last,), repeats=runs)


def render(encoder: Any, document: Document) -> str:
    stream = io.BytesIO()
    encoder.write(document, stream, TextStyle())
    return stream.getvalue().decode()


@pytest.mark.spec("RUN-12")
@given(st.lists(FIGURES, min_size=2, max_size=20))
def test_the_spread_is_the_statistics_of_the_sample(values: list[float]) -> None:
    """Mean, sample deviation, extremes, and the error of the mean as a share of it, as perf states it."""
    spread = compute_spread({}, values)
    near = {"rel_tol": 1e-6, "abs_tol": 1e-3}
    assert spread.mean is not None
    assert spread.deviation is not None
    assert math.isclose(spread.mean, statistics.fmean(values), **near)
    assert math.isclose(spread.deviation, statistics.stdev(map(float, values)), **near)
    assert (spread.min, spread.max, spread.runs) == (min(values), max(values), len(values))
    if spread.mean:
        error = spread.deviation / math.sqrt(len(values)) / abs(spread.mean)
        assert spread.relative_error is not None
        assert math.isclose(spread.relative_error, error, rel_tol=1e-9)
    else:
        assert spread.relative_error is None


@pytest.mark.spec("RUN-12")
def test_what_no_run_gave_is_not_known() -> None:
    """One run has no deviation; a run without the figure is left out and counted; no figure at all is no zero."""
    assert attrs.astuple(compute_spread({}, [5])) == ({}, 1, 5.0, None, 5, 5, None, (5,), {})
    assert attrs.astuple(compute_spread({}, [None, 2, 4])) == (
        {},
        2,
        3.0,
        math.sqrt(2),
        2,
        4,
        pytest.approx(1 / 3),
        (None, 2, 4),
        {},
    )
    assert attrs.astuple(compute_spread({}, [None])) == ({}, 0, None, None, None, None, None, (None,), {})
    assert compute_spread({}, [-1, 1]).relative_error is None


@pytest.mark.spec("RUN-12", "REQ-15")
@pytest.mark.parametrize(
    ("emits", "adds_up", "figure", "mean"),
    [
        (["summary"], True, ("summary", "total"), 25.0),
        (["summary"], False, ("summary", "mean"), 12.5),
        (["hist", "count", "summary"], True, ("count", "value"), 25.0),
        (["hist"], True, (None, None), None),
    ],
)
def test_a_totals_spread_is_of_totals_and_a_levels_of_means(
    emits: list[str], adds_up: bool, figure: Any, mean: float | None
) -> None:
    """The first summary or count that was asked gives the figure that stands for a series."""
    mode = "count" if "count" in emits else "poll"
    results = [make_result(make_batch(values), emits, adds_up=adds_up, mode=mode) for values in ([10, 10], [10, 20])]
    repeat = compute_repeat(list(enumerate(results, 1)))
    assert repeat is not None
    assert (repeat.emit, repeat.figure) == figure
    assert [series.mean for series in repeat.series] == ([] if mean is None else [mean])


@pytest.mark.spec("RUN-12")
def test_a_profiles_spread_is_of_its_functions() -> None:
    """By the innermost: without a stack of it a function weighs 0 in a run whose series was profiled, else nothing."""
    runs = (
        {"7": [make_row(["hot", "main"], 60), make_row(["hot"], 10), make_row(["cold", "main"], 30)]},
        {"7": [make_row(["hot", "main"], 90), make_row([], 2)], "8": [make_row(["cold"], 5)]},
    )
    repeat = compute_repeat([(number, make_stack_result(run)) for number, run in enumerate(runs, 1)])
    assert repeat is not None
    assert (repeat.emit, repeat.figure) == ("stack", "weight")
    assert {(one.key["task"], one.key["func"]): (one.values, one.mean) for one in repeat.series} == {
        ("7", "hot"): ((70, 90), 80),
        ("7", "cold"): ((30, 0), 15),
        ("7", None): ((0, 2), 1),
        ("8", "cold"): ((None, 5), 5),
    }
    text = render(TEXT, make_repeated(*(make_stack_result(run) for run in runs)))
    assert "stack's weight in each of 2 runs" in text


@pytest.mark.spec("RUN-12", "RUN-6")
def test_runs_that_lost_differently_are_said_to_be_no_equals() -> None:
    """Each run's losses are in the notes, with what they mean for the spread; a failed one is in no spread."""
    lost = Losses(failed_reads=2, reasons=("two reads failed",))
    whole = make_result(make_batch([10, 20]))
    results = [whole, make_result(make_batch([10]), losses=lost), attrs.evolve(whole, failure="it broke")]
    repeat = compute_repeat(list(enumerate(results, 1)))
    assert repeat is not None
    assert repeat.runs == 2
    assert repeat.notes == (
        "run 3 failed, and is in no spread",
        "lost nothing in run 1; 2 failed_reads in run 2: the spread is over runs that lost different amounts",
    )
    assert compute_repeat([(1, results[2])]) is None


@pytest.mark.spec("RUN-12", "FMT-1")
def test_every_format_carries_the_spread_and_every_run() -> None:
    """JSON, YAML, TOML and NDJSON hold the same spread and the same runs, each a whole document."""
    import json
    import tomllib

    import ruamel.yaml

    keys = {"task": [1, 2]}
    document = make_repeated(*(make_result(make_batch(two, keys=keys), keys=["task"]) for two in ([1, 2], [3, 4])))
    plain = compute_plain(document)
    assert [one["key"] for one in plain["results"][0]["repeat"]["series"]] == [{"task": 1}, {"task": 2}]
    assert plain["repeats"] == [compute_plain(run) for run in document.repeats]
    assert json.loads(render(JSON, document)) == plain
    assert ruamel.yaml.YAML(typ="safe", pure=True).load(render(YAML, document)) == plain
    assert json.loads(render(NDJSON, document).splitlines()[-1])["repeats"] == plain["repeats"]
    loaded = tomllib.loads(render(TOML, document))
    assert loaded["results"][0]["repeat"]["series"][0]["mean"] == 2.0
    assert [run["results"][0]["events_seen"] for run in loaded["repeats"]] == [2, 2]


@pytest.mark.spec("RUN-12", "FMT-3")
def test_text_shows_the_spread_of_each_series_greatest_first() -> None:
    """One line a series with how many runs had it, and for a single series what each run gave."""
    batches = [make_batch([1024, 4096], keys={"task": [1, 2]}), make_batch([3072], keys={"task": [1]})]
    text = render(TEXT, make_repeated(*(make_result(batch, keys=["task"]) for batch in batches)))
    lines = [line.split() for line in text.splitlines()]
    head = lines.index(["task", "mean", "error", "deviation", "min", "max", "runs"])
    assert lines[head + 1] == ["2", "4", "KiB", "-", "-", "4", "KiB", "4", "KiB", "1"]
    assert lines[head + 2] == ["1", "2", "KiB", "50", "%", "1.414", "KiB", "1", "KiB", "3", "KiB"]
    assert "summary's total in each of 2 runs" in text
    assert "lost       nothing, in any run" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    single = render(TEXT, make_repeated(*(make_result(make_batch([value])) for value in range(1, 24))))
    assert "each run: 1 B, 2 B, 3 B" in single
    assert "... 3 more" in single


def test_of_very_many_runs_the_first_are_named() -> None:
    """A note of a thousand numbers hides what it says; each run's own document has the rest."""
    assert say_runs([2, 5]) == "run 2, 5"
    assert say_runs(range(1, 21)) == f"run {', '.join(map(str, range(1, 21)))}"
    assert say_runs(range(1, 1001)) == f"{say_runs(range(1, 21))} and 980 more"
