"""The pieces that the text format is made of: numbers, names, tables, drawings, wrapped lines."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapes import make_batch, make_document, make_result

from omn_core.format.as_text import TEXT
from omn_core.format.bars import render_buckets, render_points, render_ranking
from omn_core.format.figures import render_figures
from omn_core.format.page import Page, wrap
from omn_core.format.scale import render_number
from omn_core.model.losses import Losses
from omn_core.model.style import TextStyle
from omn_core.names import compute_width, escape_bytes, escape_tree, pad, render_printable, shorten

STYLE = TextStyle(60)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "bytes", "0 B"),
        (1023, "bytes", "1023 B"),
        (1024, "bytes", "1 KiB"),
        (1_048_575, "bytes", "1.000 MiB"),
        (209_715_200, "bytes", "200 MiB"),
        (3_221_225_472, "bytes", "3 GiB"),
        (-2048, "bytes", "-2 KiB"),
        (1536, "bytes/s", "1.500 KiB/s"),
        (1536, "bytes_per_second", "1.500 KiB/s"),
        (850, "ns", "850 ns"),
        (12_340, "ns", "12.34 us"),
        (999_999, "ns", "1.000 ms"),
        (7_200_000_000_000, "ns", "7200 s"),
        (99_999, "count", "99999"),
        (1_234_567, "count", "1.235 M"),
        (2.5, "count", "2.500"),
        (12, "pages", "12 pages"),
        (1_500_000, "pages/s", "1.500 M pages/s"),
        (12_345.0, "count/s", "12.35 k/s"),
        (0.5, "ratio", "50 %"),
        (0.123456, "ratio", "12.35 %"),
        (45.5, "celsius", "45.50 C"),
        (2_596_134_000, "hertz", "2.596 GHz"),
        (0.31, "load", "0.310"),
        (0.00012, "load", "0.00012"),
        (None, "bytes", "-"),
        (1 << 70, "bytes", "1024 EiB"),
    ],
)
def test_numbers_are_short_and_keep_their_unit(value: Any, unit: str, text: str) -> None:
    """Four significant digits in the unit that keeps them short; what is not known is not a number."""
    assert render_number(value, unit) == text


@given(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["bytes", "ns", "count", "ratio", "watts", "x/s"])
)
def test_no_number_is_wide(value: float, unit: str) -> None:
    """Any float is rendered, in few columns."""
    assert len(render_number(value, unit)) <= 16


@pytest.mark.spec("FMT-2")
@given(st.text(st.characters(), max_size=60), st.integers(4, 40))
def test_a_printable_name_is_one_bounded_line(text: str, width: int) -> None:
    """Whatever a program calls itself: no control byte, no line break, no more columns than given."""
    shown = render_printable(text, width)
    assert shown.isprintable()
    assert compute_width(shown) <= width


@pytest.mark.spec("FMT-2")
def test_names_are_escaped_readably() -> None:
    """Escapes say which byte or character stood there."""
    assert render_printable("a\x1b[31m\n\0\udcff\u202ex") == "a\\x1b[31m\\n\\0\\xff\\u202ex"
    assert render_printable(") R 1 (") == ") R 1 ("
    assert render_printable("x" * 70_000, 20) == "x" * 17 + "..."
    assert escape_bytes(b"caf\xe9 \xff".decode("utf-8", "surrogateescape")) == "caf\\xe9 \\xff"
    assert escape_bytes("caf\u00e9 \U0001f600") == "caf\u00e9 \U0001f600"


@given(st.binary())
def test_escaped_bytes_always_encode(name: bytes) -> None:
    """Any name a kernel hands over can be written as UTF-8."""
    shown = escape_bytes(name.decode("utf-8", "surrogateescape"))
    assert shown.encode().decode() == shown
    assert shown == name.decode("utf-8", "backslashreplace")


def test_wide_characters_take_two_columns() -> None:
    """Alignment counts columns, not characters."""
    assert compute_width("\u6f22\u5b57") == 4
    assert shorten("\u6f22\u5b57\u6f22\u5b57", 7) == "\u6f22\u5b57..."
    assert pad("\u6f22", 4) == "\u6f22  "
    assert pad("a", 3, right=True) == "  a"


def test_a_tree_becomes_plain_values() -> None:
    """What encoders are handed holds no tuple, no numpy scalar and no float that has no spelling."""
    import numpy as np

    assert escape_tree({"a": (1, np.int64(2), float("inf")), 3: "\udc80"}) == {"a": [1, 2, None], "3": "\\x80"}
    with pytest.raises(TypeError, match="set is no plain value"):
        escape_tree({"a": {1}})


@given(st.text(max_size=200), st.integers(20, 60))
def test_wrapped_lines_fit_and_lose_nothing(text: str, width: int) -> None:
    """Every line fits, and all that is not a space is still there, in order."""
    shown = render_printable(text)
    lines = wrap(shown, width, "    ")
    assert all(compute_width(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(shown.split())


def test_a_page_colours_only_where_it_may() -> None:
    """Escape sequences appear for a terminal that asked for colour, and nowhere else."""
    for colour in (False, True):
        page = Page(TextStyle(80, colour))
        page.add_heading("asked")
        page.add_labelled("lost", "5 events", "alarm")
        page.add_labelled("note", "plain")
        assert ("\x1b[" in page.render()) is colour


def test_a_table_puts_keys_first_and_says_what_it_leaves_out() -> None:
    """Figures that do not fit are named, never dropped silently."""
    rows = [({"task": task}, {"lower_bound": False, "count": 5, "min": 1, "p90": 7, "max": 9000}) for task in (1, None)]
    wide = render_figures(rows, "bytes", TextStyle(80), ("task",))
    assert [line.split() for line in wide] == [
        ["task", "count", "min", "p90", "max"],
        ["1", "5", "1", "B", "7", "B", "8.789", "KiB"],
        ["?", "5", "1", "B", "7", "B", "8.789", "KiB"],
    ]
    narrow = render_figures(rows, "bytes", TextStyle(24), ("task",))
    assert narrow[0].split() == ["task", "count", "max"]
    assert " ".join(line.strip() for line in narrow[3:]) == "(a wider terminal also shows min, p90)"
    assert all(len(line) <= 24 for line in narrow)


@pytest.mark.spec("EMT-3")
def test_only_figures_that_a_loss_bounds_are_marked() -> None:
    """A loss bounds counts, sums and the greatest from below; it says nothing of a least, a mean or a percentile."""
    answer = {"lower_bound": True, "count": 5, "min": 1, "p50": 2, "max": 9, "mean": 3.0, "total": None}
    head, line = render_figures([({}, answer)], "count", TextStyle(80))
    assert head.split() == ["count", "min", "p50", "max", "mean", "total"]
    assert line.split() == [">=", "5", "1", "2", ">=", "9", "3", "-"]


@pytest.mark.spec("PLG-10", "FMT-3")
@pytest.mark.parametrize(
    ("scale", "text"),
    [
        ("bytes", "1.500 MiB"),
        ("ns", "1.573 ms"),
        ("count", "1.573 M lab.fathom"),
        ("plain", "1.57e+06 lab.fathom"),
        ("ratio", "1.57e+08 %"),
        (None, "1.573 M lab.fathom"),
    ],
)
def test_a_familys_own_unit_scales_as_its_vocabulary_says(scale: str | None, text: str) -> None:
    """The scale is the catalog's; the number of readings, and a unit that omn names, keep their own."""
    result = make_result(make_batch([1_572_864, 1_572_864]), unit="lab.fathom", scale=scale)
    written = io.BytesIO()
    TEXT.write(make_document(result), written, TextStyle(200))
    lines = written.getvalue().decode().splitlines()
    row = lines[next(place for place, line in enumerate(lines) if line.split()[:1] == ["count"]) + 1]
    assert row.split()[0] == "2"
    assert text in row
    assert render_number(2048, "bytes", "plain") == "2 KiB"


@pytest.mark.spec("EMT-3")
@pytest.mark.parametrize(("mode", "adds_up", "count"), [("poll", False, "2"), ("trace", False, ">= 2")])
def test_the_number_of_readings_of_a_level_is_no_lower_bound(mode: str, adds_up: bool, count: str) -> None:
    """A reading that failed takes nothing from how many were made; its value may have been the greatest."""
    lost = Losses(failed_reads=1, reasons=("a read failed",))
    result = make_result(make_batch([1024, 2048]), ("summary", "hist"), mode=mode, adds_up=adds_up, losses=lost)
    written = io.BytesIO()
    TEXT.write(make_document(result), written, TextStyle(120))
    text = written.getvalue().decode()
    assert ">= 2 KiB" in text
    assert f"{count} counted, mean" in text
    assert (">= 2 counted" in text) is (count != "2")


def test_a_single_series_that_does_not_fit_is_listed() -> None:
    """One figure a line, aligned."""
    assert render_figures([({}, {"count": 5, "mean": 2048, "max": 4096})], "bytes", TextStyle(12)) == [
        "count      5",
        "max    4 KiB",
        "mean   2 KiB",
    ]


def test_a_histogram_draws_every_bucket_and_folds_long_gaps() -> None:
    """Counts, shares and bars; a run of empty buckets is one line that says how many."""
    counts = [8, 4, 0, 0, 0, 0, 1]
    buckets = [{"low": 1 << k, "high": 2 << k, "count": count} for k, count in enumerate(counts)]
    lines = render_buckets({"lower_bound": True, "scale": "log2", "buckets": buckets, "sum": 130}, "ns", STYLE)
    assert lines[0] == ">= 13 counted, mean 10 ns"
    assert lines[2].split()[:6] == ["1", "ns", "2", "ns", "8", "61.5"]
    assert lines[2].count("#") > lines[3].count("#") > lines[5].count("#") > 0
    assert lines[4] == "(4 empty buckets)"
    assert len(lines) == 6


def test_a_ranking_shows_shares_and_escaped_names() -> None:
    """A name that would move the cursor is shown, not obeyed."""
    rows = [
        {"key": {"comm": "a\x1b[2J"}, "value": 3072, "share": 0.75},
        {"key": {"comm": "?"}, "value": 0, "share": None},
    ]
    lines = render_ranking({"lower_bound": False, "rows": rows}, "bytes", STYLE)
    assert lines[1].startswith("a\\x1b[2J  3 KiB  75.0 %  ###")
    assert lines[2].split() == ["?", "0", "KiB", "-"]
    assert render_ranking({"lower_bound": False, "rows": []}, "bytes", STYLE) == ["nothing was measured"]


def test_a_long_timeline_shows_the_peak_of_each_stretch() -> None:
    """A spike among a thousand points is not averaged away."""
    points = [[when * 1000, 1_000_000 if when == 500 else 1] for when in range(1000)]
    lines = render_points({"lower_bound": False, "points": points}, "count", STYLE)
    assert lines[0] == "1000 points, the peak of each stretch"
    assert len(lines) == 22
    assert sum("1 M" in line for line in lines) == 1
    assert render_points({"lower_bound": False, "points": [[5, None]]}, "count", STYLE) == ["no points"]
