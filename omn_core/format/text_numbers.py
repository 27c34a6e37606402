"""The numbers of one result as text: a table of what is flat, a drawing of each series that has a shape."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from omn_core.builtin import omn_emits
from omn_core.errors import PLUGIN_FAULTS
from omn_core.format.figures import is_flat, render_figures, render_key, say_more
from omn_core.format.labels import render_labels
from omn_core.format.order import Row, order_series
from omn_core.format.page import Page, wrap
from omn_core.model.resolved import ResolvedRequest
from omn_core.model.result import Result
from omn_core.model.rows import EmitRow
from omn_core.model.style import TextStyle
from omn_core.names import render_printable

BUILTIN = {row.name: row for row in omn_emits()}

_LEAST_LINES = 3
"""What a drawing takes at the least: on a terminal as many fewer are shown than rows of a table."""


def _explain_nothing(result: Result) -> str:
    """Say why there is no series at all."""
    if result.failure is not None:
        return "no answer"
    if not result.window.length_ns:
        return "no series: nothing was watched"
    return "no series: no event carried a key" if result.events_seen else "no series: there was no event"


def add_numbers(page: Page, result: Result, rows: Mapping[str, EmitRow]) -> None:
    """Add what every emit that was asked for answers, its series the greatest first."""
    if not result.series:
        page.add_block([_explain_nothing(result)])
    keys = render_labels([(series.key, series.labels) for series in result.series])
    shown = {tuple(series.key.items()): key for series, key in zip(result.series, keys, strict=True)}
    for spec in result.resolved.emits:
        asked = str(spec)
        answers = [(series.key, series.emits[asked]) for series in result.series if asked in series.emits]
        answers = [(shown[tuple(key.items())], answer) for key, answer in order_series(answers)]
        if len(result.resolved.emits) > 1 and answers:
            page.add_blank()
            page.add_block([asked])
        row = rows.get(spec.name)
        is_tabled = row is None or row == BUILTIN.get(spec.name)
        if not answers:
            continue
        if is_tabled and all(is_flat(answer) for _, answer in answers):
            page.add_block(render_figures(answers, result.resolved.unit, page.inner, result.resolved.keys))
        else:
            _add_shaped(page, result.resolved, answers, row, spec.attribute)


def _add_shaped(
    page: Page, resolved: ResolvedRequest, answers: Sequence[Row], row: EmitRow | None, attribute: str | None
) -> None:
    emit = None if row is None else _load(row)
    unit, style = resolved.unit, attrs.evolve(page.inner, attribute=attribute)
    several = getattr(emit, "render_several", None)
    if several is not None and attribute is None and len(answers) > 1:
        page.add_block(_guard(lambda: several(answers, unit, style, resolved.keys), answers, style))
        return
    most = len(answers) if style.rows is None else max(style.rows // _LEAST_LINES, 1)
    for key, answer in answers[:most]:
        if key:
            page.add_blank()
            named = ", ".join(f"{name} {render_key(value, 60)}" for name, value in key.items())
            page.add_block(wrap(named, style.width, ""))
        page.add_block(_render(emit, answer, unit, style))
    if len(answers) > most:
        page.add_blank()
        page.add_block(wrap(say_more(len(answers) - most), style.width, " "))


def _load(row: EmitRow) -> Any:
    module, _, name = row.reference.partition(":")
    return getattr(importlib.import_module(module), name)


def _render(emit: Any, answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
    """Return an answer's lines; those of its values as they stand where no emit renders it."""
    if emit is None:
        return _show(dict(answer), "", style)
    return _guard(lambda: emit.render(answer, unit, style), dict(answer), style)


def _guard(render: Any, answer: Any, style: TextStyle) -> list[str]:
    try:
        lines: list[str] = render()
    except PLUGIN_FAULTS as error:  # a guarded plugin call: the numbers are there all the same
        return _show(answer, f"(render raised {type(error).__name__}: {error}) ", style)
    return lines


def _show(answer: Any, why: str, style: TextStyle) -> list[str]:
    return wrap(render_printable(f"{why}{answer}"), style.width, "  ")
