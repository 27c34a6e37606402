"""What hooks say: when sessions, prompts, tools, subagents and compactions began and ended.

Claude Code names in a tool's end how long it ran, without permission and hooks: the tool stands there, ending at that
hook, and the whole time between its two hooks is kept beside it. Where no such length is told (Codex, Muse), a tool
lasts from hook to hook. A prompt ends at Stop; one that has none was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from omn_agent.harness import Harness
from omn_agent.importing.fields import find_milliseconds_before, find_text
from omn_agent.importing.session import Session
from omn_agent.recorder.event import HarnessEvent
from omn_agent.recorder.findings import Findings
from omn_agent.recorder.session_events import (
    HOOK_DISPATCH,
    begin_compaction,
    close_window,
    end_compaction,
    end_prompt,
    interrupt_prompts,
    open_window,
    place_prompt,
)
from omn_agent.recording import NATIVE_DURATION, Tool

_DELEGATING = ("Task", "Agent", "spawn_agent")
_QUIET = frozenset({"Notification", "PermissionRequest", "PermissionDenied", "PostToolBatch", "Setup", "Interrupt"})


def apply_events(findings: Findings, events: Sequence[HarnessEvent]) -> None:
    """Let hooks say what they add to the sessions.

    Prompts are placed first: the stamp of a prompt's line is cut to a whole millisecond, so that before its hook has
    placed it a prompt may seem to have begun before the Stop that came just before it.
    """
    for event in events:
        session = _find_session(findings, event) if event.kind == "hook.UserPromptSubmit" else None
        if session is not None:
            place_prompt(findings, session, event)
    for event in events:
        name = event.kind.removeprefix("hook.")
        session = _find_session(findings, event)
        apply = _APPLIERS.get(name)
        if session is None:
            findings.count("unparsed_hooks")
        elif apply is not None:
            session.note_time(event.stamp_ns)
            _configure(session, event)
            if apply is not place_prompt:
                apply(findings, session, event)
        elif name not in _QUIET:
            findings.count("unknown_hooks")
    for session_id in {_get_name(findings, event) for event in events}:
        if session_id in findings.sessions:
            interrupt_prompts(findings.sessions[session_id], findings.end_ns)


def _configure(session: Session, event: HarnessEvent) -> None:
    """Take the model and the effort that a hook names; most name neither, which changes nothing."""
    named = {name: find_text(event.payload, name) for name in ("model", "effort")}
    if any(named.values()):
        session.configure(event.stamp_ns, **named)


def _get_name(findings: Findings, event: HarnessEvent) -> str | None:
    """Return the session that an event is of: a subagent's hooks name their parent's session, and the agent apart."""
    agent = find_text(event.payload, "agent_id")
    return event.session_id if agent is None else name_child(findings.harness, agent)


def name_child(harness: Harness, agent: str) -> str:
    """Return the session id of a subagent, as its session file has it."""
    return f"agent-{agent}" if harness is Harness.CLAUDE else agent


def _find_session(findings: Findings, event: HarnessEvent) -> Session | None:
    name = _get_name(findings, event)
    if name is None:
        return None
    parent = event.session_id if name != event.session_id else None
    session = findings.get_session(name, parent)
    kind = find_text(event.payload, "agent_type")
    if kind is not None and parent is not None:
        session.fields.setdefault("role", kind)
    return session


def _call(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """Take the announcement of a tool; its end says more exactly when it began to run."""
    tool = _get_tool(session, event, event.stamp_ns)
    if tool is None:
        return
    tool.start_ns = tool.preflight_ns = event.stamp_ns
    tool.timing = HOOK_DISPATCH
    if "tool_input" in event.payload:
        tool.args, tool.has_args = event.payload["tool_input"], True
    if tool.name in _DELEGATING:
        given: Any = event.payload.get("tool_input")
        session.delegate(tool, None, subagent_type=find_text(given, "subagent_type"))


def _result(findings: Findings, session: Session, event: HarnessEvent) -> None:
    tool = _get_tool(session, event, None)
    if tool is None:
        return
    announced_ns = tool.preflight_ns
    tool.end_ns = event.stamp_ns
    tool.is_error = event.kind == "hook.PostToolUseFailure"
    started_ns = find_milliseconds_before(event.payload, "duration_ms", event.stamp_ns)
    if started_ns is not None:
        # A duration is told in whole milliseconds: it reaches no further back than what was seen.
        tool.start_ns = started_ns if announced_ns is None else max(started_ns, announced_ns)
        tool.timing = NATIVE_DURATION
        tool.dispatch_ns = None if announced_ns is None else event.stamp_ns - announced_ns
    child = find_text(event.payload, "child_id")
    if child is not None:
        session.delegate(tool, name_child(findings.harness, child))


def _get_tool(session: Session, event: HarnessEvent, start_ns: int | None) -> Tool | None:
    call_id, name = find_text(event.payload, "tool_use_id"), find_text(event.payload, "tool_name")
    if call_id is None:
        return None
    made = Tool(name or "tool", call_id, start_ns, None if start_ns is not None else event.stamp_ns)
    made.timing = HOOK_DISPATCH
    return session.tools.setdefault(call_id, made)


_Apply = Callable[[Findings, Session, HarnessEvent], None]
_APPLIERS: dict[str, _Apply] = {
    "SessionStart": open_window,
    "SessionEnd": close_window,
    "UserPromptSubmit": place_prompt,
    "PreToolUse": _call,
    "PostToolUse": _result,
    "PostToolUseFailure": _result,
    "SubagentStart": open_window,
    "SubagentStop": close_window,
    "Stop": end_prompt,
    "StopFailure": end_prompt,
    "PreCompact": begin_compaction,
    "PostCompact": end_compaction,
}
