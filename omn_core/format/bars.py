"""Answers with a shape, drawn: buckets, rankings and timelines, each line with its figures and a bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omn_core.format.columns import render_column
from omn_core.format.figures import NOTHING_MEASURED, mark_bound, render_key
from omn_core.format.labels import render_labels
from omn_core.format.scale import render_count, render_number
from omn_core.model.style import TextStyle
from omn_core.names import compute_width, pad

_LEAST_BAR = 8
_GREATEST_BAR = 60
_GAP_ROWS = 3
_TIMELINE_ROWS = 20


def render_buckets(answer: Mapping[str, Any], unit: str, style: TextStyle, title: str | None = None) -> list[str]:
    """Return a histogram: how many in all and their mean, then each bucket's bounds, count, share and bar."""
    buckets = answer["buckets"]
    total = sum(bucket["count"] for bucket in buckets)
    counted = mark_bound(render_count(total), _is_bound(answer, style))
    head = f"{counted} counted" if title is None else f"{render_key(title, style.width // 2)}: {counted} counted"
    if not total:
        return [head]
    if answer["sum"] is not None:
        head += f", mean {render_number(answer['sum'] / total, unit, style.scale)}"
    edges = render_column([bucket[edge] for bucket in buckets for edge in ("low", "high")], unit, style.scale)
    counts = render_column([bucket["count"] for bucket in buckets], "count")
    rows = [("from", "to", "count", "share", 0.0)]
    for low, high, count, bucket in zip(edges[::2], edges[1::2], counts, buckets, strict=True):
        share = bucket["count"] / total
        rows.append((low, high, count, f"{100 * share:.1f} %", share))
    return [head, *_fold_gaps(_draw(rows, style), [bucket["count"] for bucket in buckets])]


def render_ranking(answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
    """Return a ranking: each row's key, value, share of the total and bar."""
    if not answer["rows"]:
        return [NOTHING_MEASURED]
    keys = render_labels([(row["key"], row.get("labels", {})) for row in answer["rows"]])
    names = list(dict.fromkeys(name for key in keys for name in key))
    room = max(style.width // (2 * max(len(names), 1)), 8)
    values = render_column([row["value"] for row in answer["rows"]], unit, style.scale)
    rows = [(*(render_key(name, room) for name in names), "value", "share", 0.0)]
    for row, key, text in zip(answer["rows"], keys, values, strict=True):
        value = mark_bound(text, bool(answer["lower_bound"]))
        share = row["share"]
        shown = "-" if share is None else f"{100 * share:.1f} %"
        rows.append((*(render_key(key.get(name), room) for name in names), value, shown, share or 0.0))
    return _draw(rows, style, left=len(names))


def render_points(answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
    """Return a timeline: the time since the first point, the peak of that stretch, and a bar up from zero."""
    points = [(when, value) for when, value in answer["points"] if value is not None]
    if not points:
        return ["no points"]
    stretches = _divide_time(points)
    top = max(max((value for _, value in stretches), default=0), 0)
    is_cut = len(stretches) < len(points)
    rows: list[tuple[Any, ...]] = [("at", "peak" if is_cut else "value", 0.0)]
    offsets = render_column([offset_ns for offset_ns, _ in stretches], "ns")
    values = render_column([value for _, value in stretches], unit, style.scale)
    for offset, text, (_, value) in zip(offsets, values, stretches, strict=True):
        rows.append((f"+{offset}", text, value / top if top > 0 and value > 0 else 0.0))
    counted = mark_bound(render_count(len(points)), _is_bound(answer, style))
    return [f"{counted} points{', the peak of each stretch' if is_cut else ''}", *_draw(rows, style)]


def _is_bound(answer: Mapping[str, Any], style: TextStyle) -> bool:
    """Whether a loss makes a number of events a lower bound: so many readings of a level were made, and no more."""
    return bool(answer["lower_bound"]) and not style.is_level


def _divide_time(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return (offset, value) of each point, or of the peak of each of twenty even stretches that holds one."""
    first, last = points[0][0], points[-1][0]
    if len(points) <= _TIMELINE_ROWS:
        return [(when - first, value) for when, value in points]
    length = (last - first) // _TIMELINE_ROWS + 1
    peaks: dict[int, float] = {}
    for when, value in points:
        place = (when - first) // length
        peaks[place] = max(value, peaks.get(place, value))
    return [(place * length, peak) for place, peak in peaks.items()]


def _draw(rows: Sequence[tuple[Any, ...]], style: TextStyle, left: int = 0) -> list[str]:
    """Return aligned lines; the last part of each row is its bar's share of the greatest."""
    columns = len(rows[0]) - 1
    widths = [max(compute_width(row[column]) for row in rows) for column in range(columns)]
    room = min(style.width - sum(widths) - 2 * columns, _GREATEST_BAR)
    top = max(row[-1] for row in rows)
    lines = []
    for row in rows:
        parts = [pad(row[column], widths[column], right=column >= left) for column in range(columns)]
        bar = "#" * round(row[-1] / top * room) if top > 0 and room >= _LEAST_BAR else ""
        lines.append("  ".join([*parts, bar or ("." if row[-1] > 0 and room >= _LEAST_BAR else "")]).rstrip())
    return lines


def _fold_gaps(lines: list[str], counts: Sequence[float]) -> list[str]:
    """Return the lines with every long run of empty buckets as one line that says how many."""
    kept = [lines[0]]
    run: list[str] = []
    for line, count in zip(lines[1:], counts, strict=True):
        if count:
            kept += run if len(run) <= _GAP_ROWS else [f"({len(run)} empty buckets)"]
            kept.append(line)
            run = []
        else:
            run.append(line)
    return kept + run
