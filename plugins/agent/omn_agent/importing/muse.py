"""Muse Code's `session.jsonl`: a log of events, read by the descriptions that others made of it.

No file of a real session was at hand and no description of Muse's own is public: what this reads is said to be
unverified in the recording. A child's events are mirrored in its parent's file under the child's stream, and some are
told again by aggregates: each event counts once, in its stream's own session.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from omn_agent.importing.fields import (
    find_count,
    find_text,
    get_items,
    get_object,
    parse_json,
)
from omn_agent.importing.lines import DISK, Account, Files
from omn_agent.importing.session import Session, make_usage
from omn_agent.recording import NATIVE_DURATION, Usage
from omn_core.api import RequestError

_SCHEMAS = (1, "1")
_METADATA = "runtime.session.metadata"
_SESSION = "runtime.session"
_SAME_MODEL = "same-as-main"


@attrs.define
class _Reading:
    account: Account
    sessions: dict[str, Session] = attrs.field(factory=dict)
    seen: set[str] = attrs.field(factory=set)


def read_sessions(paths: list[Path], account: Account, source: Files = DISK) -> list[Session]:
    """Read sessions from their files, a child's before what its parent's file mirrors of it."""
    reading = _Reading(account)
    for path in sorted(paths, key=lambda path: ("subagent" not in path.parts, str(path))):
        owner = _find_owner(path)
        for record in _iter_events(path, account, source):
            _take(reading, record, path, owner)
    for session in reading.sessions.values():
        session.fields["unverified"] = True
    return list(reading.sessions.values())


def _iter_events(path: Path, account: Account, source: Files) -> Iterator[dict[str, Any]]:
    """Yield each event, also those that a retained frame wraps. Raises RequestError for another kind of document."""
    for record in source.iter_records(path, account):
        if record.get("schema_version") not in _SCHEMAS:
            raise RequestError(
                f"{str(path)!r} is no session of Muse that is known: its schema is {record.get('schema_version')!r}",
                "name a session.jsonl; what `muse export` prints is another document",
            )
        children = get_items(record.get("children")) or get_items(get_object(record, "payload").get("children"))
        wrapped = [parse_json(child.get("record_json")) for child in children]
        if wrapped:
            yield from (child for child in wrapped if isinstance(child, dict))
        else:
            yield record


def _find_owner(path: Path) -> str | None:
    """Return the session that a child's file stands below, None for a session's own."""
    parts = path.parts
    return parts[-4] if len(parts) >= 4 and parts[-3] == "subagent" else None


def _take(reading: _Reading, record: dict[str, Any], path: Path, owner: str | None) -> None:
    stream = find_text(get_object(record, "stream"), "id") or path.parent.name
    identity = f"{stream} {record.get('id')}"
    if find_text(record, "id") is not None:
        if identity in reading.seen:
            reading.account.duplicates += 1
            return
        reading.seen.add(identity)
    recorded_us = find_count(record, "recorded_at")
    if recorded_us is None:
        reading.account.untimed += 1
        return
    session = reading.sessions.setdefault(stream, Session(stream))
    main = owner or path.parent.name
    if stream != main and session.parent_session is None:
        session.parent_session = main
    session.note_time(recorded_us * 1000)
    payload = get_object(record, "payload")
    kind = record.get("payload_type")
    if kind == _METADATA:
        _take_metadata(reading, session, get_object(payload, "record") or payload, recorded_us * 1000)
    elif kind == _SESSION and payload.get("kind") == "run":
        _take_run(reading, session, get_object(payload, "event"), recorded_us * 1000)
    elif kind not in (_SESSION, "session.end") and not str(kind).startswith("runtime."):
        reading.account.note_unknown(kind)


def _take_metadata(reading: _Reading, session: Session, found: dict[str, Any], ts_ns: int) -> None:
    model = find_text(found, "model_id")
    if model is not None and model != _SAME_MODEL:
        session.configure(ts_ns, model=model)
    version = find_text(get_object(found, "build"), "semver")
    if version is not None:
        session.fields["harness_version"] = version


def _take_run(reading: _Reading, session: Session, event: dict[str, Any], ts_ns: int) -> None:
    kind = event.get("kind")
    if kind == "started":
        prompt = find_text(event, "prompt")
        if prompt is not None:
            session.add_prompt(ts_ns, prompt, "parent" if session.parent_session is not None else "user")
    elif kind == "assistant_tool_calls_committed":
        for call in get_items(event.get("tool_calls")):
            call_id = find_text(call, "call_id", "id")
            if call_id is not None:
                session.add_call(ts_ns, call_id, find_text(call, "name") or "tool", parse_json(call.get("args")))
    elif kind == "tool_result_batch_committed":
        for result in get_items(event.get("results")):
            call_id = find_text(result, "tool_call_id")
            if call_id is not None:
                tool = session.add_result(ts_ns, call_id)
                if isinstance(result.get("is_error"), bool):
                    tool.is_error = result["is_error"]
    elif kind == "model_completed":
        _take_completed(reading, session, event, ts_ns)
    elif kind == "terminal" and find_text(event, "terminal") in ("cancelled", "canceled", "interrupted"):
        session.interruptions.append(ts_ns)


def _take_completed(reading: _Reading, session: Session, event: dict[str, Any], ts_ns: int) -> None:
    """Add a response: it ended at its stamp, and began as long before as the harness measured."""
    usage = _parse_usage(get_object(event, "usage"))
    model = find_text(event, "model")
    if model in (None, _SAME_MODEL):
        parent = reading.sessions.get(session.parent_session or "")
        known = (session.configurations or (parent.configurations if parent is not None else []))[-1:]
        model = known[0][1].model if known else None
    session.configure(ts_ns, model=model)
    response = session.add_response(ts_ns, model, usage, stop_reason=find_text(event, "finish_reason"))
    duration_ms = find_count(event, "duration_ms")
    if duration_ms is not None:
        response.start_ns = ts_ns - duration_ms * 1_000_000
        response.timing = NATIVE_DURATION
        session.note_time(response.start_ns)
    if usage.input_tokens is not None:
        session.context.append((ts_ns, usage.input_tokens))


def _parse_usage(usage: dict[str, Any]) -> Usage:
    """Return reported tokens, under either of the names that descriptions give. Input holds what was cached."""
    return make_usage(
        find_count(usage, "input_tokens", "input"),
        find_count(usage, "output_tokens", "output"),
        find_count(usage, "cache_read_tokens", "cache_read", "cached_tokens", "cached"),
        find_count(usage, "cache_write_tokens", "cache_write"),
    )
