"""A session's times carried from the wall clock of its file to the recording's clock."""

from __future__ import annotations

from collections.abc import Callable

from omn_agent.importing.session import Session
from omn_agent.recording import Compaction, Prompt, Request, Response, Tool

Convert = Callable[[int], int]


def retime(session: Session, convert: Convert) -> None:
    """Carry every time of a session over; lengths of time stay."""
    for prompt in session.prompts:
        _retime_prompt(prompt, convert)
    for tool in session.tools.values():
        _retime_tool(tool, convert)
    rows: list[Request | Response | Compaction] = [*session.requests, *session.responses, *session.compactions]
    for row in rows:
        row.start_ns, row.end_ns = _carry(row.start_ns, convert), _carry(row.end_ns, convert)
    for workflow in session.workflows:
        workflow.start_ns, workflow.end_ns = convert(workflow.start_ns), _carry(workflow.end_ns, convert)
    session.other_usages = [(convert(ts_ns), usage) for ts_ns, usage in session.other_usages]
    session.context = [(convert(ts_ns), tokens) for ts_ns, tokens in session.context]
    session.heap = [(convert(ts_ns), used) for ts_ns, used in session.heap]
    session.configurations = [(convert(ts_ns), found) for ts_ns, found in session.configurations]
    session.interruptions = [convert(ts_ns) for ts_ns in session.interruptions]
    session.first_ns = _carry(session.first_ns, convert)
    session.last_ns = _carry(session.last_ns, convert)


def _carry(ts_ns: int | None, convert: Convert) -> int | None:
    return None if ts_ns is None else convert(ts_ns)


def _retime_prompt(prompt: Prompt, convert: Convert) -> None:
    prompt.start_ns = convert(prompt.start_ns)
    prompt.end_ns = _carry(prompt.end_ns, convert)
    for attempt in prompt.attempts:
        attempt.start_ns, attempt.end_ns = convert(attempt.start_ns), _carry(attempt.end_ns, convert)
        for turn in attempt.turns:
            turn.start_ns, turn.end_ns = convert(turn.start_ns), _carry(turn.end_ns, convert)


def _retime_tool(tool: Tool, convert: Convert) -> None:
    tool.start_ns, tool.end_ns = _carry(tool.start_ns, convert), _carry(tool.end_ns, convert)
    tool.preflight_ns = _carry(tool.preflight_ns, convert)
    tool.middleware_ns = _carry(tool.middleware_ns, convert)
    tool.interrupted_ns = _carry(tool.interrupted_ns, convert)
    for call in tool.script.model_calls if tool.script is not None else ():
        call.start_ns, call.end_ns = _carry(call.start_ns, convert), _carry(call.end_ns, convert)
