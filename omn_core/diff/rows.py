"""Verdicts over the rows of one table: each row tested, and all of them together held to few false ones."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from omn_core.diff.model import LESS, MORE, Row
from omn_core.diff.statistics import Outcome, choose_certain, compare

LEAST_EVENTS = 10
"""A row of fewer events a run on both sides is known to no better than a third."""

FEW, BOUND = "few", "bound"
"""Why no verdict is given: too few events; a loss made the lesser side a lower bound."""


def compare_rows(rows: Sequence[Row]) -> tuple[str, tuple[Row, ...]]:
    """Return what the verdicts stand on, and the rows with theirs: the certain ones first, the greatest before.

    Rows of the whole (without a name) stay first.
    """
    outcomes = [_test(row) for row in rows]
    certain = choose_certain([None if outcome is None else outcome.p for outcome in outcomes])
    judged = [_judge(*parts) for parts in zip(rows, outcomes, certain, strict=True)]
    judged.sort(key=_place)
    return _find_confidence(rows), tuple(judged)


def _place(row: Row) -> tuple[bool, bool, bool, float]:
    """Return what a row is sorted by: few events by how many they are, since their difference is chance."""
    is_few = row.flag == FEW
    size = max(abs(row.a.mean), abs(row.b.mean)) if is_few else abs(row.difference)
    return bool(row.name), is_few, row.verdict is None, -size


def _test(row: Row) -> Outcome | None:
    return None if _has_few(row) else compare(row.a, row.b)


def _has_few(row: Row) -> bool:
    return all(one.events is not None and one.events < LEAST_EVENTS for one in (row.a, row.b))


def _judge(row: Row, outcome: Outcome | None, is_certain: bool) -> Row:
    if outcome is None:
        return attrs.evolve(row, flag=FEW if _has_few(row) else None)
    row = attrs.evolve(row, error=outcome.error, p=outcome.p)
    if not is_certain:
        return row
    lesser = row.a if row.difference > 0 else row.b
    if lesser.is_bound:
        return attrs.evolve(row, flag=BOUND)
    return attrs.evolve(row, verdict=MORE if row.difference > 0 else LESS)


def _find_confidence(rows: Sequence[Row]) -> str:
    if rows and all(min(len(row.a.values), len(row.b.values)) > 1 for row in rows):
        return "between runs"
    is_counted = any(one.noises is not None for row in rows for one in (row.a, row.b))
    return "within one run" if is_counted else "nothing"
