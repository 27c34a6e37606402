"""What each emit answers over one series."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapes import ask, make_batch, make_series

from omn_core.model.batch import Batch, Column
from omn_core.model.watched import Window

EMITS = ("count", "summary", "summary@comm", "hist", "hist@comm", "rate", "topk:3@comm", "topk", "raw", "timeline")
NUMBERS = st.one_of(
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=40),
    st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=40),
    st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=40),
)
UNITS = st.sampled_from(["bytes", "ns", "ratio", "celsius"])


@st.composite
def batches(draw: Any) -> Batch:
    """Draw events of any numbers, some without a measurement, some without a comm, weighted or not."""
    values: list[Any] = draw(NUMBERS)
    present = draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    shown = [value if there else None for value, there in zip(values, present, strict=True)]
    if all(value is None for value in shown):
        shown[0] = values[0]
    comm = draw(st.lists(st.sampled_from(["a", "b", None]), min_size=len(values), max_size=len(values)))
    comm[0] = "a"
    weight = draw(st.one_of(st.none(), st.lists(st.integers(1, 1 << 20), min_size=len(values), max_size=len(values))))
    return make_batch(shown, weight=weight, comm=comm)


def check_plain(value: Any) -> None:
    """Hold an answer to plain Python values that JSON can spell."""
    if isinstance(value, dict):
        assert all(type(name) is str for name in value)
        for part in value.values():
            check_plain(part)
    elif isinstance(value, list):
        for part in value:
            check_plain(part)
    else:
        assert value is None or type(value) in (bool, int, float, str), repr(value)
        if type(value) is float:
            assert math.isfinite(value)
            assert value != 0 or math.copysign(1, value) == 1


@pytest.mark.spec("EMT-1", "EVT-3")
@given(batches(), UNITS, st.booleans(), st.booleans())
def test_every_answer_is_plain_and_conserves_what_was_counted(
    batch: Batch, unit: str, adds_up: bool, lower_bound: bool
) -> None:
    """Whatever the values, answers are plain numbers, and hist, summary, topk and count agree with the events."""
    answers = {emit: ask(emit, batch, unit=unit, adds_up=adds_up, lower_bound=lower_bound) for emit in EMITS}
    for found in answers.values():
        check_plain(found)
        assert found["lower_bound"] is lower_bound
        json.dumps(found, allow_nan=False)
    series = make_series(batch, unit=unit)
    weights = [1] * len(series.values) if series.weights is None else series.weights.tolist()
    assert answers["summary"]["count"] == sum(weights)
    assert sum(bucket["count"] for bucket in answers["hist"]["buckets"]) == sum(weights)
    rows = [row for row in answers["hist@comm"]["rows"] if row["buckets"]]
    assert sum(bucket["count"] for row in rows for bucket in row["buckets"]) == sum(weights)
    assert sum(row["count"] for row in answers["summary@comm"]["rows"]) == sum(weights)
    if series.values.dtype.kind != "f":
        exact = sum(value * weight for value, weight in zip(series.values.tolist(), weights, strict=True))
        assert answers["hist"]["sum"] == answers["rate"]["total"] == answers["topk"]["rows"][0]["value"] == exact
        assert sum(row["value"] for row in answers["topk:3@comm"]["rows"]) == exact
        if adds_up:
            assert answers["summary"]["total"] == answers["count"]["value"] == exact


@given(batches(), UNITS)
def test_every_value_is_inside_its_bucket(batch: Batch, unit: str) -> None:
    """A histogram counts a value where it lies: bounds are half open, and touch without a gap."""
    found = ask("hist", batch, unit=unit)
    buckets = found["buckets"]
    series = make_series(batch, unit=unit)
    weights = [1] * len(series.values) if series.weights is None else series.weights.tolist()
    for left, right in itertools.pairwise(buckets):
        assert left["high"] == right["low"]
    for place, bucket in enumerate(buckets):
        low, high, is_last = bucket["low"], bucket["high"], place == len(buckets) - 1
        expected = 0
        for value, weight in zip(series.values.tolist(), weights, strict=True):
            if found["scale"] == "log2" and low < 0:
                is_inside = low < value <= high and (high != 0 or value < 0)
            else:
                # Even bounds are floats, and an integer that a float rounds is where its float is.
                placed = float(value) if found["scale"] == "linear" else value
                is_inside = low <= placed < high or (found["scale"] == "linear" and is_last and placed == high)
            expected += weight * is_inside
        assert bucket["count"] == expected


@pytest.mark.spec("EMT-2")
@given(st.lists(st.integers(-1000, 1000), min_size=1), st.data())
def test_a_weight_is_as_many_events(values: list[int], data: Any) -> None:
    """An event of weight n answers like n events, in every emit that reads weights."""
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(values), max_size=len(values)))
    weighted = make_batch(values, weight=weights)
    repeated = make_batch([value for value, weight in zip(values, weights, strict=True) for _ in range(weight)])
    for emit in ("hist", "rate", "topk", "count"):
        assert ask(emit, weighted) == ask(emit, repeated)
    one, other = ask("summary", weighted), ask("summary", repeated)
    assert one.pop("last", None) is None
    other.pop("last", None)
    assert one == other


def test_summary_of_known_values() -> None:
    """Percentiles are measured values: the smallest that the share of occurrences does not pass."""
    found = ask("summary", make_batch(list(range(1, 101))))
    assert found == {
        "lower_bound": False,
        "count": 100,
        "min": 1,
        "max": 100,
        "mean": 50.5,
        "total": 5050,
        "last": 100,
        "p50": 50,
        "p90": 90,
        "p99": 99,
    }


@pytest.mark.spec("EMT-1")
def test_summary_of_a_level_has_no_total() -> None:
    """Readings of a level do not add up to anything."""
    assert "total" not in ask("summary", make_batch([3, 4]), adds_up=False)


@pytest.mark.spec("EMT-1")
def test_the_last_reading_is_the_latest_and_only_where_one_is() -> None:
    """The events' order does not say which came last, their times do; two at one instant are not one reading."""
    assert ask("summary", make_batch([1, 9, 2], ts=[5, 9, 7]))["last"] == 9
    assert "last" not in ask("summary", make_batch([1, 9, 2], ts=[5, 9, 9]), adds_up=False)


def test_summary_of_nothing_knows_nothing() -> None:
    """No measurement has no least and no mean: None, never zero."""
    expected = {"count": 0, "min": None, "max": None, "mean": None, "total": None}
    for batch in (Batch.empty(), make_batch([1]).select(slice(0, 0))):
        found = ask("summary", batch)
        assert expected.items() <= found.items()
        assert [found[name] for name in ("p50", "p90", "p99")] == [None] * 3


@pytest.mark.spec("EMT-1", "EVT-5")
def test_a_row_per_attribute_value_says_what_lacked_it() -> None:
    """`summary@comm` has a row for events that carry no comm: `?`, not a plausible name."""
    rows = ask("summary@comm", make_batch([1, 2, 3, 4], comm=["b", None, "a", "b"]))["rows"]
    assert [(row["attr"], row["count"], row["total"]) for row in rows] == [("a", 1, 3), ("b", 2, 5), ("?", 1, 2)]


@pytest.mark.spec("EVT-5", "EMT-1")
def test_an_absent_value_is_not_a_zero() -> None:
    """Events without a measurement are events, and measure nothing."""
    batch = make_batch([10, None, 30])
    assert ask("count", batch) == {"lower_bound": False, "events": 3, "value": 40}
    assert ask("summary", batch)["min"] == 10
    nothing = Batch(np.arange(3), attributes={"other": Column(np.arange(3))})
    assert ask("count", nothing) == {"lower_bound": False, "events": 3, "value": None}
    assert ask("rate", nothing)["total"] is None
    assert ask("topk@comm", nothing)["rows"] == []


@pytest.mark.spec("EMT-1")
def test_a_kernel_row_sums_what_it_measured() -> None:
    """A row the kernel aggregated adds its exact total; its bucket stays its own, and max is not below its mean."""
    batch = make_batch([1024, 64], weight=[4, 2], total_ns=[6001, 150])
    for emit in ("hist", "summary", "rate", "topk"):
        found = ask(emit, batch, unit="ns")
        total = found.get("sum", found.get("total", found["rows"][0]["value"] if "rows" in found else None))
        assert total == 6151
    summary = ask("summary", batch, unit="ns")
    assert (summary["min"], summary["max"], summary["count"]) == (64, 1501, 6)
    assert [bucket["low"] for bucket in ask("hist", batch, unit="ns")["buckets"] if bucket["count"]] == [64, 1024]
    assert ask("rate", batch, unit="bytes")["total"] == 1024 * 4 + 64 * 2


def test_a_kernel_row_without_its_total_falls_back_on_its_value() -> None:
    """Rows of two collectors in one series: each adds what it knows."""
    batch = make_batch([100, 10], weight=[3, 2], total_ns=[350, None])
    assert ask("rate", batch, unit="ns")["total"] == 350 + 20


def test_count_of_a_level_is_its_one_closing_reading() -> None:
    """Several readings of a level at the close are no single figure."""
    assert ask("count", make_batch([5, 8], ts=[1, 2]), adds_up=False)["value"] == 8
    assert ask("count", make_batch([5, 8], ts=[2, 2]), adds_up=False)["value"] is None
    assert ask("count", Batch.empty())["value"] is None


def test_hist_picks_its_scale_by_the_unit() -> None:
    """Shares and temperatures have even buckets over what was measured, anything else powers of two."""
    linear = ask("hist", make_batch([0.0, 0.5, 1.0]), unit="ratio")
    assert linear["scale"] == "linear"
    assert len(linear["buckets"]) == 20
    assert (linear["buckets"][0]["low"], linear["buckets"][-1]["high"]) == (0.0, 1.0)
    assert ask("hist", make_batch([7, 7]), unit="celsius")["buckets"] == [{"low": 7.0, "high": 7.0, "count": 2}]
    assert ask("hist", make_batch([0.0, 0.5, 1.0]), unit="lab.share", scale="ratio") == linear
    log2 = ask("hist", make_batch([0, 1, 5, -3]))
    assert log2["scale"] == "log2"
    assert [(bucket["low"], bucket["high"]) for bucket in log2["buckets"] if bucket["count"]] == [
        (-4, -2),
        (0, 1),
        (1, 2),
        (4, 8),
    ]


@pytest.mark.parametrize("exponent", [52, 53, 60, 62])
def test_hist_does_not_round_a_value_into_the_next_bucket(exponent: int) -> None:
    """One below a power of two is in the bucket below, where a float would round it up."""
    (bucket,) = ask("hist", make_batch([(1 << exponent) - 1]))["buckets"]
    assert bucket == {"low": 1 << (exponent - 1), "high": 1 << exponent, "count": 1}


def test_rate_is_over_the_window() -> None:
    """The window's length divides, not the time between events; without length there is no rate."""
    assert ask("rate", make_batch([100, 300])) == {"lower_bound": False, "per_second": 200.0, "total": 400}
    assert ask("rate", Batch.empty()) == {"lower_bound": False, "per_second": 0.0, "total": 0}
    assert ask("rate", Batch.empty(), window=Window(5, 5))["per_second"] is None


@pytest.mark.spec("EMT-1")
def test_topk_ranks_by_sum() -> None:
    """The greatest sums first, each with its share of the whole series; equal sums in the order of their values."""
    batch = make_batch([5, 1, 2, 3, 1, 8], comm=["b", "a", "c", "a", None, "d"])
    assert ask("topk:4@comm", batch)["rows"] == [
        {"key": {"comm": "d"}, "value": 8, "share": 0.4},
        {"key": {"comm": "b"}, "value": 5, "share": 0.25},
        {"key": {"comm": "a"}, "value": 4, "share": 0.2},
        {"key": {"comm": "c"}, "value": 2, "share": 0.1},
    ]
    assert ask("topk:9@comm", batch)["rows"][-1] == {"key": {"comm": "?"}, "value": 1, "share": 0.05}
    ties = ask("topk:2@comm", make_batch([2, 2, 2], comm=["c", "a", "b"]))["rows"]
    assert [row["key"]["comm"] for row in ties] == ["a", "b"]


@pytest.mark.spec("EMT-1")
def test_what_counts_different_things_has_no_share() -> None:
    """Octets and datagrams make no sum, so that none is a part of it; what they are divided by within one is."""
    batch = make_batch([90, 10], keys={"counter": ["octets", "datagrams"]}, comm=["a", "b"])
    rows = ask("topk@counter", batch, apart=("counter",))["rows"]
    assert [(row["key"]["counter"], row["value"], row["share"]) for row in rows] == [
        ("octets", 90, None),
        ("datagrams", 10, None),
    ]
    assert [row["share"] for row in ask("topk@comm", batch, apart=("counter",))["rows"]] == [0.9, 0.1]


def test_topk_shows_ten_rows_unless_asked() -> None:
    """`topk@comm` is a top ten."""
    batch = make_batch(list(range(1, 31)), comm=[f"c{number:02}" for number in range(30)])
    assert [row["value"] for row in ask("topk@comm", batch)["rows"]] == list(range(30, 20, -1))


def test_topk_orders_sums_that_a_float_would_blur() -> None:
    """Two sums past 2^53 that differ by one rank by that one."""
    batch = make_batch([1 << 60, (1 << 60) + 1], comm=["a", "b"])
    assert [row["key"]["comm"] for row in ask("topk:1@comm", batch)["rows"]] == ["b"]


@pytest.mark.spec("EMT-3")
def test_a_ranking_that_counted_nothing_shows_one_zero_row() -> None:
    """Over a measured window an empty ranking is a zero named by the target; over none it is empty."""
    assert ask("topk@comm", Batch.empty())["rows"] == [{"key": {"target": "pid 7"}, "value": 0, "share": None}]
    assert ask("topk", Batch.empty())["rows"] == [{"key": {"target": "pid 7"}, "value": 0, "share": None}]
    assert ask("topk@comm", Batch.empty(), window=Window(5, 5))["rows"] == []


def test_topk_of_a_series_is_its_key() -> None:
    """Without an attribute the one row is the series."""
    assert ask("topk", make_batch([4]), key={"cpu": 1})["rows"] == [{"key": {"cpu": 1}, "value": 4, "share": 1.0}]


@pytest.mark.spec("EMT-1")
def test_readings_of_one_tick_merge_only_where_they_add_up() -> None:
    """A polled counter's parts of one tick are one measurement; a level's readings are each their own."""
    batch = make_batch([1, 2, 10, 20], ts=[5, 5, 6, 6], comm=["a", "b", "a", "b"])
    merged = ask("summary", batch, merges_ticks=True)
    assert (merged["count"], merged["min"], merged["max"], merged["last"]) == (2, 3, 30, 30)
    assert sum(bucket["count"] for bucket in ask("hist", batch, merges_ticks=True)["buckets"]) == 2
    assert ask("timeline", batch)["points"] == [[5, 3], [6, 30]]
    level = ask("summary", batch, adds_up=False)
    assert (level["count"], level["max"]) == (4, 20)
    assert ask("timeline", batch, adds_up=False)["points"] == [[5, 1], [5, 2], [6, 10], [6, 20]]
    rows = ask("summary@comm", batch, merges_ticks=True)["rows"]
    assert [(row["attr"], row["count"], row["total"]) for row in rows] == [("a", 2, 11), ("b", 2, 22)]
    assert [row["value"] for row in ask("topk@comm", batch, merges_ticks=True)["rows"]] == [22, 11]


def test_timeline_is_in_order_of_time() -> None:
    """Points are sorted, whatever order the events came in."""
    assert ask("timeline", make_batch([1, 2, 3], ts=[30, 10, 20]))["points"] == [[10, 2], [20, 3], [30, 1]]


@pytest.mark.spec("EMT-3")
@pytest.mark.parametrize("emit", EMITS)
@pytest.mark.parametrize("batch", [Batch.empty(), make_batch([1, 2], comm=["a", "b"])], ids=["empty", "two"])
def test_every_answer_says_whether_it_is_a_lower_bound(emit: str, batch: Batch) -> None:
    """The mark is on every emit, whatever it counted."""
    assert ask(emit, batch, lower_bound=True)["lower_bound"] is True
    assert ask(emit, batch, lower_bound=False)["lower_bound"] is False
