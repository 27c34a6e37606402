"""What hooks say: when sessions, prompts, tools, subagents and compactions began and ended.

Claude Code names in a tool's end how long it ran, without permission and hooks: the tool stands there, ending at that
hook, and the whole time between its two hooks is kept beside it. Where no such length is told (Codex, Muse), a tool
lasts from hook to hook. A prompt ends at Stop; one that has none was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from omn_export.perfetto.annotations import compute_units

from omn_agent.harness import Harness
from omn_agent.importing.fields import find_count, find_text
from omn_agent.importing.session import Session
from omn_agent.recorder.event import HarnessEvent
from omn_agent.recorder.findings import Findings, Window
from omn_agent.recording import NATIVE_DURATION, Compaction, Prompt, Tool

HOOK_DISPATCH = "hook-dispatch"

_DELEGATING = ("Task", "Agent", "spawn_agent")
_NEAR_NS = 10_000_000_000
"""How far the line of a session file may be from the hook that told of the same."""
_QUIET = frozenset({"Notification", "PermissionRequest", "PermissionDenied", "PostToolBatch", "Setup", "Interrupt"})


def apply_events(findings: Findings, events: Sequence[HarnessEvent]) -> None:
    """Let hooks say what they add to the sessions.

    Prompts are placed first: the stamp of a prompt's line is cut to a whole millisecond, so that before its hook has
    placed it a prompt may seem to have begun before the Stop that came just before it.
    """
    for event in events:
        session = _find_session(findings, event) if event.kind == "hook.UserPromptSubmit" else None
        if session is not None:
            _prompt(findings, session, event)
    for event in events:
        name = event.kind.removeprefix("hook.")
        session = _find_session(findings, event)
        apply = _APPLIERS.get(name)
        if session is None:
            findings.count("unparsed_hooks")
        elif apply is not None:
            session.note_time(event.stamp_ns)
            _configure(session, event)
            if apply is not _prompt:
                apply(findings, session, event)
        elif name not in _QUIET:
            findings.count("unknown_hooks")
    for session_id in {_get_name(findings, event) for event in events}:
        if session_id in findings.sessions:
            _interrupt(findings.sessions[session_id], findings.end_ns)


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


def _open(findings: Findings, session: Session, event: HarnessEvent) -> None:
    windows = findings.windows.setdefault(session.session_id, [])
    if windows and windows[-1].closed_ns is None:  # a compaction starts the same session once more
        return
    is_resumed = find_text(event.payload, "source") in ("resume", "fork")
    windows.append(Window(event.stamp_ns, pid=find_count(event.payload, "pid"), is_resumed=is_resumed))


def _close(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """Close a session, or let it have lasted longer; one that nobody saw open was open before the recording."""
    windows = findings.windows.setdefault(session.session_id, [])
    if not windows:
        windows.append(Window(findings.start_ns, pid=find_count(event.payload, "pid"), is_resumed=True))
    windows[-1].closed_ns = event.stamp_ns
    windows[-1].reason = find_text(event.payload, "reason") or "ended"
    if session.parent_session is not None:
        _stop(findings, session, event)


def _prompt(findings: Findings, session: Session, event: HarnessEvent) -> None:
    text, length = find_text(event.payload, "prompt"), find_count(event.payload, "prompt_length")
    length = length if text is None else compute_units(text)
    for prompt in session.prompts:
        known = prompt.length if prompt.text is None else compute_units(prompt.text)
        if known == length and abs(prompt.start_ns - event.stamp_ns) <= _NEAR_NS:
            prompt.start_ns = event.stamp_ns
            return
    session.prompts.append(Prompt(event.stamp_ns, None, length=length, text=text, source="user"))


def _stop(findings: Findings, session: Session, event: HarnessEvent) -> None:
    begun = [prompt for prompt in session.prompts if prompt.start_ns <= event.stamp_ns]
    if begun:
        max(begun, key=lambda prompt: prompt.start_ns).end_ns = event.stamp_ns


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
    duration_ms = find_count(event.payload, "duration_ms")
    if duration_ms is not None:
        started_ns = event.stamp_ns - duration_ms * 1_000_000
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


def _begin_compaction(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """Begin a compaction: the next that the session file has, which holds when one was done, or one of its own."""
    later = [row for row in session.compactions if row.start_ns is None and (row.end_ns or 0) >= event.stamp_ns]
    found = min(later, key=lambda row: row.end_ns or 0, default=None)
    if found is None:
        found = Compaction(None, None)
        session.compactions.append(found)
    found.start_ns, found.timing = event.stamp_ns, HOOK_DISPATCH
    found.reason = found.reason or find_text(event.payload, "trigger")


def _end_compaction(findings: Findings, session: Session, event: HarnessEvent) -> None:
    begun = [row for row in session.compactions if row.start_ns is not None and row.start_ns <= event.stamp_ns]
    found = max(begun, key=lambda row: row.start_ns or 0, default=None)
    if found is not None and (found.end_ns is None or abs(found.end_ns - event.stamp_ns) <= _NEAR_NS):
        found.end_ns, found.outcome = event.stamp_ns, "success"


def _interrupt(session: Session, end_ns: int) -> None:
    """Let prompts that were never said to be over be cut by the next, or by the recording's end."""
    session.prompts.sort(key=lambda prompt: prompt.start_ns)
    following = [*(prompt.start_ns for prompt in session.prompts), end_ns][1:]
    for prompt, until_ns in zip(session.prompts, following, strict=True):
        if prompt.end_ns is None:
            session.interruptions.append(max(until_ns - 1, prompt.start_ns))


_Apply = Callable[[Findings, Session, HarnessEvent], None]
_APPLIERS: dict[str, _Apply] = {
    "SessionStart": _open,
    "SessionEnd": _close,
    "UserPromptSubmit": _prompt,
    "PreToolUse": _call,
    "PostToolUse": _result,
    "PostToolUseFailure": _result,
    "SubagentStart": _open,
    "SubagentStop": _close,
    "Stop": _stop,
    "StopFailure": _stop,
    "PreCompact": _begin_compaction,
    "PostCompact": _end_compaction,
}
