"""What a session did, on lanes: requests, responses, tools, scripts, model calls, compactions, workflows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from omn_agent.content import count_lines, describe_input
from omn_agent.encoding.canvas import Canvas
from omn_agent.encoding.thread import compute_preflight_flow, compute_script_flow
from omn_agent.flows import compute_delegation_flow
from omn_agent.harness import Area
from omn_agent.lanes import assign_lanes
from omn_agent.recording import Compaction, ModelCall, Request, Response, Tool, Usage, Workflow

_NO_MORE_LANES = 1 << 30
MOST_MODEL_CALLS = 4096


@attrs.frozen
class _Span:
    """One interval, ready to be drawn. `missing` is its name where nobody saw it begin."""

    name: str
    missing: str
    area: Area
    start_ns: int | None
    end_ns: int | None
    begin: dict[str, Any]
    end: Mapping[str, Any] = attrs.field(factory=dict)
    flows: tuple[int, ...] = ()


def add_activity(canvas: Canvas, linked: set[str]) -> int:
    """Draw a capture's activity, and return how many tools found no lane.

    `linked` holds the children whose launch was drawn, of the whole recording: one launch leads to one child.
    """
    capture = canvas.capture
    if Area.LLM in capture.areas:
        _add_lanes(canvas, "Requests", map(_make_request, capture.requests))
        _add_lanes(canvas, "Responses", map(_make_response, capture.responses))
        _add_lanes(canvas, "Compaction", map(_make_compaction, capture.compactions))
    if Area.WORKFLOW in capture.areas:
        _add_workflows(canvas, capture.workflows)
    tools = [tool for tool in capture.tools if _is_enabled(canvas, tool)]
    scripts = {tool.call_id for tool in tools if tool.script is not None}
    spans = [_make_tool(canvas, tool, scripts, linked) for tool in tools if not _is_passing(tool)]
    for tool in tools:
        calls = tool.script.model_calls[:MOST_MODEL_CALLS] if tool.script is not None else []
        spans += [_make_model_call(canvas, tool, call, index) for index, call in enumerate(calls)]
    for tool in tools:
        _add_middleware(canvas, tool)
    placed, overflows = assign_lanes(spans)
    for lane, span in placed:
        _add(canvas, canvas.get_lane("Tools", lane), span)
    return overflows


def describe_usage(usage: Usage) -> dict[str, Any]:
    """Return the annotations of reported tokens."""
    return attrs.asdict(usage)


def _is_enabled(canvas: Canvas, tool: Tool) -> bool:
    areas = canvas.capture.areas
    return Area.TOOLS in areas or (tool.delegation is not None and Area.WORKFLOW in areas)


def _is_passing(tool: Tool) -> bool:
    """Return whether nothing was seen of a tool but its result's way back: neither its beginning nor its end."""
    return tool.start_ns is None and tool.end_ns is not None and tool.end_ns == tool.middleware_ns


def _add_lanes(canvas: Canvas, name: str, spans: Iterable[_Span]) -> None:
    placed, _ = assign_lanes(spans, _NO_MORE_LANES)
    for lane, span in placed:
        _add(canvas, canvas.get_lane(name, lane), span)


def _add(canvas: Canvas, track: int, span: _Span) -> None:
    if span.start_ns is None:
        assert span.end_ns is not None
        annotations = {**span.begin, **span.end, "start_not_recorded": True}
        canvas.add_instant(track, span.missing, span.area, span.end_ns, annotations, span.flows)
    else:
        canvas.add_span(track, span.name, span.area, span.start_ns, span.end_ns, span.begin, span.end, flows=span.flows)


def _make_request(request: Request) -> _Span:
    begin = {
        "kind": "provider-request",
        "provider": request.provider,
        "model": request.model,
        "context_messages": request.context_messages,
        "timing": request.timing,
        "context": None if request.context is None else request.context.to_annotation(),
    }
    end = {"phase": "response-headers", "status_code": request.status_code}
    return _Span("request", "request", Area.LLM, request.start_ns, request.end_ns, begin, end)


def _make_response(response: Response) -> _Span:
    begin = {
        "kind": "assistant-message",
        "provider": response.provider,
        "model": response.model,
        "timing": response.timing,
        "context": None if response.context is None else response.context.to_annotation(),
    }
    end: dict[str, Any] = {}
    if response.end_ns is not None:
        has_start = response.start_ns is not None
        end = {
            "duration_ns": response.end_ns - response.start_ns if response.start_ns is not None else None,
            "first_content_ns": response.first_content_ns if has_start else None,
            "ttft_ms": response.ttft_ms,
            "updates": response.updates,
            "bytes": response.size_bytes,
            "stop_reason": response.stop_reason,
            **describe_usage(response.usage),
        }
    return _Span("response", "response", Area.LLM, response.start_ns, response.end_ns, begin, end)


def _make_compaction(compaction: Compaction) -> _Span:
    begin = {
        "reason": compaction.reason,
        "tokens_before": compaction.tokens_before,
        "timing": compaction.timing,
        "context": None if compaction.context is None else compaction.context.to_annotation(),
    }
    end = {
        "outcome": compaction.outcome,
        "will_retry": compaction.will_retry,
        "tokens_after": compaction.tokens_after,
        **describe_usage(compaction.usage),
    }
    return _Span("compact", "compact", Area.LLM, compaction.start_ns, compaction.end_ns, begin, end)


def _make_tool(canvas: Canvas, tool: Tool, scripts: set[str], linked: set[str]) -> _Span:
    capture = canvas.capture
    begin: dict[str, Any] = {
        "kind": "tool-execution" if tool.script is None else "script",
        "name": tool.name,
        "call_id": tool.call_id,
        "parent_call_id": tool.parent_call_id,
        "intent": tool.intent if capture.has_content else None,
        "timing": tool.timing,
        "trace_span": tool.trace_span,
    }
    if tool.has_args and capture.has_content:
        begin["args"] = tool.args
        described = describe_input(tool.args)
        begin |= described if tool.preflight_ns is None else {"serializable": described.get("serializable")}
    elif not capture.has_content:
        begin["length"] = tool.args_length
    if tool.script is not None:
        begin["language"] = tool.script.language
        if tool.script.source is not None and capture.has_content:
            begin["line_count"] = None if tool.script.is_partial else count_lines(tool.script.source)
    flows = _find_flows(canvas, tool, scripts)
    if tool.delegation is not None:
        begin |= {"delegation": True, **tool.delegation.launch, "child_session": tool.delegation.child_session}
        child = tool.delegation.child_session
        if child is not None and tool.end_ns is not None and child not in linked:
            linked.add(child)
            flows.append(compute_delegation_flow(child))
    area = Area.TOOLS if Area.TOOLS in capture.areas else Area.WORKFLOW
    if tool.end_ns is not None:
        end = _describe_tool_end(tool, capture.has_content)
        return _Span(tool.name, "tool-result", area, tool.start_ns, tool.end_ns, begin, end, tuple(flows))
    cut = {"incomplete": True}
    return _Span(tool.name, "tool-result", area, tool.start_ns, tool.interrupted_ns, begin, cut, tuple(flows))


def _add_middleware(canvas: Canvas, tool: Tool) -> None:
    """Draw a result's way back through a tool that nobody saw begin, which has no execution to say it on."""
    if tool.start_ns is None and tool.middleware_ns is not None:
        seen = {
            "name": tool.name,
            "call_id": tool.call_id,
            "middleware_is_error": tool.middleware_is_error,
            "start_not_recorded": True,
        }
        canvas.add_instant(canvas.get_lane("Tools"), "tool-middleware", Area.TOOLS, tool.middleware_ns, seen)


def _describe_tool_end(tool: Tool, has_content: bool) -> dict[str, Any]:
    end: dict[str, Any] = {
        "is_error": tool.is_error,
        "middleware_is_error": tool.middleware_is_error,
        "updates": tool.updates,
        "duration_ns": tool.duration_ns,
        "dispatch_ns": tool.dispatch_ns,
        **describe_usage(tool.usage),
    }
    if tool.result_bytes is not None:
        end["bytes"] = tool.result_bytes if has_content else 0
        end["bytes_unavailable"] = None if has_content else True
    return end


def _find_flows(canvas: Canvas, tool: Tool, scripts: set[str]) -> list[int]:
    """Return the flows of a tool's execution: from its announcement, from its script, to its own calls."""
    capture = canvas.capture
    flows = []
    if tool.preflight_ns is not None and tool.start_ns is not None and Area.TOOLS in capture.areas:
        flows.append(compute_preflight_flow(capture.capture_id, tool.call_id))
    if tool.parent_call_id in scripts and tool.parent_call_id is not None:
        flows.append(compute_script_flow(capture.capture_id, tool.parent_call_id, tool.call_id))
    if tool.script is not None:
        inner = [other.call_id for other in capture.tools if other.parent_call_id == tool.call_id]
        inner += [f"model-call {index}" for index, _ in enumerate(tool.script.model_calls[:MOST_MODEL_CALLS])]
        flows += [compute_script_flow(capture.capture_id, tool.call_id, call_id) for call_id in inner]
    return flows


def _make_model_call(canvas: Canvas, script: Tool, call: ModelCall, index: int) -> _Span:
    begin = {
        "kind": "model-call",
        "name": call.name,
        "parent_call_id": script.call_id,
        "timing": "codemode-lifecycle",
        "provider": call.provider,
        "model": call.model,
    }
    flow = compute_script_flow(canvas.capture.capture_id, script.call_id, f"model-call {index}")
    return _Span(call.name, "tool-result", Area.TOOLS, call.start_ns, call.end_ns, begin, {}, (flow,))


def _add_workflows(canvas: Canvas, workflows: Iterable[Workflow]) -> None:
    spans: dict[str, list[_Span]] = {"Workflow": [], "Child workflows": []}
    for row in workflows:
        track = "Child workflows" if row.is_child else "Workflow"
        if row.is_instant:
            canvas.add_instant(canvas.get_lane(track), row.name, Area.WORKFLOW, row.start_ns, row.fields)
        else:
            span = _Span(row.name, row.name, Area.WORKFLOW, row.start_ns, row.end_ns, dict(row.fields))
            spans[track].append(span)
    for track, found in spans.items():
        _add_lanes(canvas, track, found)
