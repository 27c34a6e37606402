"""The whole answer to what happened, as plain values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from omn_agent.reading.captures import ReadCapture, Reading
from omn_agent.reading.figures import compute_context_peak, compute_group, list_limits
from omn_agent.reading.groups import make_groups
from omn_agent.reading.machine import make_machine_report
from omn_agent.reading.spans import Span

SCHEMA = 1
_EXCERPT = 120


def make_report(reading: Reading, slowest: int = 10) -> dict[str, Any]:
    """Return the report: groups, captures, the slowest tools, responses, scripts, and how good the files are."""
    has_one_clock = not any(file.clock_errors for file in reading.files)
    captures = reading.captures
    tools = [(capture, span) for capture in captures for span in capture.iter_kind("tool", "script")]
    timed = [(capture, span) for capture, span in tools if span.interval is not None]
    timed.sort(key=lambda pair: -_get_length(pair[1]))
    return {
        "schema": SCHEMA,
        "groups": [compute_group(group, has_one_clock) for group in make_groups(captures)],
        "captures": [_describe_capture(capture) for capture in captures],
        "slow_tools": [_describe_tool(capture, span) for capture, span in timed[:slowest]],
        "responses": [_describe_response(row, span) for row in captures for span in row.iter_kind("response")],
        "scripts": [_describe_script(row, span) for row in captures for span in row.iter_kind("script")],
        "machine": make_machine_report(reading),
        "health": {
            "files": [attrs.asdict(file) for file in reading.files],
            "has_one_clock": has_one_clock,
            "spans_of_no_capture": reading.homeless,
        },
    }


def _describe_capture(capture: ReadCapture) -> dict[str, Any]:
    start_ns, end_ns = capture.window
    limits = list_limits(capture)
    return {
        "session": capture.session_id,
        "parent_session": capture.get_text("parent_session"),
        "label": capture.get_text("label"),
        "harness": capture.harness,
        "file": capture.file,
        "start_ns": start_ns,
        "window_ns": end_ns - start_ns,
        "is_open": capture.span.end_ns is None or capture.span.is_instant,
        "stop_reason": capture.get_text("stop_reason"),
        "context_tokens": compute_context_peak(capture),
        "context_window_tokens": next(iter(limits)) if len(limits) == 1 else None,
        "dropped_events": _find_peak(capture, "dropped_events"),
        "lane_overflows": _find_peak(capture, "lane_overflows"),
        "clock_uncertainty_ns": capture.args.get("clock_uncertainty_ns"),
        "unverified": capture.args.get("unverified") is True,
    }


def _find_peak(capture: ReadCapture, name: str) -> int | None:
    return max((int(value) for _, value in capture.counters.get(name, [])), default=None)


def _describe_tool(capture: ReadCapture, span: Span) -> dict[str, Any]:
    return {
        "name": span.args.get("name") or span.name,
        "kind": span.kind,
        "session": capture.session_id,
        "start_ns": span.start_ns,
        "duration_ns": _get_length(span),
        "is_error": span.args.get("is_error"),
        "timing": span.args.get("timing"),
        "about": _describe_input(capture, span),
    }


def _describe_input(capture: ReadCapture, span: Span) -> str | None:
    """Return what a tool was for: the intent that was given, else a beginning of its input, announced or executed."""
    intent = span.args.get("intent")
    if isinstance(intent, str):
        return intent[:_EXCERPT]
    args = span.args.get("args")
    if args is None:
        call = span.args.get("call_id")
        announced = (row for row in capture.iter_kind("preflight") if row.args.get("call_id") == call)
        args = next((row.args.get("args") for row in announced), None)
    return None if args is None else json.dumps(args, ensure_ascii=False)[:_EXCERPT]


def _describe_response(capture: ReadCapture, span: Span) -> dict[str, Any]:
    names = ("model", "provider", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    return {
        "session": capture.session_id,
        "ts_ns": span.start_ns,
        **{name: span.args.get(name) for name in (*names, "stop_reason", "timing")},
        "duration_ns": None if span.interval is None else _get_length(span),
        "first_content_ns": span.args.get("first_content_ns"),
        "is_incomplete": span.is_incomplete,
    }


def _describe_script(capture: ReadCapture, span: Span) -> dict[str, Any]:
    call = span.args.get("call_id")
    nested = [row for row in capture.iter_kind("tool", "model call") if row.args.get("parent_call_id") == call]
    return {
        "name": span.args.get("name") or span.name,
        "session": capture.session_id,
        "language": span.args.get("language"),
        **_count_lines(span),
        "duration_ns": None if span.interval is None else _get_length(span),
        "calls": [str(row.args.get("name") or row.name) for row in nested],
    }


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


def list_unhealthy(health: dict[str, Any]) -> Sequence[str]:
    """Return what is wrong with the files, a sentence each."""
    return list(_iter_unhealthy(health))


def _iter_unhealthy(health: dict[str, Any]) -> Iterable[str]:
    words = {
        "torn_bytes": "bytes at the end are no packet",
        "undecodable_packets": "packets do not decode",
        "skipped_packets": "parts are no packet or too large",
        "dropped_packets": "times its recorder lost packets",
        "clock_errors": "events could not be placed on the wall clock",
        "unfinished_ends": "ends of spans have no beginning",
    }
    for file in health["files"]:
        yield from (f"{file['path']}: {file[name]} {text}" for name, text in words.items() if file[name])
    if not health["has_one_clock"]:
        yield "times of several captures are not combined"
    if health["spans_of_no_capture"]:
        yield f"{health['spans_of_no_capture']} spans belong to no capture"
