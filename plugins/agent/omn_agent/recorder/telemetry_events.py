"""What Claude Code's telemetry adds to sessions: when requests were made, and the span that a tool's processes name.

A request's interval has its retries in it (`request-including-retries`). Tokens, tools and compactions are what session
files and hooks say of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from omn_agent.importing.fields import find_milliseconds_before, find_nanoseconds, find_text
from omn_agent.importing.session import Session
from omn_agent.recorder.event import HarnessEvent
from omn_agent.recorder.findings import Findings
from omn_agent.recording import Response

REQUEST = "request-including-retries"


def apply_events(findings: Findings, events: Sequence[HarnessEvent]) -> None:
    """Let telemetry say what it adds; events come in no order, and spans after those inside them."""
    tools = {
        find_text(event.payload, "span_id"): find_text(event.payload, "tool_use_id")
        for event in events
        if event.kind == "telemetry.span.tool"
    }
    for event in events:
        apply = _APPLIERS.get(event.kind)
        if apply is not None:
            apply(findings, event, tools)


def _end_request(findings: Findings, event: HarnessEvent, _: object) -> None:
    """Take how long a request took, ending at its event."""
    response = _find_response(findings, event)
    unix_ns = find_nanoseconds(event.payload, "unix_ns")
    if response is None or unix_ns is None or response.timing == REQUEST:
        return
    end_ns = findings.timeline.compute_monotonic(unix_ns)
    start_ns = find_milliseconds_before(event.payload, "duration_ms", end_ns)
    if start_ns is not None:
        response.start_ns, response.end_ns, response.timing = start_ns, end_ns, REQUEST


def _measure_request(findings: Findings, event: HarnessEvent, _: object) -> None:
    """Take a request's span, which is stamped more exactly than its event is."""
    response = _find_response(findings, event)
    start_ns, end_ns = find_nanoseconds(event.payload, "start_unix_ns"), find_nanoseconds(event.payload, "end_unix_ns")
    if response is None or start_ns is None or end_ns is None:
        return
    convert = findings.timeline.compute_monotonic
    response.start_ns, response.end_ns, response.timing = convert(start_ns), convert(end_ns), REQUEST
    ttft: Any = event.payload.get("ttft_ms")
    response.ttft_ms = float(ttft) if isinstance(ttft, int | float) else response.ttft_ms


def _name_execution(findings: Findings, event: HarnessEvent, tools: dict[str | None, str | None]) -> None:
    """Take the span that a tool's processes are executed in: of the execution, whose parent is the tool's own span."""
    call_id = find_text(event.payload, "tool_use_id") or tools.get(find_text(event.payload, "parent_span_id"))
    span_id = find_text(event.payload, "span_id")
    for session in findings.sessions.values():
        if call_id in session.tools and span_id is not None:
            session.tools[str(call_id)].trace_span = span_id


def _find_response(findings: Findings, event: HarnessEvent) -> Response | None:
    """Find the response that an event is of, by the provider's id of its request; what no file has is counted."""
    request_id = find_text(event.payload, "request_id")
    found: list[Session] = [row for row in findings.sessions.values() if request_id in row.by_request]
    if request_id is None or not found:
        findings.count("telemetry_of_no_response")
        return None
    return found[0].by_request[request_id]


_Apply = Callable[[Findings, HarnessEvent, dict[str | None, str | None]], None]
_APPLIERS: dict[str, _Apply] = {
    "telemetry.api_request": _end_request,
    "telemetry.span.llm_request": _measure_request,
    "telemetry.span.tool.execution": _name_execution,
}
