"""A run as text: what was asked, what was chosen, the numbers, what was lost, what is degraded, what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import attrs

from omn_core.format import sentences
from omn_core.format.events import Row, iter_rows
from omn_core.format.page import Page, wrap
from omn_core.format.plain import collect_unverified
from omn_core.format.spread import render_spread, render_windows
from omn_core.format.text_account import add_account, render_footer
from omn_core.format.text_numbers import BUILTIN, add_numbers
from omn_core.model.request import READING_MODES
from omn_core.model.resolved import ResolvedRequest
from omn_core.model.result import Document, Result
from omn_core.model.style import TextStyle
from omn_core.model.walks import NONE
from omn_core.names import render_printable

_LONGEST_VALUE = 240
_SIX_DIGITS, _ALL_DIGITS = 1e6, 1e15


def write_run(document: Document, stream: BinaryIO, style: TextStyle) -> None:
    """Write a run: each request with its numbers, then the program and the cost.

    What several requests share (the window, the program, that nothing was lost) is said once for all.
    """
    stops = sentences.list_stops(document)
    if stops:
        page = Page(style)
        for stop in stops:
            page.add_labelled("stopped", render_printable(stop), "alarm")
        stream.write(f"{page.render()}\n".encode())
    if len(document.results) > 1:
        page = Page(style)
        page.add_heading(sentences.render_run(document))
        stream.write(f"{page.render()}\n".encode())
    for index, result in enumerate(document.results):
        page = Page(_style_numbers(style, result.resolved))
        _add_asked(page, result)
        _add_window(page, document, index)
        page.add_blank()
        if result.repeat is None:
            add_numbers(page, result, {**BUILTIN, **document.emits})
        else:
            page.add_block(render_spread(result.repeat, result, page.inner))
        stream.write(page.render().encode())
        _write_events(result, stream, page.width)
        account = Page(style, [""])
        add_account(account, document, index)
        account.add_blank()
        stream.write(account.render().encode())
    stream.write(render_footer(document, style).encode())


def _style_numbers(style: TextStyle, resolved: ResolvedRequest) -> TextStyle:
    is_level = not resolved.adds_up and resolved.mode in READING_MODES
    return attrs.evolve(style, scale=resolved.scale, is_level=is_level)


def _add_asked(page: Page, result: Result) -> None:
    resolved = result.resolved
    page.add_heading(sentences.render_asked(result))
    page.add_labelled("through", sentences.render_chosen(resolved))
    for clause in sentences.render_passed_over(resolved):
        page.add_labelled("passed", clause, "faint")
    if resolved.walk is not None and resolved.walk.walk != NONE:
        page.add_labelled("stacks", sentences.render_walk(resolved.walk))
    if resolved.defaulted:
        page.add_labelled("default", "; ".join(resolved.defaulted), "faint")
    for sentence in collect_unverified(result):
        page.add_labelled("unverified", render_printable(sentence), "alarm")
    if result.filter is not None:
        page.add_labelled("filter", sentences.render_filter(result.filter))


def _add_window(page: Page, document: Document, index: int) -> None:
    result = document.results[index]
    if document.repeats:
        page.add_labelled("window", render_windows(document, index))
    elif len(document.results) > 1 and result.window == document.window:
        page.add_labelled("events", sentences.render_events(result))
    else:
        page.add_labelled("window", sentences.render_window(result, document.window))


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
    if "stack" in row:
        fields["stack"] = " < ".join(row["stack"])
    parts = [f"{name}={render_printable(_spell(value), _LONGEST_VALUE)}" for name, value in fields.items()]
    yield from wrap(f"  {offset / 1e9:+.9f} {' '.join(parts)}", width, "      ")


def _spell(value: object) -> str:
    """Return a field's value: a float by six digits and every whole one, anything else as it is."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if _SIX_DIGITS <= abs(value) < _ALL_DIGITS else f"{value:.6g}"
