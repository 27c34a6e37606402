"""Tools, scripts and responses as a reader asks of them: which took long, how often, and which nobody saw end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from omn_agent.reading.activity import compute_union, list_intervals
from omn_agent.reading.captures import ReadCapture
from omn_agent.reading.spans import Span

_EXCERPT = 120

Row = tuple[ReadCapture, Span]


def list_kind(captures: Iterable[ReadCapture], *kinds: str) -> list[Row]:
    """Return the spans of some kinds with their captures."""
    return [(capture, span) for capture in captures for span in capture.iter_kind(*kinds)]


def list_slowest(rows: Iterable[Row], most: int) -> list[Row]:
    """Return the rows that took longest of those whose interval was measured."""
    timed = [row for row in rows if row[1].interval is not None]
    return sorted(timed, key=lambda row: -_get_length(row[1]))[:most]


def describe_tool(capture: ReadCapture, span: Span) -> dict[str, Any]:
    """Return what there is to say of one tool's call."""
    return {
        "name": get_name(span),
        "kind": span.kind,
        "session": capture.session_id,
        "start_ns": span.start_ns,
        "duration_ns": None if span.interval is None else _get_length(span),
        "is_error": span.args.get("is_error"),
        "timing": span.args.get("timing"),
        "about": _describe_input(capture, span),
    }


def describe_names(rows: Sequence[Row], has_one_clock: bool) -> list[dict[str, Any]]:
    """Return a row for each tool's name, what covers most time first.

    `covered_ns` counts each moment once, however many ran; `failed` is None where nobody said whether any did.
    """
    by_name: dict[str, list[Span]] = {}
    for _, span in rows:
        by_name.setdefault(get_name(span), []).append(span)
    found = [_describe_name(name, spans, has_one_clock) for name, spans in by_name.items()]
    return sorted(found, key=lambda row: (-(row["covered_ns"] or 0), -(row["longest_ns"] or 0), row["name"]))


def _describe_name(name: str, spans: Sequence[Span], has_one_clock: bool) -> dict[str, Any]:
    intervals = list_intervals(spans)
    said = [span.args["is_error"] for span in spans if isinstance(span.args.get("is_error"), bool)]
    return {
        "name": name,
        "calls": len(spans),
        "failed": sum(said) if said else None,
        "longest_ns": max((end - start for start, end in intervals), default=None),
        "covered_ns": compute_union(intervals) if intervals and has_one_clock else None,
    }


def describe_unfinished(capture: ReadCapture, span: Span) -> dict[str, Any]:
    """Return what there is to say of work that was cut off: since when, and how long it was seen for."""
    return {
        "name": get_name(span),
        "kind": span.kind,
        "session": capture.session_id,
        "start_ns": span.start_ns,
        "observed_ns": None if span.end_ns is None else span.end_ns - span.start_ns,
        "about": _describe_input(capture, span),
    }


def describe_response(capture: ReadCapture, span: Span) -> dict[str, Any]:
    """Return a response's tokens and times. `first_content_ns` is from its own start, and no word of the provider's.

    `ttft_ms` is what the harness reported of its request.
    """
    names = ("model", "provider", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    return {
        "session": capture.session_id,
        "ts_ns": span.start_ns,
        **{name: span.args.get(name) for name in (*names, "stop_reason", "timing")},
        "duration_ns": None if span.interval is None else _get_length(span),
        "first_content_ns": span.args.get("first_content_ns"),
        "ttft_ms": span.args.get("ttft_ms"),
        "is_incomplete": span.is_incomplete,
    }


def describe_script(capture: ReadCapture, span: Span) -> dict[str, Any]:
    """Return a script's language, lines and the calls inside it, which have its own id in their capture."""
    call = span.args.get("call_id")
    nested = [row for row in capture.iter_kind("tool", "model call") if row.args.get("parent_call_id") == call]
    return {
        "name": get_name(span),
        "session": capture.session_id,
        "language": span.args.get("language"),
        **_count_lines(span),
        "duration_ns": None if span.interval is None else _get_length(span),
        "calls": [get_name(row) for row in nested] if call is not None else [],
    }


def get_name(span: Span) -> str:
    """Return a span's own name, or that of the tool that a completion without a start is of."""
    return str(span.args.get("name") or span.name)


def _describe_input(capture: ReadCapture, span: Span) -> str | None:
    """Return what a tool was for: the intent that was given, else a beginning of its input, announced or executed."""
    intent = span.args.get("intent")
    if isinstance(intent, str):
        return shorten(intent)
    args = span.args.get("args")
    if args is None:
        call = span.args.get("call_id")
        announced = (row for row in capture.iter_kind("preflight") if row.args.get("call_id") == call)
        args = next((row.args.get("args") for row in announced), None)
    return None if args is None else shorten(json.dumps(args, ensure_ascii=False))


def shorten(text: str) -> str:
    """Return the beginning of a text, and dots where that is not all of it."""
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}..."


def _count_lines(span: Span) -> dict[str, Any]:
    """Return a script's lines: as recorded, or counted in an older file's source, a part of it being a lower bound."""
    recorded = span.args.get("line_count")
    if isinstance(recorded, int):
        return {"lines": recorded, "lines_at_least": False}
    source = _find_source(span.args.get("source"), span.args.get("args"))
    if source is None:
        return {"lines": None, "lines_at_least": False}
    lines = len(source.removesuffix("\n").split("\n")) if source else 0
    return {"lines": lines, "lines_at_least": bool(span.args.get("args_truncated") or span.args.get("truncated"))}


def _find_source(*values: Any) -> str | None:
    for value in values:
        found = value.get("code", value.get("source")) if isinstance(value, dict) else value
        if isinstance(found, str):
            return found
    return None


def _get_length(span: Span) -> int:
    interval = span.interval
    assert interval is not None
    return interval[1] - interval[0]
