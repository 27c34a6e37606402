"""Exact arithmetic over columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omn_core.emit.numbers import compute_products, compute_reach, compute_sums, compute_total, to_plain_number

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
UINT64 = st.integers(0, (1 << 64) - 1)
COLUMNS = st.one_of(
    st.lists(INT64, max_size=30).map(lambda values: np.array(values, np.int64)),
    st.lists(UINT64, max_size=30).map(lambda values: np.array(values, np.uint64)),
)


@pytest.mark.spec("EVT-3")
@given(COLUMNS)
def test_total_of_integers_is_exact_whatever_their_size(values: Any) -> None:
    """A sum past 64 bits neither wraps nor rounds, and is a Python int."""
    total = compute_total(values)
    assert total == sum(values.tolist())
    assert type(total) is int


@pytest.mark.spec("EVT-3")
@given(st.data(), COLUMNS)
def test_sums_by_code_are_exact_and_conserve_the_total(data: Any, values: Any) -> None:
    """What falls to each code adds up to the whole, bit for bit."""
    codes = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(values), max_size=len(values))), np.int64)
    expected = [0] * 5
    for code, value in zip(codes.tolist(), values.tolist(), strict=True):
        expected[code] += value
    assert compute_sums(codes, values, 5).tolist() == expected


@given(st.lists(st.tuples(UINT64, st.integers(0, 1 << 40)), max_size=20))
def test_products_are_exact(pairs: list[tuple[int, int]]) -> None:
    """A value times its weight keeps every digit."""
    values = np.array([value for value, _ in pairs], np.uint64)
    weights = np.array([weight for _, weight in pairs], np.int64)
    products = compute_products(values, weights)
    assert products.tolist() == [value * weight for value, weight in pairs]
    assert compute_total(products) == sum(value * weight for value, weight in pairs)


def test_sums_of_sums_past_64_bits_stay_exact() -> None:
    """An object column, which holds Python ints, is summed like any other."""
    big = compute_products(np.array([1 << 62, 1 << 62, 3]), np.array([8, 8, 1]))
    assert big.dtype == object
    assert compute_sums(np.array([0, 1, 1]), big, 2).tolist() == [1 << 65, (1 << 65) + 3]


def test_float_sums_overflow_to_no_number_without_a_warning() -> None:
    """A sum that fits no float is not a number an answer may hold."""
    values = np.array([1e308, 1e308, -1.0])
    assert to_plain_number(compute_total(values)) is None
    assert to_plain_number(compute_sums(np.zeros(3, np.int64), values, 1)[0]) is None
    assert to_plain_number(compute_products(values, np.array([10, 1, 1]))[0]) is None


def test_plain_numbers_are_python_numbers_without_negative_zero() -> None:
    """Encoders see int and float alone; -0.0 reads as a sign that nothing has."""
    assert type(to_plain_number(np.uint64(1 << 63))) is int
    assert type(to_plain_number(np.float64(0.5))) is float
    assert math.copysign(1, to_plain_number(np.float64(-0.0)) or 0.0) == 1
    assert to_plain_number(float("nan")) is None


def test_reach_is_the_largest_magnitude() -> None:
    """The most negative 64-bit integer reaches further than the most positive one."""
    assert compute_reach(np.array([-(1 << 63), (1 << 63) - 1])) == 1 << 63
    assert compute_reach(np.empty(0, np.int64)) == 0
