"""A comparison as text, for a person."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from omn_core.diff.code import RECOVERED
from omn_core.diff.model import Answer, Apart, Comparison, Machines, Ran, Row, Table
from omn_core.diff.rows import BOUND, FEW, LEAST_EVENTS
from omn_core.diff.statistics import FALSE_RATE
from omn_core.format.columns import render_column
from omn_core.format.figures import MARK, render_key, say_more
from omn_core.format.page import Page, wrap
from omn_core.format.scale import render_count, render_duration, render_number
from omn_core.model.style import TextStyle
from omn_core.names import compute_width, pad, render_printable

_LEAST_NAME = 12
_LONGEST = 60

_CONFIDENCE = {
    "between runs": "between runs: by how much the runs of each side differ from one another (Welch's test)",
    "within one run": "within one run a side: by the noise of counting alone, which says nothing of how much two runs "
    "of one program differ; with -r on both sides that is tested too",
    "nothing": "none: one run a side says nothing of how much two runs of one program differ; use -r on both sides",
}


def render_comparison(comparison: Comparison, style: TextStyle) -> str:
    """Return the text of a comparison: both sides, what is not the same about their machines, each answer's tables."""
    page = Page(style)
    page.add_heading(f"A {_call(comparison.a)}")
    page.add_heading(f"B {_call(comparison.b)}")
    for one in comparison.machines:
        page.add_labelled("machine", _render_machines(one), "alarm")
    for note in comparison.notes:
        page.add_labelled("note", note)
    said: set[str] = set()
    for answer in comparison.answers:
        _add_answer(page, answer, said)
    if comparison.refused:
        page.add_blank()
        for refusal in comparison.refused:
            page.add_labelled("left out", render_printable(f"{refusal.what}: {refusal.reason}"))
    return page.render()


def _call(runs: Sequence[Ran]) -> str:
    places = ", ".join(dict.fromkeys(run.place for run in runs))
    programs = dict.fromkeys("no program" if run.argv is None else shlex.join(run.argv) for run in runs)
    lengths = [run.window_ns for run in runs]
    low, high = render_duration(min(lengths)), render_duration(max(lengths))
    count = "1 run" if len(runs) == 1 else f"{render_count(len(runs))} runs"
    window = low if low == high else f"{low} to {high}"
    return f"{render_printable(places, 120)}: {count} of {window}, {render_printable(' and '.join(programs), _LONGEST)}"


def _render_machines(one: Machines) -> str:
    only = _find_only(one)
    if only is not None:
        return f"{one.field}: {only}"
    of_a, of_b = (" and ".join(_spell(value) for value in side) for side in (one.a, one.b))
    return render_printable(f"{one.field}: {of_a} in A, {of_b} in B", 400)


def _find_only(one: Machines) -> str | None:
    """Say of lists what only one side has of them."""
    if len(one.a) != 1 or len(one.b) != 1 or not isinstance(one.a[0], list) or not isinstance(one.b[0], list):
        return None
    clauses = []
    for name, mine, other in (("A", one.a[0], one.b[0]), ("B", one.b[0], one.a[0])):
        alone = [str(part) for part in mine if part not in other]
        if alone:
            clauses.append(f"{', '.join(alone)} only in {name}")
    return render_printable("; ".join(clauses), 400) or None


def _spell(value: Any) -> str:
    return "unknown" if value is None else str(value)


def _add_answer(page: Page, answer: Answer, said: set[str]) -> None:
    """Add an answer. What was said of an answer before it is not said again."""
    page.add_blank()
    page.add_heading(f"{answer.source}: {answer.emit}; {answer.mode}, {answer.value}")
    confidences = [_CONFIDENCE[one] for one in dict.fromkeys(table.confidence for table in answer.tables)]
    lines: list[tuple[str, str, str | None]] = [("note", render_printable(text), None) for text in answer.facts]
    lines += [("caveat", render_printable(text), "faint") for text in answer.caveats]
    lines += [("verdicts", text, None) for text in confidences]
    if any(row.verdict for table in answer.tables for row in table.rows):
        lines.append(("", f"of those given, about 1 in {round(1 / FALSE_RATE)} is expected to be chance", "faint"))
    for label, text, paint in lines:
        if f"{answer.source}: {text}" not in said:
            page.add_labelled(label, text, paint)
            said.add(f"{answer.source}: {text}")
    for table in _merge(answer.tables):
        _add_table(page, table)


def _merge(tables: Sequence[Table]) -> Sequence[Table]:
    """Return several figures of one thing as one table, a row for each figure; others as they are."""
    are_single = all(len(table.rows) == 1 and not table.rows[0].name and not table.apart for table in tables)
    if len(tables) < 2 or not are_single or len({table.is_per_second for table in tables}) > 1:
        return tables
    rows = tuple(attrs.evolve(table.rows[0], name={"figure": table.figure}) for table in tables)
    return (attrs.evolve(tables[0], figure="", rows=rows),)


_HEADINGS = {
    "self": "self: what ran in the function itself",
    "inclusive": "inclusive: with all that it called; these do not add up",
}


_FLAGS = {
    FEW: f"few: fewer than {LEAST_EVENTS} events a run on both sides, which is not judged",
    BOUND: "bound: losses may be the difference, as they are of the lesser side",
}


def _add_table(page: Page, table: Table) -> None:
    page.add_blank()
    scaled = ", a second of the window" if table.is_per_second else ""
    heading = f"{_HEADINGS.get(table.figure, table.figure)}{scaled}"
    if heading:
        page.add_block([heading])
    most = len(table.rows) if page.style.rows is None else page.style.rows
    if table.rows:
        page.add_block(_render_rows(table.rows[:most], table, page.inner))
    if len(table.rows) > most:
        page.add_block([say_more(len(table.rows) - most)])
    for flag in dict.fromkeys(row.flag for row in table.rows[:most] if row.flag is not None):
        page.add_block(wrap(f"({_FLAGS[flag]})", page.inner.width, " "))
    for apart in table.apart:
        page.add_block(_render_apart(apart, table, page.inner))


def _render_rows(rows: Sequence[Row], table: Table, style: TextStyle) -> list[str]:
    unit = f"{table.unit}/s" if table.is_per_second else table.unit
    columns = [
        ("", [row.verdict or row.flag or "" for row in rows], False),
        ("change", [_render_relative(row) for row in rows], True),
        ("A", _render_figures([row.a.mean for row in rows], [row.a.is_bound for row in rows], unit), True),
        ("", [_render_share(row.a.share) for row in rows], True),
        ("B", _render_figures([row.b.mean for row in rows], [row.b.is_bound for row in rows], unit), True),
        ("", [_render_share(row.b.share) for row in rows], True),
    ]
    kept = [column for column in columns if column[0] or any(column[1])]
    widths = [max(compute_width(text) for text in (head, *cells)) for head, cells, _ in kept]
    heads = [pad(head, width, right=right) for (head, _, right), width in zip(kept, widths, strict=True)]
    lines = ["  ".join(heads).rstrip()]
    for place, row in enumerate(rows):
        cells = [pad(of[place], width, right=right) for (_, of, right), width in zip(kept, widths, strict=True)]
        head = "  ".join(cells)
        lines.append(f"{head}  {_render_name(row, max(style.width - compute_width(head) - 2, _LEAST_NAME))}".rstrip())
    return lines


def _render_figures(values: Sequence[float], bounds: Sequence[bool], unit: str) -> list[str]:
    texts = render_column(values, unit)
    return [f"{MARK} {text}" if is_bound else text for text, is_bound in zip(texts, bounds, strict=True)]


def _render_relative(row: Row) -> str:
    if row.relative is None:
        return "new" if row.difference else ""
    return f"{100 * row.relative:+.1f} %"


def _render_share(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def _render_name(row: Row, width: int) -> str:
    if not row.name:
        return "(all)"
    if "figure" in row.name:
        return str(row.name["figure"])
    mark = RECOVERED if row.is_recovered else ""
    if "function" in row.name:
        return render_key(row.name["function"], max(width - len(mark), _LEAST_NAME)) + mark
    return render_key(", ".join(f"{name} {value}" for name, value in row.name.items()), width)


def _render_apart(apart: Apart, table: Table, style: TextStyle) -> Iterator[str]:
    unit = f"{table.unit}/s" if table.is_per_second else table.unit
    figures = [
        f"{render_number(value, unit)}{'' if share is None else f' ({_render_share(share)})'} in {name}"
        for name, value, share in (("A", apart.a, apart.share_a), ("B", apart.b, apart.share_b))
        if value is not None
    ]
    named = ", ".join(render_key(name, 40) for name, _, _ in apart.examples)
    remedy = "" if apart.remedy is None else f"; {apart.remedy}"
    rows = f"{_count_rows(apart.rows)} ({named})" if named else _count_rows(apart.rows)
    text = f"not compared, lacking {apart.lacks}: {', '.join((*figures, rows))}{remedy}"
    yield from wrap(text, style.width, "  ")


def _count_rows(count: int) -> str:
    return "1 row" if count == 1 else f"{render_count(count)} rows"
