"""The whole answer to what happened, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from omn_agent.health import OF_SESSIONS
from omn_agent.reading.captures import ReadCapture, Reading
from omn_agent.reading.figures import compute_context_peak, compute_group, compute_tokens, list_limits
from omn_agent.reading.groups import make_groups
from omn_agent.reading.machine import make_machine_report
from omn_agent.reading.tools import (
    describe_names,
    describe_response,
    describe_script,
    describe_tool,
    describe_unfinished,
    list_kind,
    list_slowest,
)

_SLOWEST = 10
SCHEMA = 1
KNOWN_SCHEMA = 1
"""The version of the contract that is read here. A later one may mean something else by the same names."""


def make_report(reading: Reading) -> dict[str, Any]:
    """Return the report: sessions, captures, tools, responses, scripts, what nobody saw end, the files' health."""
    has_one_clock = not any(file.clock_errors for file in reading.files)
    captures = reading.captures
    places = {capture: place for place, capture in enumerate(captures)}
    tools = list_kind(captures, "tool", "script")
    worked = list_kind(captures, "tool", "script", "model call", "response", "compaction")
    return {
        "schema": SCHEMA,
        "groups": [
            {**compute_group(group, has_one_clock), "members": [places[member] for member in group.members]}
            for group in make_groups(captures)
        ],
        "captures": [_describe_capture(capture) for capture in captures],
        "tools": describe_names(list_kind(captures, "tool"), has_one_clock or len(captures) == 1),
        "slow_tools": [describe_tool(*row) for row in list_slowest(tools, _SLOWEST)],
        "responses": [describe_response(*row) for row in list_kind(captures, "response")],
        "scripts": [describe_script(*row) for row in list_kind(captures, "script")],
        "unfinished": [describe_unfinished(*row) for row in worked if row[1].is_incomplete],
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
        "role": capture.get_text("role"),
        "newer_schema": _find_newer_schema(capture),
        **{f"{name}_tokens": compute_tokens(capture, name) for name in ("input", "output")},
        **{f"{kind}s": sum(1 for _ in capture.iter_kind(kind)) for kind in ("prompt", "response", "tool", "script")},
        "context_tokens": compute_context_peak(capture),
        "context_window_tokens": next(iter(limits)) if len(limits) == 1 else None,
        "dropped_events": _find_peak(capture, "dropped_events"),
        "lane_overflows": _find_peak(capture, "lane_overflows"),
        "clock_uncertainty_ns": capture.args.get("clock_uncertainty_ns"),
        "unverified": capture.args.get("unverified") is True,
        "losses": _find_losses(capture),
        "degradations": [text for text in _get_list(capture.args.get("degradations")) if isinstance(text, str)],
    }


def _find_losses(capture: ReadCapture) -> dict[str, int]:
    """Return what its recorder or importer counted as lost, of the whole recording and of this session."""
    told = capture.args.get("losses")
    found = told if isinstance(told, dict) else {}
    found = {**found, **{name: capture.args.get(name) for name in OF_SESSIONS}}
    return {str(name): count for name, count in found.items() if isinstance(count, int) and count}


def _get_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _find_newer_schema(capture: ReadCapture) -> int | None:
    version = capture.args.get("schema_version")
    return version if isinstance(version, int) and version > KNOWN_SCHEMA else None


def _find_peak(capture: ReadCapture, name: str) -> int | None:
    return max((int(value) for _, value in capture.counters.get(name, [])), default=None)


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
