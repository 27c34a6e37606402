"""Claude Code's session files: `<session>.jsonl`, and children inline, beside it or in `subagents/`.

The format is internal to Claude Code and changes. What holds it together here are ids: a line's uuid, a message's id
and its request's. A resume, a compaction or a fork appends lines that are there already; a `/btw` question replays its
parent's messages under another request; one response is written as several lines, each with usage that only grows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from omn_agent.importing.fields import (
    find_count,
    find_text,
    get_content_text,
    get_items,
    get_object,
    parse_time,
)
from omn_agent.importing.lines import DISK, Account, Files
from omn_agent.importing.session import (
    Session,
    compute_context_with_cache,
    make_usage,
    merge_usage,
)
from omn_agent.recording import TRANSCRIPT_OBSERVED, Compaction, Usage

NOISE = (
    "file-history-snapshot",
    "queue-operation",
    "attachment",
    "summary",
    "progress",
    "custom-title",
    "ai-title",
    "agent-name",
    "last-prompt",
    "permission-mode",
    "pr-link",
    "tag",
)
"""Kinds of lines that say nothing of what was done."""

_DELEGATING = ("Task", "Agent")
LOCAL = re.compile(r"<(local-command-|command-name>|command-message>|bash-)")
INTERRUPTED = "[Request interrupted by user"
_SYNTHETIC = "<synthetic>"


@attrs.define
class _Call:
    """One response of the provider, of all its lines."""

    session: Session
    is_side: bool
    ts_ns: int
    usage: Usage
    model: str | None
    stop_reason: str | None


@attrs.define
class _Reading:
    """An import under way."""

    account: Account
    sessions: dict[str, Session] = attrs.field(factory=dict)
    calls: dict[str, dict[str | None, _Call]] = attrs.field(factory=dict)
    seen: set[str] = attrs.field(factory=set)
    boundaries: dict[str, bool] = attrs.field(factory=dict)
    sides: dict[str, str] = attrs.field(factory=dict)


def read_sessions(paths: list[Path], account: Account, source: Files = DISK) -> list[Session]:
    """Read sessions from their files, each record once over all of them."""
    reading = _Reading(account)
    files = [_read_file(path, account, source) for path in paths]
    for path, records in sorted(files, key=lambda row: _rank(*row)):
        for record in records:
            _take(reading, record, path)
    _settle_calls(reading)
    for session in reading.sessions.values():
        if session.fields.get("forked_from", session.session_id) not in reading.sessions:
            session.fields["ancestor_not_imported"] = True
    for path in paths:
        _read_meta(reading, path, source)
    _link_children(reading)
    _name_roles(reading)
    return list(reading.sessions.values())


def _read_file(path: Path, account: Account, source: Files) -> tuple[Path, list[dict[str, Any]]]:
    """Read a file's lines, without what nobody looks at: results and answers are most of a session."""
    records = []
    for record in source.iter_records(path, account):
        if record.get("type") not in NOISE:
            strip_record(record)
            records.append(record)
    return path, records


def strip_record(record: dict[str, Any]) -> None:
    """Take from a line the text of answers and the results of tools, which are never recorded."""
    child = find_text(record.get("toolUseResult"), "agentId")
    record["toolUseResult"] = {"agentId": child} if child is not None else None
    is_answer = record.get("type") == "assistant"
    for block in get_items(get_object(record, "message").get("content")):
        if is_answer and block.get("type") != "tool_use":
            block.clear()
        elif block.get("type") == "tool_result":
            block.pop("content", None)


def check_beginning(path: Path, record: dict[str, Any]) -> None:
    """Refuse nothing: no line of Claude Code's files says what they are."""


def _rank(path: Path, records: list[dict[str, Any]]) -> tuple[bool, bool, int, str]:
    """Order files so that a parent comes before its children, and what was copied from before what copied it.

    A fork says so of each line that it copied; a resume of older versions only went on for longer.
    """
    is_fork = any(find_text(record.get("forkedFrom"), "sessionId") for record in records)
    times = [ts_ns for ts_ns in (parse_time(record.get("timestamp")) for record in records) if ts_ns is not None]
    return path.stem.startswith("agent-"), is_fork, max(times, default=0), str(path)


def _take(reading: _Reading, record: dict[str, Any], path: Path) -> None:
    kind = record.get("type")
    if kind not in ("user", "assistant", "system"):
        reading.account.note_unknown(kind)
        return
    uuid = find_text(record, "uuid")
    session = _get_session(reading, record, path)
    origin = find_text(record.get("forkedFrom"), "sessionId")
    if origin is not None:
        session.fields["forked_from"] = origin
    if uuid is not None:
        if uuid in reading.seen:
            reading.account.duplicates += 1
            return
        reading.seen.add(uuid)
    ts_ns = parse_time(record.get("timestamp"))
    if ts_ns is None:
        reading.account.untimed += 1
        return
    session.note_time(ts_ns)
    version = find_text(record, "version")
    if version is not None:
        session.fields["harness_version"] = version
    if kind == "assistant":
        _take_assistant(reading, session, record, ts_ns)
    elif kind == "user":
        _take_user(reading, session, record, ts_ns)
    elif record.get("subtype") == "compact_boundary":
        _take_boundary(reading, session, record, ts_ns)


def _get_session(reading: _Reading, record: dict[str, Any], path: Path) -> Session:
    """Return the session of a line: its file's, or of a side chain the child's."""
    owner = find_text(record, "sessionId") or path.stem
    agent = find_text(record, "agentId")
    if agent is None and path.stem.startswith("agent-"):
        agent = path.stem.removeprefix("agent-")
    if agent is not None:
        return _get_child(reading, f"agent-{agent}", owner)
    if record.get("isSidechain") is True:
        return _get_child(reading, _find_side(reading, record), owner)
    return reading.sessions.setdefault(owner, Session(owner))


def _get_child(reading: _Reading, name: str, owner: str) -> Session:
    return reading.sessions.setdefault(name, Session(name, parent_session=owner))


def _find_side(reading: _Reading, record: dict[str, Any]) -> str:
    """Return the name of an inline side chain: that of its parent line, or a new one of its first line's uuid."""
    uuid, parent = find_text(record, "uuid") or "?", find_text(record, "parentUuid")
    name = reading.sides.get(parent or "") or f"sidechain-{uuid}"
    reading.sides[uuid] = name
    return name


def _take_assistant(reading: _Reading, session: Session, record: dict[str, Any], ts_ns: int) -> None:
    message = get_object(record, "message")
    model = find_text(message, "model")
    if model == _SYNTHETIC:  # an error of the API that was written down as a message
        session.fields["synthetic_messages"] = session.fields.get("synthetic_messages", 0) + 1
        return
    reading.boundaries[session.session_id] = False
    message_id = find_text(message, "id") or find_text(record, "uuid") or f"{session.session_id} {ts_ns}"
    group = reading.calls.setdefault(message_id, {})
    usage = _parse_usage(get_object(message, "usage"))
    request = find_text(record, "requestId")
    stop_reason = find_text(message, "stop_reason")
    is_side = record.get("isSidechain") is True
    call = group.setdefault(request, _Call(session, is_side, ts_ns, usage, model, stop_reason))
    call.usage = merge_usage(call.usage, usage)
    call.ts_ns = max(call.ts_ns, ts_ns)
    call.stop_reason = stop_reason or call.stop_reason
    effort = find_text(record, "effort") or find_text(get_object(record, "effort"), "level")
    session.configure(ts_ns, model=model, effort=effort)
    for block in get_items(message.get("content")):
        call_id, name = find_text(block, "id"), find_text(block, "name")
        if block.get("type") == "tool_use" and call_id is not None and name is not None:
            tool = session.add_call(ts_ns, call_id, name, block.get("input"))
            if name in _DELEGATING:
                session.delegate(tool, None, subagent_type=find_text(block.get("input"), "subagent_type"))


def _parse_usage(usage: dict[str, Any]) -> Usage:
    """Return a response's tokens. Input leaves the cache out; some versions split what was written and add no sum."""
    parts = get_object(usage, "cache_creation")
    split = [count for name in parts if (count := find_count(parts, name)) is not None]
    flat = find_count(usage, "cache_creation_input_tokens")
    written = max(flat or 0, sum(split)) if split or flat is not None else None
    return make_usage(
        find_count(usage, "input_tokens"),
        find_count(usage, "output_tokens"),
        find_count(usage, "cache_read_input_tokens"),
        written,
    )


def _take_user(reading: _Reading, session: Session, record: dict[str, Any], ts_ns: int) -> None:
    content = get_object(record, "message").get("content")
    if record.get("isCompactSummary") is True:
        if not reading.boundaries.get(session.session_id):  # older files have no boundary before their summary
            session.compactions.append(_make_compaction(ts_ns, None, None))
        reading.boundaries[session.session_id] = False
        return
    results = [block for block in get_items(content) if block.get("type") == "tool_result"]
    for block in results:
        call_id = find_text(block, "tool_use_id")
        if call_id is not None:
            tool = session.add_result(ts_ns, call_id)
            if isinstance(block.get("is_error"), bool):
                tool.is_error = block["is_error"]
            child = find_text(record.get("toolUseResult"), "agentId")
            if child is not None:
                session.delegate(tool, f"agent-{child}")
    text = get_content_text([block for block in get_items(content) if block.get("type") == "text"])
    text = content if isinstance(content, str) else text
    if text is None or record.get("isMeta") is True:
        return
    if text.startswith(INTERRUPTED):
        session.interruptions.append(ts_ns)
    elif not LOCAL.match(text):
        session.add_prompt(ts_ns, text, "parent" if session.parent_session is not None else "user")


def _take_boundary(reading: _Reading, session: Session, record: dict[str, Any], ts_ns: int) -> None:
    found = get_object(record, "compactMetadata")
    session.compactions.append(_make_compaction(ts_ns, find_text(found, "trigger"), find_count(found, "preTokens")))
    session.compactions[-1].tokens_after = find_count(found, "postTokens")
    reading.boundaries[session.session_id] = True


def _make_compaction(ts_ns: int, reason: str | None, before: int | None) -> Compaction:
    return Compaction(None, ts_ns, reason=reason, outcome="success", tokens_before=before, timing=TRANSCRIPT_OBSERVED)


def _is_replay(call: _Call) -> bool:
    return call.is_side or call.session.parent_session is not None


def _settle_calls(reading: _Reading) -> None:
    """Add each response once: a message's lines of one request, its own session's before a side chain's replay."""
    for group in reading.calls.values():
        request, call = min(group.items(), key=lambda pair: _is_replay(pair[1]))
        reading.account.duplicates += len(group) - 1
        response = call.session.add_response(call.ts_ns, call.model, call.usage, stop_reason=call.stop_reason)
        if request is not None:
            call.session.by_request[request] = response
        context = compute_context_with_cache(call.usage)
        if context is not None:
            call.session.context.append((call.ts_ns, context))


def _read_meta(reading: _Reading, path: Path, source: Files) -> None:
    """Take in what stands beside a child's file: its kind, and the call that launched it."""
    child = reading.sessions.get(path.stem)
    if child is None:
        return
    found = source.read_object(path.with_suffix(".meta.json"))
    kind = find_text(found, "agentType")
    if kind is not None:
        child.fields["role"] = kind
    call_id = find_text(found, "toolUseId")
    for session in reading.sessions.values():
        if call_id is not None and call_id in session.tools:
            session.delegate(session.tools[call_id], path.stem, subagent_type=kind)


def _link_children(reading: _Reading) -> None:
    """Find the launch of an inline side chain by the prompt that both have, word for word."""
    for child in reading.sessions.values():
        parent = reading.sessions.get(child.parent_session or "")
        if parent is None or not child.session_id.startswith("sidechain-") or not child.prompts:
            continue
        for tool in _iter_unlinked(parent):
            if find_text(tool.args, "prompt") == child.prompts[0].text:
                parent.delegate(tool, child.session_id)
                break


def _name_roles(reading: _Reading) -> None:
    """Give a child the kind of agent that its launch asked for, where nothing beside its file says it."""
    for session in reading.sessions.values():
        for tool in session.tools.values():
            launch = tool.delegation
            child = reading.sessions.get(launch.child_session or "") if launch is not None else None
            if launch is not None and child is not None and "subagent_type" in launch.launch:
                child.fields.setdefault("role", launch.launch["subagent_type"])


def _iter_unlinked(session: Session) -> Iterator[Any]:
    for tool in session.tools.values():
        if tool.delegation is not None and tool.delegation.child_session is None:
            yield tool
