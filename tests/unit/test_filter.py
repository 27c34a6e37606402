"""The filter grammar, and its evaluation over columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omn_core.errors import RequestError
from omn_core.filter import compile_filter
from omn_core.filter.evaluate import apply_filter
from omn_core.model.batch import Batch, Column, Names

COMMS = ["nginx", None, "redis", "a b", "nginx", ") R 1 ("]
VALUES = [1, 20, 300, None, 5, -7]


def make_batch() -> Batch:
    names = Names()
    return Batch.of_reading(
        (0, 10), names, {"task": [10, 11, 12, 13, 14, 15]}, {"rss": VALUES, "comm": Column.of(COMMS, names)}
    )


def matched(text: str) -> list[int]:
    mask, _ = apply_filter(compile_filter(text), make_batch(), "rss")
    return np.flatnonzero(mask).tolist()


@pytest.mark.spec("REQ-7")
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("value > 4", [1, 2, 4]),
        ("value >= 5 and value <= 20", [1, 4]),
        ("value == 1 or value == 300", [0, 2]),
        ("not value > 4", [0, 3, 5]),
        ("value != 1", [1, 2, 4, 5]),
        ("value < 0", [5]),
        ("comm == 'nginx'", [0, 4]),
        ("comm != 'nginx'", [2, 3, 5]),
        ("comm =~ '^(re|a )'", [2, 3]),
        ("comm in ('redis', \"a b\")", [2, 3]),
        ("comm not in ['redis']", [0, 1, 3, 4, 5]),
        ("comm == ') R 1 ('", [5]),
        ("task in (10, 15)", [0, 5]),
        ("task > 12 and not (comm == 'nginx' or value == 20)", [3, 5]),
        ("value == 20.0", [1]),
        ("value < 1e3 and value > 2.5", [1, 2, 4]),
        ("task == 0xa", [0]),
        ("value < 99999999999999999999", [0, 1, 2, 4, 5]),
        ("value == 99999999999999999999", []),
        ("elsewhere == 1", []),
        ("not elsewhere == 1", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_filter_keeps_the_events_that_match(text: str, rows: list[int]) -> None:
    """Each operator means over columns what it means over one event; an absent field compares false."""
    assert matched(text) == rows


@pytest.mark.spec("REQ-7")
@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("value >", 8),
        ("value > 4 and", 14),
        ("value = 4", 7),
        ("(value > 4", 11),
        ("value > 4)", 10),
        ("comm == nginx", 9),
        ("comm == 'nginx", 9),
        ("comm =~ '('", 9),
        ("comm =~ 4", 9),
        ("", 1),
        ("and", 1),
        ("value in 4", 10),
        ("value in (4", 12),
        ("value ! 4", 7),
        ("value not 4", 11),
        ("value > 4 value < 3", 11),
    ],
)
def test_bad_syntax_points_at_its_column(text: str, column: int) -> None:
    """A filter that does not parse is refused as the request's, with the column where it stops making sense."""
    with pytest.raises(RequestError, match=rf"^filter, column {column}: "):
        compile_filter(text)


@pytest.mark.spec("SEC-4")
@given(st.text(alphabet="abv()[],'\"=<>!~ 0159.andortin\x00\n\t", max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    """No text makes the parser do anything but answer or refuse."""
    try:
        predicate = compile_filter(text)
    except RequestError as error:
        assert str(error).startswith("filter, column")
    else:
        assert predicate.fields


@pytest.mark.spec("SEC-4")
@pytest.mark.parametrize(
    "text",
    ["value > " + "9" * 5000, "comm =~ 'a{99999999999}'", "comm =~ '" + "(" * 3000 + ")" * 3000 + "'"],
    ids=["digits", "repeat", "groups"],
)
def test_what_no_reader_bounds_by_itself_is_refused(text: str) -> None:
    """A number, a repeat and a nesting past what Python takes are the request's error, with their column."""
    with pytest.raises(RequestError, match=r"^filter, column 9: "):
        compile_filter(text)


@pytest.mark.spec("REQ-7", "SEC-4")
def test_a_number_past_every_float_compares_with_fractions() -> None:
    """Every value lies on the same side of a literal that no float holds."""
    batch = Batch(np.arange(2), attributes={"share": Column(np.array([0.5, 1.5]))})
    for text, matches in ((f"share < {10**390}", True), (f"share > {10**390}", False), (f"share > -{10**390}", True)):
        mask, _ = apply_filter(compile_filter(text), batch, "share")
        assert mask.tolist() == [matches, matches]


def test_deep_nesting_is_refused() -> None:
    """Parentheses past the bound are the request's error, not the interpreter's."""
    with pytest.raises(RequestError, match="nest deeper"):
        compile_filter("(" * 500 + "a == 1" + ")" * 500)


@pytest.mark.spec("REQ-8")
def test_fields_that_no_event_carried_are_named() -> None:
    """A field that nothing in the batch carries is reported, whether its column is missing or empty."""
    _, absent = apply_filter(compile_filter("elsewhere == 1 or comm == 'x' or value > 0"), make_batch(), "rss")
    assert absent == ("elsewhere",)


@pytest.mark.spec("REQ-7")
@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("pid == 4", (("pid", 4),)),
        ("pid == 4 and comm == 'x'", (("pid", 4), ("comm", "x"))),
        ("pid == 4 or comm == 'x'", None),
        ("pid > 4", None),
        ("not pid == 4", None),
        ("pid in (4)", None),
    ],
)
def test_only_equalities_joined_by_and_can_run_in_a_program(text: str, pairs: object) -> None:
    """A program compares one-value equalities; any other predicate is left to userspace."""
    assert compile_filter(text).equalities == pairs
