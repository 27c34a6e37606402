"""The division of events into series, by the keys that were asked for, and of a series by an attribute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from omn_core.emit.base import Answer, Series
from omn_core.emit.labels import find_labels
from omn_core.emit.stack_keys import spread_within
from omn_core.model.batch import Array, Batch, Column
from omn_core.model.stacks import WITHIN, Stacks

UNKNOWN = "?"
"""What a row says in place of an attribute that its events do not carry."""

_RADIX_SERIES = 1 << 16  # numpy sorts 16-bit codes by radix, an order of magnitude faster than wider ones


def divide(batch: Batch, key_names: Sequence[str], stacks: Stacks | None = None) -> list[tuple[dict[str, Any], Batch]]:
    """Divide events by their keys: each series' key and its events, in the events' own order.

    A name is read from the keys, else from the attributes (a derived key); by `within` an event is in a series for each
    function that its stack, of the run's `stacks`, says that it was within. Events without a name form a series whose
    key is None there. Series are ordered by their keys' values, the first key first, None last. Without names
    everything is one series, whatever it holds; with names no events make no series.
    """
    if not key_names:
        return [({}, batch)]
    if not len(batch):
        return []
    columns = {name: batch.keys.get(name, batch.attributes.get(name)) for name in key_names}
    rows = None
    if WITHIN in key_names and stacks is not None:
        rows, functions = spread_within(batch, stacks)
        columns = {name: None if column is None else column.select(rows) for name, column in columns.items()}
        columns[WITHIN] = functions
    codes, keys = _partition(columns, len(batch) if rows is None else len(rows))
    if len(keys) == 1 and rows is None:
        return [(keys[0], batch)]
    order = np.argsort(codes.astype(np.uint16) if len(keys) <= _RADIX_SERIES else codes, kind="stable")
    ordered = batch.select(order if rows is None else rows[order])
    ends = np.cumsum(np.bincount(codes, minlength=len(keys))).tolist()
    starts = [0, *ends[:-1]]
    return [(key, ordered.select(slice(start, end))) for key, start, end in zip(keys, starts, ends, strict=True)]


def iter_parts(series: Series, attribute: str) -> Iterator[tuple[Any, Series]]:
    """Iterate over a series' parts by an attribute's value; events that lack it come last, as `?`."""
    for key, batch in divide(series.batch, (attribute,)):
        value = key[attribute]
        yield (UNKNOWN if value is None else value), attrs.evolve(series, batch=batch)


def compute_by(series: Series, attribute: str | None, figures: Callable[[Series], Answer]) -> Answer:
    """Return a series' figures, or where an attribute is named a row of them for each of its values."""
    if attribute is None:
        return {"lower_bound": series.lower_bound, **figures(series)}
    rows = [
        {"attr": value, **_label(part, attribute), **figures(part)} for value, part in iter_parts(series, attribute)
    ]
    return {"lower_bound": series.lower_bound, "rows": rows}


def _label(part: Series, attribute: str) -> Answer:
    """Return what a row's attribute is called, as its `label`; nothing where it has no label or no event says it."""
    found = find_labels(part.batch, (attribute,), part.labels)
    return {"label": found[attribute]} if attribute in found else {}


def compute_codes(column: Column | None, length: int) -> tuple[Array, list[Any]]:
    """Number a column's distinct values: each event's number, and the values in order, None last where absent."""
    if column is None:
        return np.zeros(length, np.int64), [None]
    there = column.is_present
    if column.values.dtype.kind == "f":
        there = there & ~np.isnan(column.values)
    whole = bool(there.all())
    codes, distinct = _number(column.values if whole else column.values[there])
    labels = distinct.tolist()
    if column.names is not None:
        codes, labels = _order_texts(codes, [column.names.text(code) for code in labels])
    if whole:
        return codes, labels
    spread = np.full(length, len(labels), np.int64)
    spread[there] = codes
    return spread, [*labels, None]


def _partition(columns: Mapping[str, Column | None], length: int) -> tuple[Array, list[dict[str, Any]]]:
    codes: Array = np.zeros(length, np.int64)
    keys: list[dict[str, Any]] = [{}]
    for name, column in columns.items():
        parts, labels = compute_codes(column, length)
        codes, present = _number(codes * len(labels) + parts)
        keys = [{**keys[pair // len(labels)], name: labels[pair % len(labels)]} for pair in present.tolist()]
    return codes, keys


def _number(values: Array) -> tuple[Array, Array]:
    """Return each value's place among the distinct values, and those in order; by counting where they lie close."""
    if len(values) and values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        if high - low <= 4 * len(values) + 1024:
            offsets = (values - values.dtype.type(low)).astype(np.int64)
            is_used = np.bincount(offsets) > 0
            places = np.cumsum(is_used) - 1
            used = np.flatnonzero(is_used).astype(values.dtype) + values.dtype.type(low)
            return places[offsets], used
    distinct, codes = np.unique(values, return_inverse=True)
    return codes.reshape(-1), distinct


def _order_texts(codes: Array, texts: list[str]) -> tuple[Array, list[str]]:
    order = sorted(range(len(texts)), key=texts.__getitem__)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places[codes] if texts else codes, [texts[place] for place in order]
