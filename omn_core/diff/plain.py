"""A comparison as plain values, which the formats that hold documents write."""

from __future__ import annotations

from typing import Any

from omn_core import SCHEMA, __version__
from omn_core.diff.model import Answer, Apart, Comparison, Figure, Ran, Row, Table
from omn_core.names import escape_tree


def compute_plain_comparison(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison in the names of docs/diff.md."""
    plain: dict[str, Any] = escape_tree(
        {
            "omn": {"version": __version__, "schema": SCHEMA},
            "a": [_ran(one) for one in comparison.a],
            "b": [_ran(one) for one in comparison.b],
            "machines": [{"field": one.field, "a": one.a, "b": one.b} for one in comparison.machines],
            "answers": [_answer(one) for one in comparison.answers],
            "not_compared": [{"what": one.what, "reason": one.reason} for one in comparison.refused],
            "notes": comparison.notes,
        }
    )
    return plain


def _ran(ran: Ran) -> dict[str, Any]:
    return {
        "place": ran.place,
        "repeat": ran.repeat,
        "argv": ran.argv,
        "window_ns": ran.window_ns,
        "ended_by": ran.ended_by,
    }


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "source": answer.source,
        "mode": answer.mode,
        "emit": answer.emit,
        "value": answer.value,
        "unit": answer.unit,
        "facts": answer.facts,
        "caveats": answer.caveats,
        "tables": [_table(table) for table in answer.tables],
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "figure": table.figure,
        "unit": table.unit,
        "per_second": table.is_per_second,
        "confidence": table.confidence,
        "rows": [_row(row) for row in table.rows],
        "apart": [_apart(apart) for apart in table.apart],
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "name": dict(row.name),
        "a": _figure(row.a),
        "b": _figure(row.b),
        "difference": row.difference,
        "relative": row.relative,
        "error": row.error,
        "p": row.p,
        "verdict": row.verdict,
        "flag": row.flag,
        "recovered": row.is_recovered,
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "mean": figure.mean,
        "values": figure.values,
        "events": figure.events,
        "share": figure.share,
        "lower_bound": figure.is_bound,
    }


def _apart(apart: Apart) -> dict[str, Any]:
    return {
        "lacks": apart.lacks,
        "remedy": apart.remedy,
        "a": apart.a,
        "b": apart.b,
        "share_a": apart.share_a,
        "share_b": apart.share_b,
        "rows": apart.rows,
        "examples": [{"name": name, "a": a, "b": b} for name, a, b in apart.examples],
    }
