"""Exact arithmetic over columns: sums that neither overflow nor round, and the plain numbers that an answer holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from omn_core.model.batch import Array

_INT64_MAX = (1 << 63) - 1
_UINT64_MAX = (1 << 64) - 1
_FLOAT_EXACT = 1 << 53
_LOW_HALF = 0xFFFF_FFFF


def to_plain_number(value: Any) -> int | float | None:
    """Return a Python int or float that any encoder can write: 0.0 for -0.0, None for what is not finite."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None
    return int(value)


def compute_reach(values: Array) -> int:
    """Return the largest magnitude among integers, 0 where there are none."""
    if not len(values):
        return 0
    return max(abs(int(values.min())), abs(int(values.max())))


def compute_total(values: Array) -> int | float:
    """Return the sum: exact for integers of any size, pairwise for floats (infinite where it does not fit one)."""
    if values.dtype == object:
        return int(sum(values.tolist()))
    if values.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            return float(values.sum())
    if compute_reach(values) * len(values) <= _INT64_MAX:
        return int(values.sum(dtype=np.int64))
    return (int((values >> 32).sum()) << 32) + int((values & _LOW_HALF).sum())


def compute_products(values: Array, weights: Array) -> Array:
    """Multiply each value by its weight: integers stay exact, as Python ints in an object array past 64 bits."""
    if values.dtype.kind == "f" or weights.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(values.astype(np.float64) * weights.astype(np.float64))
    if compute_reach(values) * compute_reach(weights) <= _INT64_MAX:
        return np.asarray(values.astype(np.int64) * weights.astype(np.int64))
    return _narrow(values.astype(object) * weights.astype(object))


def compute_sums(codes: Array, values: Array, length: int) -> Array:
    """Return the sum of the values of each code from 0 to `length`, exact for integers."""
    if values.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            return np.bincount(codes, weights=values, minlength=length)
    if values.dtype == object:
        return _narrow(_add_at(codes, values, length))
    bound = compute_reach(values) * len(values)
    if bound < _FLOAT_EXACT:
        return np.bincount(codes, weights=values, minlength=length).astype(np.int64)
    if bound <= _INT64_MAX:
        return _add_at(codes, values.astype(np.int64), length)
    high = _add_at(codes, (values >> 32).astype(np.int64), length).astype(object)
    low = _add_at(codes, (values & _LOW_HALF).astype(np.int64), length).astype(object)
    return _narrow(high * (1 << 32) + low)


def _add_at(codes: Array, values: Array, length: int) -> Array:
    sums = np.zeros(length, values.dtype)
    np.add.at(sums, codes, values)
    return sums


def _narrow(values: Array) -> Array:
    """Return Python integers as int64 or uint64 where one of them holds all."""
    if not len(values):
        return values.astype(np.int64)
    low, high = min(values.tolist()), max(values.tolist())
    if low >= -_INT64_MAX - 1 and high <= _INT64_MAX:
        return values.astype(np.int64)
    return values.astype(np.uint64) if low >= 0 and high <= _UINT64_MAX else values
