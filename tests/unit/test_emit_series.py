"""The division of events into series."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapes import make_batch, make_series

from omn_core.emit.series import compute_codes, divide, iter_parts
from omn_core.model.batch import Batch, Column, Names

KEYS = st.lists(st.tuples(st.one_of(st.none(), st.sampled_from("abc")), st.one_of(st.none(), st.integers(-3, 3))))


def of_texts(values: list[str | None]) -> Column:
    """Make a text column, which Column.of cannot guess where every value is absent."""
    names = Names()
    codes = [-1 if value is None else names.intern(value) for value in values]
    return Column(np.array(codes, np.int64), None, names)


@pytest.mark.spec("EVT-1")
@given(KEYS)
def test_divide_gives_every_event_to_the_series_of_its_keys(rows: list[tuple[str | None, int | None]]) -> None:
    """Series are a partition: every event is in exactly one, in its own order, and the keys are in order, None last."""
    batch = Batch(
        np.arange(len(rows)),
        keys={"comm": of_texts([comm for comm, _ in rows]), "cpu": Column.of([cpu for _, cpu in rows], Names())},
    )
    found = divide(batch, ("comm", "cpu"))
    expected: dict[tuple[str | None, int | None], list[int]] = {}
    for place, row in enumerate(rows):
        expected.setdefault(row, []).append(place)
    assert {(key["comm"], key["cpu"]): part.ts.tolist() for key, part in found} == expected
    order = [(key["comm"] is None, key["comm"] or "", key["cpu"] is None, key["cpu"] or 0) for key, _ in found]
    assert order == sorted(order)


def test_divide_reads_a_derived_key_from_the_attributes() -> None:
    """A name that is no key column is an attribute; a name that is neither gives one series whose key is unknown."""
    batch = make_batch([1, 2, 3], keys={"cpu": [0, 1, 0]}, op=["read", "write", "read"])
    assert [key for key, _ in divide(batch, ("op",))] == [{"op": "read"}, {"op": "write"}]
    assert [(key, len(part)) for key, part in divide(batch, ("nowhere",))] == [({"nowhere": None}, 3)]


def test_divide_prefers_the_key_column_to_an_attribute_of_its_name() -> None:
    """What identifies an event wins over what it says."""
    assert [key for key, _ in divide(make_batch([1], keys={"dev": ["sda"]}, dev=["other"]), ("dev",))] == [
        {"dev": "sda"}
    ]


def test_divide_without_keys_is_one_series_and_with_keys_none_of_nothing() -> None:
    """No events are one series when nothing divides them, and no series when something does."""
    empty = Batch.empty()
    assert [(key, len(part)) for key, part in divide(empty, ())] == [({}, 0)]
    assert divide(empty, ("cpu",)) == []


@pytest.mark.parametrize("values", [[5, 1 << 62, -(1 << 62), 5], [0.5, -1.0, 0.5, 2.25], [True, False, True, True]])
def test_codes_number_values_of_any_type_in_their_order(values: list[Any]) -> None:
    """Far apart, fractional or boolean: the labels come back as Python values, each event at its own."""
    column = Column(np.array(values))
    codes, labels = compute_codes(column, len(values))
    assert labels == sorted(set(values))
    assert [labels[code] for code in codes.tolist()] == values
    assert all(type(label) is type(values[0]) for label in labels)


def test_codes_of_a_value_that_is_no_number_are_absent() -> None:
    """NaN identifies nothing."""
    codes, labels = compute_codes(Column(np.array([1.0, float("nan")])), 2)
    assert labels == [1.0, None]
    assert codes.tolist() == [0, 1]


def test_many_series_keep_every_event() -> None:
    """Past 65536 series the wide sort gives what the narrow one does."""
    count = 70_000
    batch = Batch(np.arange(count), keys={"task": Column(np.arange(count)[::-1].copy())})
    found = divide(batch, ("task",))
    assert len(found) == count
    assert [part.ts[0] for _, part in found[:3]] == [count - 1, count - 2, count - 3]


def test_parts_name_what_is_missing() -> None:
    """Events that lack the attribute are the last part, `?`."""
    series = make_series(make_batch([1, 2, 3], op=["b", None, "a"]))
    assert [(value, part.values.tolist()) for value, part in iter_parts(series, "op")] == [
        ("a", [3]),
        ("b", [1]),
        ("?", [2]),
    ]
