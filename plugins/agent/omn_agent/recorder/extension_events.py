"""What Pi's extension says: prompts, attempts and turns, requests, responses, tools, scripts and their models' calls.

It sees each of them begin and end, so that their times are its own and the session file adds what it alone has. A run
that was retried is another attempt at its prompt; `agent_end` is not the prompt's end where another follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from omn_agent.importing.fields import find_count, find_nanoseconds, find_text, get_object
from omn_agent.importing.pi import parse_usage
from omn_agent.importing.session import Session
from omn_agent.recorder.event import HarnessEvent
from omn_agent.recorder.extension_tools import TOOL_APPLIERS, link_child
from omn_agent.recorder.findings import Findings
from omn_agent.recorder.session_events import (
    begin_compaction,
    close_window,
    end_compaction,
    end_prompt,
    interrupt_prompts,
    open_window,
    place_prompt,
)
from omn_agent.recording import Attempt, Compaction, Configuration, Prompt, Request, Response, Turn, Usage

_RELOADED = "reload"


def apply_events(findings: Findings, events: Sequence[HarnessEvent]) -> None:
    """Let the extension say what it adds to the sessions. What it tells of in full the file says no more."""
    for session_id in {event.session_id for event in events if event.session_id is not None}:
        own = [event for event in events if event.session_id == session_id]
        session = findings.get_session(session_id)
        if any(_APPLIERS.get(_get_name(event)) in (_open, _configure) for event in own):
            session.configurations.clear()
        if any(find_count(event.payload, "context_tokens") is not None for event in own):
            session.context.clear()
        for event in own:
            apply = _APPLIERS.get(_get_name(event))
            if apply is None:
                findings.count("unknown_events")
            else:
                session.note_time(event.stamp_ns)
                apply(findings, session, event)
        interrupt_prompts(session, findings.end_ns)
    for session in findings.sessions.values():
        _close_lost(findings, session)
        link_child(findings, session)


def _close_lost(findings: Findings, session: Session) -> None:
    """Let a child that was never said to be over last until the last that was heard of it."""
    windows = findings.windows.get(session.session_id)
    if session.parent_session is not None and windows and windows[-1].closed_ns is None and not findings.is_cut:
        windows[-1].closed_ns = session.last_ns


def _get_name(event: HarnessEvent) -> str:
    return event.kind.removeprefix("extension.")


def _open(findings: Findings, session: Session, event: HarnessEvent) -> None:
    findings.get_session(session.session_id, find_text(event.payload, "parent_session"))
    open_window(findings, session, event)
    _configure(findings, session, event)


def _close(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """Close a session; one whose extensions are loaded anew goes on."""
    if find_text(event.payload, "reason") != _RELOADED:
        close_window(findings, session, event)


def _configure(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """Take what the session runs with now: a limit that a model does not have is none, and not the last one's."""
    labels = [label for label in event.payload.get("labels") or () if isinstance(label, str)]
    session.configurations.append(
        (
            event.stamp_ns,
            Configuration(
                find_text(event.payload, "model"),
                find_text(event.payload, "provider"),
                find_text(event.payload, "effort"),
                find_count(event.payload, "context_window"),
                tuple(labels),
            ),
        )
    )


def _prompt(findings: Findings, session: Session, event: HarnessEvent) -> None:
    place_prompt(findings, session, event)
    prompt = _find_prompt(session, event)
    if prompt is not None:
        prompt.source = find_text(event.payload, "prompt_source") or prompt.source


def _find_prompt(session: Session, event: HarnessEvent) -> Prompt | None:
    begun = [prompt for prompt in session.prompts if prompt.start_ns <= event.stamp_ns]
    return max(begun, key=lambda prompt: prompt.start_ns, default=None)


def _begin_attempt(findings: Findings, session: Session, event: HarnessEvent) -> None:
    prompt = _find_prompt(session, event)
    if prompt is not None:
        prompt.end_ns = None
        prompt.attempts.append(Attempt(event.stamp_ns, None))


def _end_attempt(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """End a run, and with it its prompt until another follows; one that was aborted has no end of its own."""
    is_aborted = find_text(event.payload, "stop_reason") == "aborted"
    attempt = _find_attempt(session)
    if attempt is not None and not is_aborted:
        attempt.end_ns = event.stamp_ns
    if not is_aborted:
        end_prompt(findings, session, event)


def _settle(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """Let a prompt last until no retry and no compaction follows any more."""
    prompt = _find_prompt(session, event)
    if prompt is not None and prompt.end_ns is not None:
        prompt.end_ns = event.stamp_ns


def _find_attempt(session: Session) -> Attempt | None:
    begun = [attempt for prompt in session.prompts for attempt in prompt.attempts]
    return max(begun, key=lambda attempt: attempt.start_ns, default=None)


def _begin_turn(findings: Findings, session: Session, event: HarnessEvent) -> None:
    attempt = _find_attempt(session)
    if attempt is not None:
        attempt.turns.append(Turn(find_count(event.payload, "index"), event.stamp_ns, None))


def _end_turn(findings: Findings, session: Session, event: HarnessEvent) -> None:
    attempt = _find_attempt(session)
    if attempt is not None and attempt.turns:
        attempt.turns[-1].end_ns = event.stamp_ns


def _begin_request(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """Take a request, and the context's size as it was before it: no sample where it is not known."""
    session.requests.append(
        Request(
            event.stamp_ns,
            None,
            context_messages=find_count(event.payload, "context_messages"),
            provider=find_text(event.payload, "provider"),
            model=find_text(event.payload, "model"),
        )
    )
    tokens = find_count(event.payload, "context_tokens")
    if tokens is not None:
        session.context.append((event.stamp_ns, tokens))


def _end_request(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """Take an answer's headers; those of a request that nobody saw begin are there by themselves."""
    if not session.requests or session.requests[-1].end_ns is not None:
        session.requests.append(Request(None, None))
    session.requests[-1].end_ns = event.stamp_ns
    session.requests[-1].status_code = find_count(event.payload, "status_code")


def _begin_response(findings: Findings, session: Session, event: HarnessEvent) -> None:
    response = _get_response(session, event)
    response.start_ns, response.timing = event.stamp_ns, None
    if response.end_ns is not None:  # a line's stamp is cut to a whole millisecond
        response.end_ns = max(response.end_ns, event.stamp_ns)


def _end_response(findings: Findings, session: Session, event: HarnessEvent) -> None:
    """Take a message's end with all that is told of it; when it began, its own start has said."""
    response = _get_response(session, event)
    response.end_ns, response.timing = event.stamp_ns, None
    response.stop_reason = find_text(event.payload, "stop_reason")
    response.first_content_ns = find_nanoseconds(event.payload, "first_content_ns")
    response.updates = find_count(event.payload, "updates")
    response.size_bytes = find_count(event.payload, "bytes")
    if response.usage == Usage():
        response.usage = parse_usage(get_object(event.payload, "usage"))


def _get_response(session: Session, event: HarnessEvent) -> Response:
    """Return the response that has a message's stamp, of the session file or of its own."""
    key = str(find_count(event.payload, "timestamp"))
    found = session.by_request.get(key)
    if found is None:
        model, provider = find_text(event.payload, "model"), find_text(event.payload, "provider")
        found = session.by_request[key] = Response(None, None, model=model, provider=provider)
        session.responses.append(found)
    return found


def _begin_compaction(findings: Findings, session: Session, event: HarnessEvent) -> None:
    begin_compaction(findings, session, event)
    _describe_compaction(session, event)


def _end_compaction(findings: Findings, session: Session, event: HarnessEvent) -> None:
    end_compaction(findings, session, event)
    _describe_compaction(session, event)


def _fail_compaction(findings: Findings, session: Session, event: HarnessEvent) -> None:
    begun = [row for row in session.compactions if row.start_ns is not None and row.end_ns is None]
    if begun:
        begun[-1].end_ns = event.stamp_ns
        begun[-1].outcome = "aborted" if event.payload.get("is_aborted") is True else "failure"
        _describe_compaction(session, event)


def _describe_compaction(session: Session, event: HarnessEvent) -> None:
    """Take what is told of the compaction that began last."""
    begun = [row for row in session.compactions if row.start_ns is not None and row.start_ns <= event.stamp_ns]
    row = max(begun, key=_get_start, default=None)
    if row is None:
        return
    row.timing = None
    row.reason = find_text(event.payload, "trigger") or row.reason
    will_retry: Any = event.payload.get("will_retry")
    row.will_retry = will_retry if isinstance(will_retry, bool) else row.will_retry
    row.tokens_before = find_count(event.payload, "tokens_before") or row.tokens_before
    if row.usage == Usage():
        row.usage = parse_usage(get_object(event.payload, "usage"))


def _get_start(row: Compaction) -> int:
    return row.start_ns or 0


def _sample(findings: Findings, session: Session, event: HarnessEvent) -> None:
    heap_bytes = find_count(event.payload, "heap_bytes")
    if heap_bytes is not None:
        session.heap.append((event.stamp_ns, heap_bytes))


_Apply = Callable[[Findings, Session, HarnessEvent], None]
_APPLIERS: dict[str, _Apply] = {
    "session_start": _open,
    "session_shutdown": _close,
    "model_select": _configure,
    "thinking_level_select": _configure,
    "before_agent_start": _prompt,
    "agent_start": _begin_attempt,
    "agent_end": _end_attempt,
    "agent_settled": _settle,
    "turn_start": _begin_turn,
    "turn_end": _end_turn,
    "before_provider_request": _begin_request,
    "after_provider_response": _end_request,
    "message_start": _begin_response,
    "message_end": _end_response,
    "session_before_compact": _begin_compaction,
    "session_compact": _end_compaction,
    "session_compact_failed": _fail_compaction,
    "sample": _sample,
    **TOOL_APPLIERS,
}
