"""What Pi's extension says of tools: their executions, the calls of scripts, and the models that scripts called.

A script is a tool of another kind, whose calls name it. Models are called without a tool's events: what is known of
them are the states in which the script's updates showed them.
"""

from __future__ import annotations

from omn_agent.importing.fields import find_count, find_milliseconds, find_text, get_object
from omn_agent.importing.pi import parse_usage
from omn_agent.importing.session import Session
from omn_agent.recorder.event import HarnessEvent
from omn_agent.recorder.findings import Findings
from omn_agent.recording import ModelCall, Script, Tool, Usage

_SCRIPTING = {"codemode": ("javascript", "code")}
"""Tools that execute a script, its language, and which of their arguments holds it."""
_DELEGATING = "subagent"
"""The tool by which Pi's extensions start another Pi."""


def _begin(findings: Findings, session: Session, event: HarnessEvent) -> None:
    tool = _get_tool(session, event, is_start=True)
    if tool is None:
        return
    tool.start_ns, tool.timing = event.stamp_ns, None
    tool.parent_call_id = find_text(event.payload, "parent_call_id")
    if "tool_input" in event.payload:
        tool.args, tool.has_args = event.payload["tool_input"], True
    language, argument = _SCRIPTING.get(tool.name, (None, ""))
    if language is not None:
        tool.script = Script(language, find_text(tool.args, argument))
    if tool.name == _DELEGATING:
        session.delegate(tool, None, subagent_type=find_text(tool.args, "agent"))


def _announce(findings: Findings, session: Session, event: HarnessEvent) -> None:
    tool = _get_tool(session, event)
    if tool is not None:
        tool.preflight_ns = event.stamp_ns


def _pass(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """Take what the middleware saw of a result, and the tokens that the tool itself reported."""
    tool = _get_tool(session, event)
    if tool is None:
        return
    tool.middleware_ns, tool.middleware_is_error = event.stamp_ns, _find_flag(event, "is_error")
    if tool.usage == Usage():
        tool.usage = parse_usage(get_object(event.payload, "usage"))


def _end(findings: Findings, session: Session, event: HarnessEvent) -> None:
    tool = _get_tool(session, event)
    if tool is None:
        return
    tool.end_ns, tool.timing = event.stamp_ns, None
    tool.parent_call_id = tool.parent_call_id or find_text(event.payload, "parent_call_id")
    tool.is_error = _find_flag(event, "is_error")
    tool.updates = find_count(event.payload, "updates")
    tool.result_bytes = find_count(event.payload, "bytes")
    measured_ns = find_milliseconds(event.payload, "duration_ms")
    tool.duration_ns = tool.duration_ns if measured_ns is None else measured_ns


def _call_model(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """Take a state of a model's call: what was never seen running gets no start."""
    tool, call_id = _get_tool(session, event), find_text(event.payload, "id")
    if tool is None or tool.script is None or call_id is None:
        return
    is_running = find_text(event.payload, "status") == "running"
    named = (find_text(event.payload, "model") or "").partition("/")
    place = next((row for row in tool.script.model_calls if row.call_id == call_id), None)
    if place is None:
        place = ModelCall(
            find_text(event.payload, "name") or "model",
            event.stamp_ns if is_running else None,
            None,
            provider=named[0] or None,
            model=named[2] or None,
            call_id=call_id,
        )
        tool.script.model_calls.append(place)
    if not is_running:
        place.end_ns = event.stamp_ns


def link_child(findings: Findings, session: Session) -> None:
    """Name in a launch the child that began in it: where it was the only tool then, and made that one alone."""
    children = {
        name: windows[0].opened_ns
        for name, windows in findings.windows.items()
        if windows and findings.sessions[name].parent_session == session.session_id
    }
    for tool in session.tools.values():
        if tool.delegation is None:
            continue
        began = [name for name, opened_ns in children.items() if _is_under_way(tool, opened_ns)]
        others = [
            other
            for other in session.tools.values()
            if other is not tool and any(_is_under_way(other, children[name]) for name in began)
        ]
        if len(began) == 1 and not others:
            session.delegate(tool, began[0])


def _is_under_way(tool: Tool, ts_ns: int) -> bool:
    return tool.start_ns is not None and tool.start_ns <= ts_ns and (tool.end_ns is None or ts_ns <= tool.end_ns)


def _get_tool(session: Session, event: HarnessEvent, is_start: bool = False) -> Tool | None:
    """Return the tool that an event is of, added where neither the file nor an event told of it."""
    call_id = find_text(event.payload, "call_id")
    if call_id is None:
        return None
    times = (event.stamp_ns, None) if is_start else (None, event.stamp_ns)
    return session.tools.setdefault(call_id, Tool(find_text(event.payload, "tool_name") or "tool", call_id, *times))


def _find_flag(event: HarnessEvent, name: str) -> bool | None:
    found = event.payload.get(name)
    return found if isinstance(found, bool) else None


TOOL_APPLIERS = {
    "tool_execution_start": _begin,
    "tool_call": _announce,
    "tool_result": _pass,
    "tool_execution_end": _end,
    "model_call": _call_model,
}
"""What each event of a tool does to its session."""
