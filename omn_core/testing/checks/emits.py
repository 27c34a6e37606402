"""A plugin's emits, over series that are empty, small and weighted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from omn_core.emit.base import Series
from omn_core.model.batch import Array, Batch, Column, Names
from omn_core.model.catalog import TEXT
from omn_core.model.request import EmitSpec
from omn_core.model.rows import EmitRow
from omn_core.model.style import TextStyle
from omn_core.model.watched import Window
from omn_core.testing.checks.guard import call_guarded
from omn_core.testing.checks.rows import load
from omn_core.testing.checks.subject import Subject

_LENGTH = 5
_STYLE = TextStyle(width=80)
_ENTRIES = 3
"""How many of the sources that an emit answers it is tried on."""


def check_emits(subject: Subject) -> Iterator[str]:
    """Each emit of the plugin answers every kind of series, twice alike, and its lines fit a terminal."""
    for row in subject.record.rows.get("emits", []):
        emit, problem = load(subject, row.reference)
        if problem is not None:
            continue  # a reference's own check names it
        absent = [name for name in ("compute", "render") if not callable(getattr(emit, name, None))]
        if absent:
            yield f"{row.name} has no {' and no '.join(f'{name}()' for name in absent)}"
            continue
        for what, series in _iter_series(subject, row):
            for line in _check_one(emit, _make_spec(row, series), series):
                yield f"{row.name} over {what}: {line}"


def _iter_series(subject: Subject, row: EmitRow) -> Iterator[tuple[str, Series]]:
    """Iterate over series of the sources that list the emit; of a made-up one where none does."""
    shapes: list[tuple[str, str, Mapping[str, str]]] = [
        (entry.id, entry.value, entry.attributes)
        for entry in subject.catalog.entries.values()
        if any(row.name in emits for emits in entry.emits.values())
    ]
    for source, value, attributes in shapes[:_ENTRIES] or [("a source", "value", {"value": "count", "comm": TEXT})]:
        unit = attributes[value]
        for what, length, is_weighted in (("no event", 0, False), ("few", _LENGTH, False), ("weighted", _LENGTH, True)):
            batch = _make_batch(attributes, length, is_weighted)
            for is_bound in (False, True):
                series = Series({}, batch, value, unit, Window(0, 10**9), True, is_bound, source)
                yield f"{what} of {source}", series


def _make_batch(attributes: Mapping[str, str], length: int, is_weighted: bool) -> Batch:
    names = Names()
    columns = {}
    for attribute, unit in attributes.items():
        if unit == TEXT:
            columns[attribute] = Column(_freeze(np.array([names.intern("a")] * length, np.int64)), None, names)
        else:
            kind = np.float64 if unit == "ratio" else np.int64
            columns[attribute] = Column(_freeze(np.arange(1, length + 1).astype(kind)))
    weight = _freeze(np.full(length, 3, np.int64)) if is_weighted else None
    stamps = _freeze(np.arange(length, dtype=np.int64) * 1000)
    return Batch(stamps, None, MappingProxyType({}), MappingProxyType(columns), weight)


def _freeze(array: Array) -> Array:
    """Make an array that an emit which writes to it cannot change."""
    array.flags.writeable = False
    return array


def _make_spec(row: EmitRow, series: Series) -> EmitSpec:
    texts = [name for name, column in series.batch.attributes.items() if column.names is not None]
    attribute = (texts or [series.value])[0] if row.takes_attribute == "required" else None
    return EmitSpec(row.name, 2 if row.takes_count else None, attribute)


def _check_one(emit: Any, spec: EmitSpec, series: Series) -> Iterator[str]:
    answers = []
    for _ in range(2):
        answer, problem = call_guarded(emit.compute, series, spec)
        if problem is not None:
            yield f"it raised {problem}"
            return
        answers.append(answer)
    yield from _check_answer(answers, series)
    lines, problem = call_guarded(emit.render, answers[0], series.unit, _STYLE)
    if problem is not None:
        yield f"render() raised {problem}"
        return
    yield from _check_lines(lines)


def _check_answer(answers: list[Any], series: Series) -> Iterator[str]:
    first = answers[0]
    if not isinstance(first, dict):
        yield f"its answer is {first!r}, not a dict"
        return
    try:
        written = [json.dumps(answer, allow_nan=False) for answer in answers]
    except (TypeError, ValueError) as error:
        yield f"its answer holds more than plain values: {error}"
        return
    if written[0] != written[1]:
        yield "two answers over the same events differ"
    if first.get("lower_bound") is not series.lower_bound:
        yield f"it answers lower_bound={first.get('lower_bound')!r} over a series whose own is {series.lower_bound}"


def _check_lines(lines: Any) -> Iterator[str]:
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        yield f"render() returned {lines!r}, not a list of lines"
        return
    for line in lines:
        if len(line) > _STYLE.width or line != line.rstrip() or "\n" in line:
            yield f"render() made the line {line!r}: wider than {_STYLE.width}, broken, or with spaces at its end"
