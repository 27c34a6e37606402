"""Raw events as plain rows, a bounded number at a time: the only place where an event becomes an object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from omn_core.model.batch import Batch, Column
from omn_core.model.result import Result
from omn_core.model.stacks import Stacks
from omn_core.names import escape_bytes

Row = dict[str, Any]


def iter_rows(result: Result) -> Iterator[list[Row]]:
    """Iterate over a result's raw events in lists of rows. A field that an event lacks is absent from its row.

    Events of one stack share the list of its labels. Nothing where raw events were not asked for.
    """
    if result.raw is None:
        return
    stamp = {"source": result.resolved.entry.id, "backend": result.resolved.backend.id, "scope": result.scope}
    for chunk in result.raw.batch.iter_chunks():
        rows = _rows(chunk, stamp)
        _add_stacks(rows, chunk, result.raw.stacks)
        yield rows


def _rows(chunk: Batch, stamp: Mapping[str, str]) -> list[Row]:
    heads: list[Row] = [{"ts_ns": when} for when in chunk.ts.tolist()]
    if chunk.ts_err is not None:
        for head, error in zip(heads, chunk.ts_err.tolist(), strict=True):
            head["ts_err_ns"] = error
    groups = zip(_fields(chunk.keys, len(chunk)), _fields(chunk.attributes, len(chunk)), strict=True)
    for head, (key, attributes) in zip(heads, groups, strict=True):
        head.update(stamp, key=key, attrs=attributes)
    if chunk.weight is not None:
        for head, weight in zip(heads, chunk.weight.tolist(), strict=True):
            head["weight"] = weight
    return heads


def _add_stacks(rows: Sequence[Row], chunk: Batch, stacks: Stacks | None) -> None:
    """Give each event that has a stack its frames' labels, the innermost first."""
    if chunk.stack is None or stacks is None:
        return
    numbers, places = np.unique(chunk.stack, return_inverse=True)
    labels = [
        None if number < 0 else [escape_bytes(frame.label) for frame in stacks.get_frames(number)]
        for number in numbers.tolist()
    ]
    for row, place in zip(rows, places.reshape(-1).tolist(), strict=True):
        if labels[place] is not None:
            row["stack"] = labels[place]


def _fields(columns: Mapping[str, Column], length: int) -> list[Row]:
    if not columns:
        return [{} for _ in range(length)]
    names = [escape_bytes(name) for name in columns]
    lists = [_values(column) for column in columns.values()]
    if all(is_whole for _, is_whole in lists):
        return [dict(zip(names, row, strict=True)) for row in zip(*(values for values, _ in lists), strict=True)]
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row in zip(*(values for values, _ in lists), strict=True)
    ]


def _values(column: Column) -> tuple[list[Any], bool]:
    """Return plain values, None for what is absent or not finite, and whether every event has one."""
    if column.names is not None:
        codes, places = np.unique(column.values, return_inverse=True)
        texts = [None if code < 0 else escape_bytes(column.names.text(code)) for code in codes.tolist()]
        return np.array(texts, object)[places.reshape(-1)].tolist(), None not in texts
    present = column.present
    if column.values.dtype.kind == "f":
        is_finite = np.isfinite(column.values)
        present = is_finite if present is None else present & is_finite
    if present is None or bool(present.all()):
        return column.values.tolist(), True
    values = column.values.tolist()
    return [value if there else None for value, there in zip(values, present.tolist(), strict=True)], False
