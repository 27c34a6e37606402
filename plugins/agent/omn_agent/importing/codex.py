"""Codex's rollouts, in every shape they have had.

(a) bare items without an envelope, before September 2025; (b) `{timestamp, type, payload}`; (c) with `ordinal` and a
`history_base`; (d) the person's turn as `item_completed` or as a `response_item` alone; (e) `token_usage_record`. No
marker tells them apart, so that each part is looked for where any of them has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from omn_agent.importing.codex_usage import Record, add_usage, find_replayed
from omn_agent.importing.fields import (
    find_count,
    find_milliseconds,
    find_text,
    get_content_text,
    get_object,
    parse_json,
    parse_time,
)
from omn_agent.importing.lines import DISK, Account, Files
from omn_agent.importing.session import Session
from omn_agent.recording import NATIVE_DURATION, TRANSCRIPT_OBSERVED, Compaction
from omn_core.api import RequestError

_ENVELOPES = (
    "session_meta",
    "turn_context",
    "response_item",
    "event_msg",
    "compacted",
    "token_usage_record",
    "world_state",
    "inter_agent_communication",
)
_BARE = ("message", "reasoning", "function_call", "function_call_output", "local_shell_call")
INSTRUCTIONS = ("<", "# AGENTS.md")
"""How a user's message begins that nobody typed: instructions and the environment, put before the first turn."""


@attrs.define
class Rollout:
    """One file: its records with their stamps, and what it says of itself."""

    path: Path
    records: list[Record] = attrs.field(factory=list)
    meta: dict[str, Any] = attrs.field(factory=dict)
    session_id: str = ""
    parent: str | None = None
    forked_from: str | None = None

    @property
    def ancestor(self) -> str | None:
        """The thread whose records this one may begin with."""
        return self.parent or self.forked_from


def read_sessions(paths: list[Path], account: Account, source: Files = DISK) -> list[Session]:
    """Read sessions from their rollouts; what a fork or a child replays of its parent is left out."""
    by_id: dict[str, Rollout] = {}
    for path in _choose(paths):
        rollout = _read_rollout(path, account, source)
        other = by_id.setdefault(rollout.session_id, rollout)
        if other is not rollout:  # archived and not yet taken away, or copied: the longer one holds the other
            account.duplicates += min(len(other.records), len(rollout.records))
            by_id[rollout.session_id] = max(other, rollout, key=lambda row: len(row.records))
    return [_make_session(rollout, by_id, account) for rollout in by_id.values()]


def _choose(paths: Sequence[Path]) -> list[Path]:
    """Leave out what is compressed where the same file stands beside it whole."""
    plain = {path for path in paths if path.suffix != ".zst"}
    return [path for path in paths if path.suffix != ".zst" or path.with_suffix("") not in plain]


def check_beginning(path: Path, record: dict[str, Any]) -> None:
    """Raise RequestError for a record of what `codex exec --json` prints."""
    kind = record.get("type")
    if isinstance(kind, str) and kind.startswith(("thread.", "turn.", "item.")):
        raise RequestError(
            f"{str(path)!r} is what `codex exec --json` prints, not a session file",
            "name a rollout of $CODEX_HOME/sessions",
        )


def _read_rollout(path: Path, account: Account, source: Files) -> Rollout:
    rollout = Rollout(path)
    for index, record in enumerate(source.iter_records(path, account)):
        check_beginning(path, record)
        kind = record.get("type")
        payload = get_object(record, "payload")
        ts_ns = parse_time(record.get("timestamp"))
        ordinal = find_count(record, "ordinal")
        if kind in _ENVELOPES and payload:
            if kind == "session_meta" and not rollout.meta:  # a second one is its parent's, replayed
                rollout.meta = payload
            strip_payload(payload)
            rollout.records.append((ts_ns, str(kind), payload, ordinal))
        elif kind in _BARE:
            strip_payload(record)
            rollout.records.append((ts_ns, "response_item", record, None))
        elif index == 0 and find_text(record, "id") and not kind:
            rollout.meta = record
            rollout.records.append((ts_ns, "session_meta", record, None))
        elif "record_type" not in record:
            account.note_unknown(kind)
    _identify(rollout)
    return rollout


def strip_payload(payload: dict[str, Any]) -> None:
    """Take from a record what nobody looks at: answers, thoughts, summaries, and of results all but how they ended."""
    for name in ("encrypted_content", "summary", "replacement_history", "last_agent_message"):
        payload.pop(name, None)
    if payload.get("role") == "assistant":
        payload.pop("content", None)
    if "output" in payload:
        output = parse_json(payload["output"])
        payload["output"] = {
            name: value
            for name, value in (output.items() if isinstance(output, dict) else ())
            if name in ("metadata", "success", "agent_id")
        }


def _identify(rollout: Rollout) -> None:
    meta = rollout.meta
    name = rollout.path.name.removesuffix(".zst").removesuffix(".jsonl")
    rollout.session_id = find_text(meta, "id", "session_id") or name
    spawn = get_object(meta, "source", "subagent", "thread_spawn")
    rollout.parent = find_text(spawn, "parent_thread_id") or find_text(meta, "parent_thread_id")
    rollout.forked_from = find_text(meta, "forked_from_id")


def _make_session(rollout: Rollout, by_id: dict[str, Rollout], account: Account) -> Session:
    parent = by_id.get(rollout.ancestor or "")
    replayed = find_replayed(rollout.records, rollout.meta, parent.records if parent is not None else None)
    account.duplicates += replayed
    meta = rollout.meta
    session = Session(rollout.session_id, parent_session=rollout.parent)
    session.fields = {
        "harness_version": find_text(meta, "cli_version"),
        "forked_from": rollout.forked_from,
        "originator": (find_text(meta, "originator") or "")[:100] or None,
        "replayed_records": replayed or None,
    }
    if rollout.ancestor is not None and parent is None:
        session.fields["ancestor_not_imported"] = True
    start_ns = parse_time(meta.get("timestamp"))
    if start_ns is not None:
        session.note_time(start_ns)
        session.configure(start_ns, provider=find_text(meta, "model_provider"))
    own = rollout.records[replayed:]
    for ts_ns, kind, payload, _ in own:
        if ts_ns is None:
            account.untimed += kind != "session_meta"
            continue
        session.note_time(ts_ns)
        _take(session, ts_ns, kind, payload)
    _measure_tools(session, own)
    _add_prompts(session, own)
    _add_compactions(session, own)
    before = rollout.records[:replayed]
    if not before and parent is not None:  # a history that is named and not replayed
        end = find_count(get_object(meta, "history_base"), "end_ordinal_exclusive")
        before = [row for row in parent.records if end is not None and row[3] is not None and row[3] < end]
    add_usage(session, own, before)
    return session


def _take(session: Session, ts_ns: int, kind: str, payload: dict[str, Any]) -> None:
    """Take in what a record says by itself, whatever shape its file has."""
    if kind == "turn_context":
        session.configure(ts_ns, model=find_text(payload, "model"), effort=find_text(payload, "effort"))
    elif kind == "event_msg":
        what = payload.get("type")
        if what == "task_started":
            session.configure(ts_ns, context_window_tokens=find_count(payload, "model_context_window"))
        elif what == "turn_aborted":
            session.interruptions.append(ts_ns)
    elif kind == "response_item":
        _take_item(session, ts_ns, payload)


def _take_item(session: Session, ts_ns: int, item: dict[str, Any]) -> None:
    what, call_id = item.get("type"), find_text(item, "call_id", "id")
    if call_id is None:
        return
    if what in ("function_call", "custom_tool_call"):
        args = parse_json(item.get("arguments", item.get("input")))
        session.add_call(ts_ns, call_id, find_text(item, "name") or "tool", args)
    elif what == "local_shell_call":
        session.add_call(ts_ns, call_id, "local_shell", item.get("action"))
    elif what in ("function_call_output", "custom_tool_call_output"):
        tool = session.add_result(ts_ns, call_id)
        output = get_object(item, "output")
        code = find_count(get_object(output, "metadata"), "exit_code")
        success = output.get("success")
        if code is not None:
            tool.is_error = code != 0
        elif isinstance(success, bool):
            tool.is_error = not success
        child = find_text(output, "agent_id") if tool.name == "spawn_agent" else None
        if child is not None:
            session.delegate(tool, child)


def _measure_tools(session: Session, records: Sequence[Record]) -> None:
    """Take when a tool began and was done where a completed item says so: calls are in files when they were asked for.

    Of a command it is when Codex began to wait for it, which is after its process did: from its call on it is kept
    beside that. What an item has no call for is a part of another call, such as a script's, and no file says of which.
    """
    for _, kind, payload, _ in records:
        item = get_object(payload, "item")
        tool = session.tools.get(find_text(item, "id") or "")
        if kind != "event_msg" or payload.get("type") != "item_completed" or tool is None:
            continue
        started_ns, completed_ns = (
            find_milliseconds(payload, "started_at_ms"),
            find_milliseconds(payload, "completed_at_ms"),
        )
        if started_ns is None or completed_ns is None or not 0 < started_ns <= completed_ns:
            continue
        called_ns = tool.start_ns
        tool.start_ns, tool.end_ns = started_ns, completed_ns
        tool.dispatch_ns = None if called_ns is None else max(tool.end_ns - called_ns, 0)
        tool.duration_ns, tool.timing = tool.end_ns - tool.start_ns, NATIVE_DURATION
        code = find_count(item, "exit_code")
        if tool.is_error is None and code is not None:
            tool.is_error = code != 0


def _add_prompts(session: Session, records: Sequence[Record]) -> None:
    """Add the person's turns from the one place that this file has them in: events, completed items, or messages."""
    places: dict[str, list[tuple[int, str | None]]] = {"event": [], "item": [], "message": []}
    for ts_ns, kind, payload, _ in records:
        if ts_ns is None:
            continue
        if kind == "event_msg" and payload.get("type") == "user_message":
            places["event"].append((ts_ns, find_text(payload, "message")))
        elif kind == "event_msg" and payload.get("type") == "item_completed":
            item = get_object(payload, "item")
            if item.get("type") in ("UserMessage", "user_message"):
                places["item"].append((ts_ns, get_content_text(item.get("content")) or find_text(item, "text")))
        elif kind == "response_item" and payload.get("type") == "message" and payload.get("role") == "user":
            text = get_content_text(payload.get("content"))
            if text is not None and not text.lstrip().startswith(INSTRUCTIONS):
                places["message"].append((ts_ns, text))
    found = places["event"] or places["item"] or places["message"]
    for ts_ns, text in found:
        session.add_prompt(ts_ns, text, "parent" if session.parent_session is not None else "user")


def _add_compactions(session: Session, records: Sequence[Record]) -> None:
    """Add each compaction once: `compacted` may be written again, and an event tells of it too."""
    written: dict[str, int] = {}
    told = []
    for ts_ns, kind, payload, _ in records:
        if ts_ns is None:
            continue
        if kind == "compacted":
            written.setdefault(find_text(payload, "compaction_response_id") or repr(payload), ts_ns)
        elif kind == "event_msg" and payload.get("type") == "context_compacted":
            told.append(ts_ns)
    for ts_ns in written.values() or told:
        session.compactions.append(Compaction(None, ts_ns, outcome="success", timing=TRANSCRIPT_OBSERVED))
