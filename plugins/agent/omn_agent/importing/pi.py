"""Pi's session files, versions 1 to 3: a tree of entries, of which one branch is the conversation.

Abandoned branches were paid for, so that tokens are of all of them and the context is of the last one's. A fork copies
its parent's entries with their ids; ids are unique within a file alone, so that only a parent's are looked for.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
from omn_export.perfetto.annotations import compute_units

from omn_agent.importing.fields import (
    find_count,
    find_milliseconds,
    find_text,
    get_content_text,
    get_items,
    get_object,
    parse_time,
)
from omn_agent.importing.lines import DISK, Account, Files
from omn_agent.importing.session import Session, make_usage
from omn_agent.recording import TRANSCRIPT_OBSERVED, Compaction, Tool, Usage, Workflow
from omn_core.api import RequestError

QUIET = ("custom", "custom_message", "hookMessage", "label", "session_info", "context_edit")
"""Entries that say nothing of what was done."""
_EXECUTABLE = re.compile(r"[\w./+-]{1,100}")
_VERSIONS = (1, 2, 3)


@attrs.define
class _File:
    path: Path
    header: dict[str, Any]
    entries: list[dict[str, Any]]

    @property
    def session_id(self) -> str:
        return find_text(self.header, "id") or self.path.stem

    @property
    def ids(self) -> set[tuple[str, str]]:
        """The entries' ids, each with its stamp: a copy has both."""
        return {(str(entry["id"]), str(entry.get("timestamp"))) for entry in self.entries if entry.get("id")}


def read_sessions(paths: list[Path], account: Account, source: Files = DISK) -> list[Session]:
    """Read sessions from their files; what a fork copied counts in the session it was copied from."""
    by_id: dict[str, _File] = {}
    for path in paths:
        file = _read_file(path, account, source)
        other = by_id.setdefault(file.session_id, file)
        if other is not file:  # a copy of the file: the longer one holds the other
            account.duplicates += min(len(other.entries), len(file.entries))
            by_id[file.session_id] = max(other, file, key=lambda row: len(row.entries))
    files = list(by_id.values())
    return [_make_session(file, files, account) for file in files]


def check_beginning(path: Path, record: dict[str, Any]) -> None:
    """Raise RequestError where a file's first record is no header of a session."""
    if record.get("type") != "session" or record.get("version", 1) not in _VERSIONS:
        raise RequestError(
            f"{str(path)!r} does not begin as a session of Pi does", "versions 1 to 3 of its files are known"
        )


def _read_file(path: Path, account: Account, source: Files) -> _File:
    """Read a file's entries, without what answers and results say: that is most of a session."""
    records = list(map(_strip, source.iter_records(path, account)))
    header = records[0] if records else {}
    check_beginning(path, header)
    return _File(path, header, records[1:])


def _strip(entry: dict[str, Any]) -> dict[str, Any]:
    message = get_object(entry, "message")
    if message.get("role") == "assistant":
        message["content"] = [block for block in get_items(message.get("content")) if block.get("type") == "toolCall"]
    elif message.get("role") == "toolResult":
        message.pop("content", None)
    return entry


def _make_session(file: _File, files: list[_File], account: Account) -> Session:
    session = Session(file.session_id)
    session.fields = {"format_version": file.header.get("version", 1)}
    copied = _find_copied(file, files, session)
    start_ns = parse_time(file.header.get("timestamp"))
    if start_ns is not None:
        session.note_time(start_ns)
    active = _find_active(file)
    for index, entry in enumerate(file.entries):
        ts_ns = parse_time(entry.get("timestamp"))
        if (str(entry.get("id")), str(entry.get("timestamp"))) in copied:
            account.duplicates += 1
        elif ts_ns is None:
            account.untimed += 1
        else:
            session.note_time(ts_ns)
            _take(session, entry, ts_ns, index in active, account)
    return session


def _find_copied(file: _File, files: list[_File], session: Session) -> set[tuple[str, str]]:
    """Return the ids of every file along the chain of parents."""
    copied: set[tuple[str, str]] = set()
    named, passed = find_text(file.header, "parentSession"), {file.path}
    if named is not None:
        session.fields["forked_from"] = Path(named).name.removesuffix(".jsonl")
    while named is not None:
        name = Path(named).name
        parent = next(
            (row for row in files if row.path not in passed and name in (row.path.name, row.session_id)), None
        )
        if parent is None:
            session.fields["ancestor_not_imported"] = True
            break
        passed.add(parent.path)
        copied |= parent.ids
        named = find_text(parent.header, "parentSession")
    return copied


def _find_active(file: _File) -> set[int]:
    """Return the places of the entries on the branch that the file ends on; version 1 is one branch."""
    if not any("parentId" in entry for entry in file.entries):
        return set(range(len(file.entries)))
    places = {str(entry.get("id")): place for place, entry in enumerate(file.entries)}
    at: int | None = len(file.entries) - 1
    active: set[int] = set()
    while at is not None and at not in active:
        active.add(at)
        at = places.get(str(file.entries[at].get("parentId")))
    return active


def _take(session: Session, entry: dict[str, Any], ts_ns: int, is_active: bool, account: Account) -> None:
    kind = entry.get("type")
    if kind == "message":
        _take_message(session, get_object(entry, "message"), ts_ns, is_active)
    elif kind == "model_change":
        session.configure(ts_ns, model=find_text(entry, "modelId", "model"), provider=find_text(entry, "provider"))
    elif kind == "thinking_level_change":
        session.configure(ts_ns, effort=find_text(entry, "thinkingLevel"))
    elif kind == "compaction":
        session.compactions.append(
            Compaction(
                None,
                ts_ns,
                outcome="success",
                tokens_before=find_count(entry, "tokensBefore"),
                usage=parse_usage(get_object(entry, "usage")),
                resets_context=is_active,
                timing=TRANSCRIPT_OBSERVED,
            )
        )
    elif kind in ("usage", "branch_summary"):
        found = get_object(entry, "usage") or (entry if kind == "usage" else {})
        if found:
            session.other_usages.append((ts_ns, parse_usage(found)))
    elif kind not in QUIET:
        account.note_unknown(kind)


def _take_message(session: Session, message: dict[str, Any], ts_ns: int, is_active: bool) -> None:
    role = message.get("role")
    if role == "user":
        session.add_prompt(ts_ns, get_content_text(message.get("content")), "user")
    elif role == "assistant":
        _take_assistant(session, message, ts_ns, is_active)
    elif role == "toolResult":
        _take_result(session, message, ts_ns)
    elif role == "bashExecution":
        _take_bash(session, message, ts_ns)


def _take_assistant(session: Session, message: dict[str, Any], ts_ns: int, is_active: bool) -> None:
    model, provider = find_text(message, "model"), find_text(message, "provider")
    usage = parse_usage(get_object(message, "usage"))
    reason = find_text(message, "stopReason")
    session.configure(ts_ns, model=model, provider=provider)
    response = session.add_response(ts_ns, model, usage, provider=provider, stop_reason=reason)
    stamp_ms = find_count(message, "timestamp")
    if stamp_ms is not None:
        session.by_request[str(stamp_ms)] = response
    if reason == "aborted":
        session.interruptions.append(ts_ns)
    if is_active and usage.total_tokens:
        session.context.append((ts_ns, usage.total_tokens))
    for block in get_items(message.get("content")):
        call_id = find_text(block, "id")
        if block.get("type") == "toolCall" and call_id is not None:
            session.add_call(ts_ns, call_id, find_text(block, "name") or "tool", block.get("arguments"))


def _take_result(session: Session, message: dict[str, Any], ts_ns: int) -> None:
    call_id = find_text(message, "toolCallId")
    if call_id is None:
        return
    tool = session.add_result(ts_ns, call_id, find_text(message, "toolName"))
    if isinstance(message.get("isError"), bool):
        tool.is_error = message["isError"]
    tool.usage = parse_usage(get_object(message, "usage"))  # the nested calls' tokens are in it
    nested = get_object(message, "nestedCalls")
    if nested.get("complete") is False:  # Pi keeps a bounded number of them
        session.fields["cut_nested_calls"] = session.fields.get("cut_nested_calls", 0) + 1
    rows = get_items(message.get("nestedCalls")) or get_items(nested.get("calls"))
    for row in rows:
        nested_id = find_text(row, "id")
        if nested_id is not None:
            _add_nested(session, row, nested_id, call_id, ts_ns)


def _add_nested(session: Session, row: dict[str, Any], call_id: str, parent: str, ts_ns: int) -> None:
    """Add a nested call, of which its length is known and no stamp: it was complete when its parent was."""
    status = find_text(row, "status")
    session.tools[call_id] = Tool(
        find_text(row, "name", "toolName") or "tool",
        call_id,
        None,
        ts_ns,
        parent_call_id=parent,
        is_error=None if status is None else status not in ("ok", "success", "completed"),
        duration_ns=find_milliseconds(row, "durationMs"),
        timing=TRANSCRIPT_OBSERVED,
    )


def _take_bash(session: Session, message: dict[str, Any], ts_ns: int) -> None:
    """Add a command that the person ran: what was executed and how long it was, never what it said."""
    command = find_text(message, "command") or ""
    executable, _ = split_command(command)
    fields: dict[str, Any] = {"length": compute_units(command)}
    if executable:
        fields["executable"] = executable.rsplit("/", 1)[-1]
    session.workflows.append(Workflow("user_bash", ts_ns, ts_ns, is_instant=True, fields=fields))


def split_command(command: str) -> tuple[str, str]:
    """Return a command's executable, where it is a plain word, and everything else of it."""
    first = command.split(maxsplit=1)[0] if command.split() else ""
    if command.startswith(first) and _EXECUTABLE.fullmatch(first):
        return first, command.removeprefix(first)
    return "", command


def parse_usage(usage: dict[str, Any]) -> Usage:
    """Return reported tokens. Reasoning is inside output; what was written for an hour is inside what was written."""
    return make_usage(
        find_count(usage, "input"),
        find_count(usage, "output"),
        find_count(usage, "cacheRead"),
        find_count(usage, "cacheWrite"),
        find_count(usage, "totalTokens"),
    )
