"""Muse Code's `session.jsonl`: a log of events, read by the descriptions that others made of it.

No file of a real session was at hand and no description of Muse's own is public: what this reads is said to be
unverified in the recording. A child's events are mirrored in its parent's file under the child's stream, and some are
told again by aggregates: each event counts once, in its stream's own session.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from omn_export.perfetto.annotations import compute_units

from omn_agent.importing.fields import (
    find_count,
    find_milliseconds_before,
    find_text,
    get_content_text,
    get_items,
    get_object,
    parse_json,
)
from omn_agent.importing.lines import DISK, Account, Files
from omn_agent.importing.muse_missing import Missing
from omn_agent.importing.session import Session, make_usage
from omn_agent.recording import NATIVE_DURATION, Usage
from omn_core.api import RequestError

_SCHEMAS = (1, "1")
_METADATA = "runtime.session.metadata"
_SESSION = "runtime.session"
_CONFIGURED = "run.model.configured"
_ACCEPTED = "runtime.user_intent.accepted"
_MATERIALIZED = "runtime.user_intent.materialized"
_KNOWN = ("runtime.", "run.", "session.")
"""How the kinds of events begin that say nothing of what was done."""
_SAME_MODEL = "same-as-main"


@attrs.define
class _Reading:
    account: Account
    sessions: dict[str, Session] = attrs.field(factory=dict)
    seen: set[str] = attrs.field(factory=set)
    told: set[tuple[int, str]] = attrs.field(factory=set)
    intents: dict[str, tuple[int, str]] = attrs.field(factory=dict)


def read_sessions(paths: list[Path], account: Account, source: Files = DISK) -> list[Session]:
    """Read sessions from their files, a child's before what its parent's file mirrors of it."""
    reading, missing = _Reading(account), Missing()
    for path in sorted(paths, key=lambda path: ("subagent" not in path.parts, str(path))):
        owner = _find_owner(path)
        for record in _iter_events(path, account, source):
            missing.note(path, record, find_text(get_object(record, "stream"), "id") or path.parent.name)
            _take(reading, record, path, owner)
    missing.tell(reading.sessions)
    for session in reading.sessions.values():
        session.fields["unverified"] = True
    return list(reading.sessions.values())


def check_beginning(path: Path, record: dict[str, Any]) -> None:
    """Raise RequestError where a file's first record is none of a session's log. A retained frame has no schema."""
    if record and not _list_wrapped(record) and record.get("schema_version") not in _SCHEMAS:
        raise RequestError(
            f"{str(path)!r} is no session of Muse that is known: its schema is {record.get('schema_version')!r}",
            "name a session.jsonl; what `muse export` prints is another document",
        )


def _iter_events(path: Path, account: Account, source: Files) -> Iterator[dict[str, Any]]:
    """Yield each event, also those that a retained frame wraps. Raises RequestError for another kind of document."""
    for record in source.iter_records(path, account):
        check_beginning(path, record)
        wrapped = _list_wrapped(record)
        for child in wrapped:
            check_beginning(path, child)
        yield from wrapped or [record]


def _list_wrapped(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events that a retained frame holds, as texts of JSON."""
    children = get_items(record.get("children")) or get_items(get_object(record, "payload").get("children"))
    wrapped = [parse_json(child.get("record_json")) for child in children]
    return [child for child in wrapped if isinstance(child, dict)]


def _find_owner(path: Path) -> str | None:
    """Return the session that a child's file stands below, None for a session's own."""
    parts = path.parts
    return parts[-4] if len(parts) >= 4 and parts[-3] == "subagent" else None


def _take(reading: _Reading, record: dict[str, Any], path: Path, owner: str | None) -> None:
    stream = find_text(get_object(record, "stream"), "id") or path.parent.name
    recorded_us = find_count(record, "recorded_at")
    if _is_repeated(reading, record, stream, recorded_us):
        reading.account.duplicates += 1
        return
    if recorded_us is None:
        reading.account.untimed += 1
        return
    session = reading.sessions.setdefault(stream, Session(stream))
    main = owner or path.parent.name
    if stream != main and session.parent_session is None:
        session.parent_session = main
    ts_ns = recorded_us * 1000
    session.note_time(ts_ns)
    payload = get_object(record, "payload")
    kind = str(record.get("payload_type"))
    if kind in (_METADATA, _CONFIGURED):
        _take_metadata(session, get_object(payload, "record") or payload, ts_ns)
    elif kind in (_ACCEPTED, _MATERIALIZED):
        _take_intent(reading, session, payload, ts_ns)
    elif kind == _SESSION and payload.get("kind") == "run":
        _take_run(reading, session, get_object(payload, "event"), ts_ns)
    elif not kind.startswith(_KNOWN):
        reading.account.note_unknown(kind)


def _is_repeated(reading: _Reading, record: dict[str, Any], stream: str, recorded_us: int | None) -> bool:
    """Return whether an event was there already: by its id, or, in a fork that numbers anew, by its stamp and words."""
    identity, said = f"{stream} {record.get('id')}", None
    if recorded_us is not None:
        words = json.dumps([record.get("payload_type"), record.get("payload")], sort_keys=True)
        said = (recorded_us, hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest())
    is_known = find_text(record, "id") is not None and identity in reading.seen
    if is_known or said in reading.told:
        return True
    reading.seen.add(identity)
    if said is not None:
        reading.told.add(said)
    return False


def _take_metadata(session: Session, found: dict[str, Any], ts_ns: int) -> None:
    model = find_text(found, "model_id")
    known = model if model != _SAME_MODEL else None
    session.configure(ts_ns, model=known, provider=find_text(found, "provider_id"))
    version = find_text(get_object(found, "build"), "semver")
    if version is not None:
        session.fields["harness_version"] = version


def _take_intent(reading: _Reading, session: Session, payload: dict[str, Any], ts_ns: int) -> None:
    """Add what a person said into a run that was under way. What begins a run stands in its own event."""
    intent = find_text(payload, "intent_id")
    if intent is None:
        return
    text = get_content_text(payload.get("refill_blocks"))
    if text is not None and payload.get("surface") == "main":
        reading.intents[intent] = (ts_ns, text)
    elif get_object(payload, "outcome").get("kind") == "active_run_delivery" and intent in reading.intents:
        said_ns, text = reading.intents.pop(intent)
        session.add_prompt(said_ns, text, "user")


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
                args = call.get("args")
                tool = session.add_call(ts_ns, call_id, find_text(call, "name") or "tool", parse_json(args))
                tool.args_length = compute_units(args) if isinstance(args, str) else find_count(call, "args_length")
    elif kind == "tool_result_batch_committed":
        for result in get_items(event.get("results")):
            call_id = find_text(result, "tool_call_id")
            if call_id is not None:
                session.add_result(ts_ns, call_id).is_error = find_failure(result)
    elif kind == "model_completed":
        _take_completed(reading, session, event, ts_ns)
    elif kind == "terminal" and find_text(event, "terminal") in ("cancelled", "canceled", "interrupted"):
        session.interruptions.append(ts_ns)


def find_failure(result: dict[str, Any]) -> bool | None:
    """Return whether a tool failed: as its result says, or by the exit code of a command's report, which is a text."""
    if isinstance(result.get("is_error"), bool):
        return bool(result["is_error"])
    report = parse_json(result.get("text"))
    code = report.get("exit_code") if isinstance(report, dict) else None
    return code != 0 if isinstance(code, int) else None


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
    start_ns = find_milliseconds_before(event, "duration_ms", ts_ns)
    if start_ns is not None:
        response.start_ns = start_ns
        response.timing = NATIVE_DURATION
        session.note_time(start_ns)
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
