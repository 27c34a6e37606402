"""What several sources tell in the same words: when a session, a prompt and a compaction began and ended."""

from __future__ import annotations

from omn_export.perfetto.annotations import compute_units

from omn_agent.importing.fields import find_count, find_text
from omn_agent.importing.session import Session
from omn_agent.recorder.event import HarnessEvent
from omn_agent.recorder.findings import Findings, Window
from omn_agent.recording import Compaction, Prompt

HOOK_DISPATCH = "hook-dispatch"
_NEAR_NS = 10_000_000_000
"""How far the line of a session file may be from the event that told of the same."""


def open_window(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """Open a session's window, unless it is open."""
    windows = findings.windows.setdefault(session.session_id, [])
    if windows and windows[-1].closed_ns is None:  # a compaction starts the same session once more
        return
    is_resumed = find_text(event.payload, "source") in ("resume", "fork")
    windows.append(Window(event.stamp_ns, pid=find_count(event.payload, "pid"), is_resumed=is_resumed))


def close_window(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """Close a session, or let it have lasted longer; one that nobody saw open was open before the recording."""
    windows = findings.windows.setdefault(session.session_id, [])
    if not windows:
        windows.append(Window(findings.start_ns, pid=find_count(event.payload, "pid"), is_resumed=True))
    windows[-1].closed_ns = event.stamp_ns
    windows[-1].reason = find_text(event.payload, "reason") or "ended"
    if session.parent_session is not None:
        end_prompt(findings, session, event)


def place_prompt(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """Let the prompt that the session file has begin when the event says, or add one.

    Of several that are as long the nearest is it; one that another event has placed is that one's.
    """
    text, length = find_text(event.payload, "prompt"), find_count(event.payload, "prompt_length")
    length = length if text is None else compute_units(text)
    near = [
        prompt
        for prompt in session.prompts
        if _get_length(prompt) == length
        and abs(prompt.start_ns - event.stamp_ns) <= _NEAR_NS
        and not any(prompt is placed for placed in findings.placed)
    ]
    found = min(near, key=lambda prompt: abs(prompt.start_ns - event.stamp_ns), default=None)
    if found is None:
        found = Prompt(event.stamp_ns, None, length=length, text=text, source="user")
        session.prompts.append(found)
    found.start_ns = event.stamp_ns
    findings.placed.append(found)


def _get_length(prompt: Prompt) -> int | None:
    return prompt.length if prompt.text is None else compute_units(prompt.text)


def end_prompt(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """End the latest prompt that had begun."""
    begun = [prompt for prompt in session.prompts if prompt.start_ns <= event.stamp_ns]
    if begun:
        max(begun, key=lambda prompt: prompt.start_ns).end_ns = event.stamp_ns


def begin_compaction(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """Begin a compaction: the next that the session file has, which holds when one was done, or one of its own."""
    later = [row for row in session.compactions if row.start_ns is None and (row.end_ns or 0) >= event.stamp_ns]
    found = min(later, key=lambda row: row.end_ns or 0, default=None)
    if found is None:
        found = Compaction(None, None)
        session.compactions.append(found)
    found.start_ns, found.timing = event.stamp_ns, HOOK_DISPATCH
    found.reason = found.reason or find_text(event.payload, "trigger")


def end_compaction(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """End the latest compaction that had begun, by when the file has it done or where it has none."""
    begun = [row for row in session.compactions if row.start_ns is not None and row.start_ns <= event.stamp_ns]
    found = max(begun, key=lambda row: row.start_ns or 0, default=None)
    if found is not None and (found.end_ns is None or abs(found.end_ns - event.stamp_ns) <= _NEAR_NS):
        found.end_ns, found.outcome = event.stamp_ns, "success"


def interrupt_prompts(session: Session, end_ns: int) -> None:
    """Let prompts that were never said to be over be cut by the next, or by the recording's end."""
    session.prompts.sort(key=lambda prompt: prompt.start_ns)
    following = [*(prompt.start_ns for prompt in session.prompts), end_ns][1:]
    for prompt, until_ns in zip(session.prompts, following, strict=True):
        if prompt.end_ns is None:
            session.interruptions.append(max(until_ns - 1, prompt.start_ns))
