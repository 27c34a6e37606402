"""A run as text: what was asked, what was chosen, the numbers, what was lost, what is degraded, what it cost."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import attrs

from omn_core.builtin import omn_emits
from omn_core.emit.base import Emit
from omn_core.errors import PLUGIN_FAULTS
from omn_core.format import sentences
from omn_core.format.events import Row, iter_rows
from omn_core.format.figures import is_flat, render_figures, render_key
from omn_core.format.page import Page, wrap
from omn_core.format.plain import collect_degraded, collect_unverified
from omn_core.format.spread import render_program_spread, render_spread, render_windows
from omn_core.model.request import READING_MODES, EmitSpec
from omn_core.model.resolved import ResolvedRequest
from omn_core.model.result import Document, Result, SeriesResult
from omn_core.model.rows import EmitRow
from omn_core.model.style import TextStyle
from omn_core.names import render_printable

_LONGEST_VALUE = 240
_BUILTIN = {row.name: row for row in omn_emits()}


def write_run(document: Document, stream: BinaryIO, style: TextStyle) -> None:
    """Write a run: each request with its numbers, then the program and the cost."""
    for index, result in enumerate(document.results):
        page = Page(_style_numbers(style, result.resolved))
        _add_asked(page, result)
        page.add_labelled(
            "window", render_windows(document, index) if document.repeats else sentences.render_window(result)
        )
        page.add_blank()
        if result.repeat is None:
            _add_numbers(page, result, {**_BUILTIN, **document.emits})
        else:
            page.add_block(render_spread(result.repeat, result, page.inner))
        stream.write(page.render().encode())
        _write_events(result, stream, page.width)
        stream.write(_render_account(document, index, style).encode())
    stream.write(_render_run(document, style).encode())


def _style_numbers(style: TextStyle, resolved: ResolvedRequest) -> TextStyle:
    is_level = not resolved.adds_up and resolved.mode in READING_MODES
    return attrs.evolve(style, scale=resolved.scale, is_level=is_level)


def _add_asked(page: Page, result: Result) -> None:
    resolved = result.resolved
    page.add_heading(sentences.render_asked(result))
    page.add_labelled("through", sentences.render_chosen(resolved))
    for clause in sentences.render_passed_over(resolved):
        page.add_labelled("passed", clause, "faint")
    if resolved.defaulted:
        page.add_labelled("default", "; ".join(resolved.defaulted), "faint")
    for sentence in collect_unverified(result):
        page.add_labelled("unverified", render_printable(sentence), "alarm")
    if result.filter is not None:
        page.add_labelled("filter", sentences.render_filter(result.filter))


def _add_numbers(page: Page, result: Result, rows: Mapping[str, EmitRow]) -> None:
    if not result.series:
        page.add_block(["no series: no event carried a key" if result.failure is None else "no answer"])
    for spec in result.resolved.emits:
        asked = str(spec)
        answered = [series for series in result.series if asked in series.emits]
        if len(result.resolved.emits) > 1 and answered:
            page.add_blank()
            page.add_block([asked])
        row = rows.get(spec.name)
        is_tabled = row is None or row == _BUILTIN.get(spec.name)
        if is_tabled and all(is_flat(series.emits[asked]) for series in answered):
            figures = [(series.key, series.emits[asked]) for series in answered]
            page.add_block(
                render_figures(figures, result.resolved.unit, page.inner, result.resolved.keys) if figures else []
            )
        else:
            _add_shaped(page, result, answered, spec, rows)


def _add_shaped(
    page: Page, result: Result, answered: list[SeriesResult], spec: EmitSpec, rows: Mapping[str, EmitRow]
) -> None:
    emit = _load(rows.get(spec.name))
    for series in answered:
        if series.key:
            page.add_blank()
            page.add_block(
                wrap(
                    ", ".join(f"{name} {render_key(value, 60)}" for name, value in series.key.items()),
                    page.width - 2,
                    "",
                )
            )
        page.add_block(_render(emit, series.emits[str(spec)], result.resolved.unit, page.inner))


def _load(row: EmitRow | None) -> Emit | None:
    if row is None:
        return None
    module, _, name = row.reference.partition(":")
    emit: Emit = getattr(importlib.import_module(module), name)
    return emit


def _render(emit: Emit | None, answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
    """Return an answer's lines; those of its values as they stand where no emit renders it, or where that raised."""
    why = ""
    if emit is not None:
        try:
            return emit.render(answer, unit, style)
        except PLUGIN_FAULTS as error:  # a guarded plugin call: the numbers are there all the same
            why = f"(render raised {type(error).__name__}: {error}) "
    return wrap(render_printable(f"{why}{dict(answer)}"), style.width, "  ")


def _render_account(document: Document, index: int, style: TextStyle) -> str:
    """Return what was lost and what is degraded, then what else a reader of the numbers should know."""
    page = Page(style, [""])
    result = document.results[index]
    runs = [run.results[index] for run in document.repeats] or [result]
    if result.repeat is None:
        losses = sentences.render_losses(result.losses)
        page.add_labelled("lost", "; ".join(losses) or "nothing", "alarm" if result.losses.is_lower_bound else None)
    else:
        page.add_labelled(
            "lost", "; ".join(result.repeat.notes) or "nothing, in any run", "alarm" if result.repeat.notes else None
        )
    degraded = list(dict.fromkeys(sentence for run in runs for sentence in collect_degraded(run)))
    for sentence in degraded or ["nothing"]:
        page.add_labelled("degraded", render_printable(sentence), "alarm" if degraded else None)
    for label, texts in (("caveat", result.caveats), ("note", result.facts)):
        for sentence in texts:
            page.add_labelled(label, render_printable(sentence))
    if result.fields:
        page.add_labelled(
            "fields", ", ".join(f"{render_printable(name)} {value}" for name, value in result.fields.items())
        )
    if result.stopped_because is not None:
        page.add_labelled("stopped", render_printable(result.stopped_because))
    if result.failure is not None:
        page.add_labelled("failed", render_printable(result.failure), "alarm")
    page.lines.append("")
    return page.render()


def _render_run(document: Document, style: TextStyle) -> str:
    page = Page(style)
    if document.program is not None:
        program = sentences.render_program(document.program)
        page.add_labelled("program", f"{'last run: ' if document.repeats else ''}{program}")
    for clause in render_program_spread(document):
        page.add_labelled("", f"{clause}")
    if document.adopted:
        page.add_labelled("adopted", sentences.render_adopted(document.adopted))
    for note in document.notes:
        page.add_labelled("note", render_printable(note))
    blocks = [name for name, block in document.extras.items() if block]
    if blocks:
        page.add_labelled("also", f"{', '.join(blocks)}, in every format but this one")
    last = "last run: " if document.repeats else ""
    page.add_labelled("cost", last + "; ".join(sentences.render_cost(document.cost)))
    return page.render()


def _write_events(result: Result, stream: BinaryIO, width: int) -> None:
    """Write raw events one after another: the time since the window opened, then every field by its name."""
    opened_ns = result.window.opened_ns
    for rows in iter_rows(result):
        lines = [line for row in rows for line in _render_event(row, opened_ns, width)]
        stream.write("".join(f"{line}\n" for line in lines).encode())


def _render_event(row: Row, opened_ns: int, width: int) -> Iterator[str]:
    offset = row["ts_ns"] - opened_ns
    fields = {**row["key"], **row["attrs"]}
    if "weight" in row:
        fields["weight"] = row["weight"]
    parts = [f"{name}={render_printable(str(value), _LONGEST_VALUE)}" for name, value in fields.items()]
    yield from wrap(f"  {offset / 1e9:+.9f} {' '.join(parts)}", width, "      ")
