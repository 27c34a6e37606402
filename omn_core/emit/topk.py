"""`topk:N@ATTRIBUTE`: what the total is made of, greatest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from omn_core.emit.base import Answer, Series
from omn_core.emit.labels import find_labels, find_newest
from omn_core.emit.numbers import compute_reach, compute_sums, compute_total, to_plain_number
from omn_core.emit.series import UNKNOWN, compute_codes
from omn_core.format.bars import render_ranking
from omn_core.model.batch import Array
from omn_core.model.request import EmitSpec
from omn_core.model.style import TextStyle

DEFAULT_ROWS = 10


class TopK:
    """The N values of an attribute whose events sum to most; without an attribute the series ranked among themselves.

    What is ranked by a key whose values count different things has no shares. Events that lack the attribute rank
    together, as `?`. Equal sums stand in the order of the attribute's values.
    """

    def compute(self, series: Series, spec: EmitSpec) -> Answer:
        """Return the rows: each one's key, its sum, and its share of the series' total (None unless that is above 0).

        A row whose key has a label carries it, as `labels`. Over a window in which nothing was counted the ranking is
        one zero row, named by the series' label; without a window, or where the events carry no measurement, it has no
        rows.
        """
        if not len(series.values):
            is_zero = not len(series.batch) and series.window.length_ns > 0
            rows = [_row({"target": series.label}, 0, 0)] if is_zero else []
        elif spec.attribute is None:
            total = compute_total(series.sums)
            labels = find_labels(series.batch, series.key, series.labels)
            rows = [_row(dict(series.key) or {"target": series.label}, total, total, labels)]
        else:
            rows = _rank(series, spec.attribute, spec.count or DEFAULT_ROWS)
        return {"lower_bound": series.lower_bound, "rows": rows}

    def compute_several(self, several: Sequence[Series], spec: EmitSpec) -> list[Answer]:
        """Return each series' rows; without an attribute the N greatest series have a row, a share of them all."""
        answers = [self.compute(series, spec) for series in several]
        if spec.attribute is not None:
            return answers
        totals = [sum(row["value"] or 0 for row in answer["rows"]) for answer in answers]
        ranked = set(sorted(range(len(several)), key=lambda place: -totals[place])[: spec.count or DEFAULT_ROWS])
        whole = _find_whole(several, totals)
        for place, answer in enumerate(answers):
            kept = answer["rows"] if place in ranked else []
            answer["rows"] = [_row(row["key"], row["value"], whole, row.get("labels")) for row in kept]
        return answers

    def render(self, answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
        """Return a line for each row, with its share and a bar."""
        return render_ranking(answer, unit, style)

    def render_several(
        self,
        rows: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
        unit: str,
        style: TextStyle,
        key_names: Sequence[str],
    ) -> list[str]:
        """Return a line for each series that has a row, the greatest first."""
        ranked = sorted((row for _, answer in rows for row in answer["rows"]), key=lambda row: -(row["value"] or 0))
        is_bound = any(answer["lower_bound"] for _, answer in rows)
        return render_ranking({"lower_bound": is_bound, "rows": ranked}, unit, style)


def _rank(series: Series, attribute: str, rows: int) -> list[Answer]:
    column = series.batch.keys.get(attribute, series.batch.attributes.get(attribute))
    if column is not None and series.measured is not None:
        column = column.select(series.measured)
    codes, labels = compute_codes(column, len(series.values))
    sums = compute_sums(codes, series.sums, len(labels))
    total = None if attribute in series.apart else compute_total(series.sums)
    first = _order(sums)[:rows]
    names = [UNKNOWN if labels[place] is None else labels[place] for place in first]
    called = _find_called(series, attribute, codes, len(labels))
    return [
        _row({attribute: name}, sums[place], total, {attribute: called[place]} if place in called else {})
        for name, place in zip(names, first, strict=True)
    ]


def _find_whole(several: Sequence[Series], totals: Sequence[float]) -> float | None:
    """Find what the series are shares of: the sum of theirs, of all events where they share some; None of none."""
    if any(name in one.apart for one in several for name in one.key):
        return None
    return next((one.whole for one in several if one.whole is not None), sum(totals))


def _find_called(series: Series, attribute: str, codes: Array, count: int) -> dict[int, str]:
    """Find what the value of each code is called, where the attribute has a label and an event says it."""
    if attribute not in series.labels:
        return {}
    batch = series.batch if series.measured is None else series.batch.select(series.measured)
    newest = find_newest(batch, series.labels[attribute], codes, count)
    return {code: text for code, text in enumerate(newest) if text is not None}


def _order(sums: Array) -> list[int]:
    """Return the places of the sums, greatest first, by exact value where a float would blur them."""
    if sums.dtype.kind != "f" and (sums.dtype == object or compute_reach(sums) >= 1 << 53):
        return sorted(range(len(sums)), key=lambda place: -int(sums[place]))
    return list(np.argsort(-sums.astype(np.float64), kind="stable").tolist())


def _row(key: Mapping[str, Any], value: Any, total: float | None, labels: Mapping[str, str] | None = None) -> Answer:
    number = to_plain_number(value)
    share = to_plain_number(number / total) if number is not None and total is not None and total > 0 else None
    return {"key": key, **({"labels": labels} if labels else {}), "value": number, "share": share}


TOPK = TopK()
