"""Columns of numbers that compare at a glance."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omn_core.format.columns import render_column
from omn_core.format.figures import render_figures
from omn_core.format.scale import render_number
from omn_core.model.style import TextStyle

MIB = 1 << 20


@pytest.mark.spec("FMT-3")
@pytest.mark.parametrize(
    ("values", "unit", "texts"),
    [
        ([200 * MIB, 100 * MIB], "bytes", ["200 MiB", "100 MiB"]),
        ([700 * MIB, 500.5 * MIB, None, 0], "bytes", ["700.0 MiB", "500.5 MiB", "-", "0 MiB"]),
        ([700 * MIB, 5 * MIB, 20], "bytes", ["700 MiB", "5 MiB", "20 B  "]),
        ([850, 12_340, 1_200_000_000], "ns", ["850 ns", "12.34 us", "1.200 s "]),
        ([1.014, 0.000_84, 0.000_000_84, 0], "ratio", ["101.40 %", "0.08 %", "<0.01 %", "0 %"]),
        ([1, 0.5], "ratio", ["100 %", "50 %"]),
        ([1, 5, 20_000, 0], "count", ["1", "5", "20000", "0"]),
        ([1_500_000, 500_000], "count", ["1.500 M", "0.500 M"]),
        ([12_345.0, 3.5], "count/s", ["12345.0/s", "3.5/s"]),
        ([1_500_000, 500_000], "pages/s", ["1.500 M pages/s", "0.500 M pages/s"]),
        ([0.3, 0.000_12], "load", ["0.300", "0.00012"]),
        ([45.5, -44], "celsius", ["45.50 C", "-44.00 C"]),
        ([1536], "bytes", ["1.500 KiB"]),
        ([None, None], "bytes", ["-", "-"]),
        ([], "bytes", []),
    ],
)
def test_a_column_shares_unit_and_decimals(values: list[Any], unit: str, texts: list[str]) -> None:
    """The unit of the greatest for all, where the least still shows in it; else each its own, the units aligned."""
    assert render_column(values, unit) == texts


@pytest.mark.spec("FMT-3")
@given(
    st.lists(st.one_of(st.none(), st.integers(0, 1 << 62), st.floats(0, 1e15)), max_size=8),
    st.sampled_from(["bytes", "ns", "ratio", "percent", "count", "count/s", "load", "pages"]),
)
@example([1024, 5e-324], "bytes")
def test_no_figure_reads_as_zero_that_is_none(values: list[Any], unit: str) -> None:
    """A zero is a measurement and an unknown is not: neither is spelled as the other, nor is anything small as zero."""
    texts = render_column(values, unit)
    assert len(texts) == len(values)
    for value, text in zip(values, texts, strict=True):
        if value is None:
            assert text.strip() == "-"
            continue
        number = text.split()[0].removesuffix("/s")
        assert (number == "0") is (value == 0)
        assert number.startswith("<") or (float(number) != 0) is (value != 0)
        assert len(text) <= len(render_number(value, unit)) + 8


@pytest.mark.spec("FMT-3")
@given(st.lists(st.integers(1, 1 << 40), min_size=2, max_size=8))
def test_a_column_keeps_two_digits_of_its_least_figure(values: list[int]) -> None:
    """Whatever unit a column takes, no figure of it is off by more than half of its second digit."""
    steps = {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30, "TiB": 1 << 40}
    for value, text in zip(values, render_column(values, "bytes"), strict=True):
        number, unit = text.split()
        assert math.isclose(float(number) * steps[unit], value, rel_tol=0.051)


@pytest.mark.spec("FMT-3")
def test_rows_past_what_a_terminal_shows_are_counted() -> None:
    """The first rows and how many there are more; a few more are simply shown, and without a bound all are."""
    rows = [({"task": task}, {"count": 1, "total": task}) for task in range(40)]
    cut = render_figures(rows, "bytes", TextStyle(80, rows=10), ("task",))
    assert len(cut) == 12
    assert cut[-1] == "... 30 more; a pipe, a file and every other format have all"
    assert len(render_figures(rows[:13], "bytes", TextStyle(80, rows=10), ("task",))) == 14
    assert len(render_figures(rows, "bytes", TextStyle(80), ("task",))) == 41


@pytest.mark.spec("FMT-3")
def test_a_single_reading_is_one_figure() -> None:
    """Where every series holds one measurement, or none, its figures are all the same and are shown as one."""
    one = {"lower_bound": False, "count": 1, **dict.fromkeys(("min", "p50", "max", "mean", "last"), 2048)}
    none = {"lower_bound": False, "count": 0, **dict.fromkeys(("min", "p50", "max", "mean"))}
    rows = [({"task": 1}, one), ({"task": 2}, none)]
    assert render_figures(rows, "bytes", TextStyle(80), ("task",)) == ["task  value", "1     2 KiB", "2         -"]
    assert "count" in render_figures([({"task": 2}, none)], "bytes", TextStyle(80), ("task",))[0]
    two = {**one, "count": 2}
    assert "count" in render_figures([*rows, ({"task": 3}, two)], "bytes", TextStyle(80), ("task",))[0]
