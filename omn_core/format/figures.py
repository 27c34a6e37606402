"""Answers of a few figures each, as a table: one line for each series, its key first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omn_core.format.columns import render_column
from omn_core.format.page import wrap
from omn_core.format.scale import render_number
from omn_core.model.style import TextStyle
from omn_core.names import compute_width, pad, render_printable

Row = tuple[Mapping[str, Any], Mapping[str, Any]]

MARK = ">="
"""Stands before a figure that a loss made a lower bound."""

NOTHING_MEASURED = "nothing was measured"
"""Stands in place of rows where an answer has none."""

_ORDER = ("events", "count", "value", "min", "p50", "p90", "p99", "max", "mean", "last", "per_second", "total")
_DROPPED_FIRST = ("p90", "last", "min", "p99", "p50", "mean", "events")
_COUNTS = frozenset({"count", "events", "runs"})
_SHARES = frozenset({"share", "error"})
_LEAST_CUT = 4
"""So few rows are not worth the line that counts them."""

_BOUNDED = frozenset({"count", "events", "value", "max", "total", "sum", "per_second"})
_BOUNDED_OF_LEVELS = frozenset({"max"})
"""Of readings of a level, how many there were and the last of them are what they are, whatever was not read."""

_GAP = "  "


def is_flat(answer: Mapping[str, Any]) -> bool:
    """Whether an answer is figures alone, so that several of them make a table."""
    return not any(isinstance(value, list | tuple | dict) for value in answer.values())


def mark_bound(text: str, is_bound: bool) -> str:
    """Return a figure's text, marked where it is a lower bound."""
    return f"{MARK} {text}" if is_bound else text


def render_key(value: Any, width: int | None = None) -> str:
    """Return a key's value, `?` where the events carry none."""
    return "?" if value is None else render_printable(str(value), width)


def render_figures(
    rows: Sequence[Row], unit: str, style: TextStyle, key_names: Sequence[str] = (), order: Sequence[str] = _ORDER
) -> list[str]:
    """Return the table of (key, answer) rows in a unit, its columns in an order.

    A single series that does not fit the width is listed a figure a line; a table that does not fit leaves figures
    out and says which. Rows past the style's number of them are counted and not shown.
    """
    shown = rows if style.rows is None or len(rows) <= style.rows + _LEAST_CUT else rows[: style.rows]
    if any(answer.get("count") == 1 for _, answer in rows) and all(_is_one_reading(answer) for _, answer in rows):
        rows = [(key, _reduce_to_value(answer)) for key, answer in rows]
        shown = rows[: len(shown)]
    names = _order_names({name: None for _, answer in rows for name in answer if name != "lower_bound"}, order)
    cells = {name: _render_column(name, [answer for _, answer in shown], unit, style) for name in names}
    room = max(style.width // (len(key_names) + 2), 8)
    keys = {name: [render_key(key.get(name), room) for key, _ in shown] for name in key_names}
    widths = {name: _column_width(name, column) for name, column in {**keys, **cells}.items()}
    kept, left_out = _fit(names, widths, list(key_names), style.width)
    if left_out and not key_names and len(rows) == 1:
        return _list_figures(names, cells)
    lines = [_join([*((name, pad(name, widths[name])) for name in key_names), *_heads(kept, widths)])]
    for index in range(len(shown)):
        parts = [(name, pad(keys[name][index], widths[name])) for name in key_names]
        parts += [(name, pad(cells[name][index], widths[name], right=True)) for name in kept]
        lines.append(_join(parts))
    if len(shown) < len(rows):
        lines += wrap(say_more(len(rows) - len(shown)), style.width, " ")
    if left_out:
        lines += wrap(f"(a wider terminal also shows {', '.join(left_out)})", style.width, " ")
    return lines


def _is_one_reading(answer: Mapping[str, Any]) -> bool:
    """Tell whether an answer describes a single measurement or none: every figure of it is then the same."""
    return answer.get("count") in (0, 1) and "min" in answer and answer["min"] == answer.get("max")


def _reduce_to_value(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the one figure in place of those that equal it: ten columns of one number are no ten answers."""
    others = {
        name: value
        for name, value in answer.items()
        if name == "lower_bound" or (name != "count" and value != answer["min"])
    }
    return {"value": answer["min"], **others}


def say_more(count: int) -> str:
    """Return the line that stands for rows that a terminal is spared."""
    return f"... {count} more; a pipe, a file and every other format have all"


def _render_column(name: str, answers: Sequence[Mapping[str, Any]], unit: str, style: TextStyle) -> list[str]:
    of = _find_unit(name, unit)
    values = [answer.get(name) for answer in answers]
    are_numbers = all(value is None or (isinstance(value, int | float) and value is not True) for value in values)
    texts = (
        render_column(values, of, style.scale) if are_numbers else [_render_other(value, of, style) for value in values]
    )
    return [
        mark_bound(text, _is_bound(name, answer, style)) if name in answer else ""
        for text, answer in zip(texts, answers, strict=True)
    ]


def _find_unit(name: str, unit: str) -> str:
    if name in _COUNTS:
        return "count"
    return f"{unit}/s" if name == "per_second" else "ratio" if name in _SHARES else unit


def _render_other(value: Any, unit: str, style: TextStyle) -> str:
    """Return what is not a number among a plugin's figures."""
    if isinstance(value, str | bool):
        return render_printable(str(value), 24)
    return render_number(value, unit, style.scale)


def _is_bound(name: str, answer: Mapping[str, Any], style: TextStyle) -> bool:
    bounded = _BOUNDED_OF_LEVELS if style.is_level else _BOUNDED
    return bool(answer.get("lower_bound")) and name in bounded and answer[name] is not None


def _order_names(names: Mapping[str, None], order: Sequence[str]) -> list[str]:
    known = [name for name in order if name in names]
    return known + [name for name in names if name not in known]


def _column_width(name: str, column: Sequence[str]) -> int:
    return max(compute_width(text) for text in (name, *column))


def _fit(
    names: Sequence[str], widths: Mapping[str, int], keys: Sequence[str], width: int
) -> tuple[list[str], list[str]]:
    kept = list(names)
    left_out: list[str] = []
    candidates = [name for name in _DROPPED_FIRST if name in kept]
    candidates += [name for name in reversed(kept) if name not in candidates]
    while len(kept) > 1 and sum(widths[name] + len(_GAP) for name in (*keys, *kept)) - len(_GAP) > width:
        left_out.append(candidates.pop(0))
        kept.remove(left_out[-1])
    return kept, [name for name in names if name in left_out]


def _heads(names: Sequence[str], widths: Mapping[str, int]) -> list[tuple[str, str]]:
    return [(name, pad(name, widths[name], right=True)) for name in names]


def _join(parts: Sequence[tuple[str, str]]) -> str:
    return _GAP.join(text for _, text in parts).rstrip()


def _list_figures(names: Sequence[str], cells: Mapping[str, Sequence[str]]) -> list[str]:
    label = max(map(len, names))
    width = max(len(cells[name][0]) for name in names)
    return [f"{name:<{label}}{_GAP}{cells[name][0]:>{width}}" for name in names]
