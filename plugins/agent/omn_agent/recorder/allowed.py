"""What of a session file's line goes into the journal: an allow-list of names for each harness.

Answers, thoughts and the results of tools are never kept. With content off a text becomes as many UTF-16 units of `x`,
so that its length is still known, and a tool's input is not kept at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import attrs
from omn_export.perfetto.annotations import compute_units

from omn_agent.harness import Harness
from omn_agent.importing import claude, codex, muse, pi
from omn_agent.importing.fields import find_text, get_items, get_object, parse_json

_LONGEST_NAME = 4096

Record = dict[str, Any]


@attrs.frozen
class Allowed:
    """The names that are kept.

    `names` hold ids, words, numbers and flags, `parts` objects and lists of them, `texts` what somebody wrote and
    `inputs` what a tool was given. A text is kept below an object that has one of `persons` as its type, role or kind,
    and not below one that has one of `silent`. `prepare` changes a record to what an importer needs of it, and may drop
    it; `shorten` divides a text into what may be kept of it in any case and the rest of it.
    """

    names: frozenset[str]
    numbers: frozenset[str]
    parts: frozenset[str]
    texts: frozenset[str]
    inputs: frozenset[str]
    persons: frozenset[str]
    silent: frozenset[str]
    prepare: Callable[[Record], Record | None]
    shorten: Callable[[str], tuple[str, str]]


def filter_record(harness: Harness, record: Record, has_content: bool) -> Record | None:
    """Return what may be kept of a line, None where nobody looks at such a line."""
    allowed = _ALLOWED[harness]
    prepared = allowed.prepare(record)
    return None if prepared is None else _filter_object(prepared, allowed, has_content, False)


def mask(text: str) -> str:
    """Return as long a text that says nothing."""
    return "x" * compute_units(text)


def _filter_object(found: Record, allowed: Allowed, has_content: bool, is_person: bool) -> Record:
    tags = {found.get(name) for name in ("type", "role", "kind") if isinstance(found.get(name), str)}
    is_person = (is_person or bool(tags & allowed.persons)) and not tags & allowed.silent
    kept: Record = {}
    for name, value in found.items():
        if isinstance(value, dict | list):
            if name in allowed.parts:
                kept[name] = _filter_part(value, allowed, has_content, is_person)
            elif name in allowed.inputs and has_content:
                kept[name] = value
        elif isinstance(value, str):
            if name in allowed.names and len(value) <= _LONGEST_NAME:
                kept[name] = value
            elif name in allowed.texts and is_person:
                open_part, rest = allowed.shorten(value)
                kept[name] = open_part + (rest if has_content else mask(rest))
            elif name in allowed.inputs and has_content:
                kept[name] = value
        elif value is not None and (name in allowed.names or name in allowed.numbers):
            kept[name] = value
    return kept


def _filter_part(value: Any, allowed: Allowed, has_content: bool, is_person: bool) -> Any:
    if isinstance(value, dict):
        return _filter_object(value, allowed, has_content, is_person)
    return [_filter_object(item, allowed, has_content, is_person) for item in get_items(value)]


def _prepare_claude(record: Record) -> Record | None:
    if record.get("type") in claude.NOISE:
        return None
    claude.strip_record(record)
    if record.get("isCompactSummary") is True or record.get("isMeta") is True:
        get_object(record, "message").pop("content", None)
    return record


def _shorten_claude(text: str) -> tuple[str, str]:
    """Leave of what a local command printed how it begins, and of an interruption's notice all of it."""
    local = claude.LOCAL.match(text)
    if local is not None:
        return local[0], ""
    if text.startswith(claude.INTERRUPTED):
        return claude.INTERRUPTED, ""
    return "", text


def _prepare_codex(record: Record) -> Record | None:
    if record.get("type") in ("world_state", "inter_agent_communication"):  # what was said, and what stood on disk
        return None
    payload = get_object(record, "payload") or record
    if record.get("type") == "compacted" and find_text(payload, "compaction_response_id") is None:
        text = json.dumps(payload, sort_keys=True)
        payload["compaction_response_id"] = f"digest {hashlib.sha256(text.encode()).hexdigest()}"
    codex.strip_payload(payload)
    return record


def _shorten_codex(text: str) -> tuple[str, str]:
    """Leave of instructions and environments, which nobody typed, how they begin."""
    for known in codex.INSTRUCTIONS:
        if text.lstrip().startswith(known):
            return known, ""
    return "", text


def _prepare_pi(record: Record) -> Record:
    if record.get("type") in pi.QUIET:  # its place in the tree is all that is looked at
        return {name: record.get(name) for name in ("type", "id", "parentId", "timestamp")}
    message = get_object(record, "message")
    command = find_text(message, "command")
    if command is not None:  # of what the person ran a name and a length are recorded
        executable, rest = pi.split_command(command)
        # What is left must read as the same word again, and as none where there was none.
        message["command"] = executable + rest[:1] + mask(rest[1:]) if executable else "?" * compute_units(command)
    return record


def _prepare_muse(record: Record) -> Record:
    """Open the records that a frame wraps, so that they are filtered as others are, and keep how a tool ended.

    Of what a tool was given the length stays, in any case.
    """
    for holder in (record, get_object(record, "payload")):
        for child in get_items(holder.get("children")):
            child["record_json"] = parse_json(child.get("record_json"))
            if isinstance(child["record_json"], dict):
                _prepare_muse(child["record_json"])
    for result in get_items(get_object(record, "payload", "event").get("results")):
        result["is_error"] = muse.find_failure(result)
    for call in get_items(get_object(record, "payload", "event").get("tool_calls")):
        if isinstance(call.get("args"), str):
            call["args_length"] = compute_units(call["args"])
    return record


def _keep_nothing(text: str) -> tuple[str, str]:
    return "", text


def _make(
    prepare: Callable[[Record], Record | None],
    shorten: Callable[[str], tuple[str, str]] = _keep_nothing,
    **names: str,
) -> Allowed:
    return Allowed(
        prepare=prepare, shorten=shorten, **{name: frozenset(words.split()) for name, words in names.items()}
    )


_ALLOWED = {
    Harness.CLAUDE: _make(
        _prepare_claude,
        _shorten_claude,
        names=(
            "type uuid parentUuid logicalParentUuid timestamp sessionId version cwd isSidechain agentId requestId "
            "isMeta isCompactSummary subtype effort level id model role stop_reason trigger tool_use_id is_error "
            "name agentType toolUseId"
        ),
        numbers=(
            "input_tokens output_tokens cache_read_input_tokens cache_creation_input_tokens "
            "ephemeral_5m_input_tokens ephemeral_1h_input_tokens preTokens postTokens"
        ),
        parts="message usage cache_creation compactMetadata toolUseResult content effort forkedFrom",
        texts="content text",
        inputs="input",
        persons="user",
        silent="assistant tool_result",
    ),
    Harness.CODEX: _make(
        _prepare_codex,
        _shorten_codex,
        names=(
            "timestamp type record_type id session_id cli_version originator parent_thread_id forked_from_id "
            "model_provider model effort cwd subagent source thread_source response_id compaction_response_id "
            "role call_id name status agent_id turn_id history_mode success thread_id"
        ),
        numbers=(
            "started_at_ms completed_at_ms ordinal subagent_history_start_ordinal end_ordinal_exclusive "
            "end_byte_offset model_context_window "
            "exit_code input_tokens cached_input_tokens cache_write_input_tokens output_tokens "
            "reasoning_output_tokens total_tokens"
        ),
        parts=(
            "payload source subagent thread_spawn history_base info total_token_usage last_token_usage usage item "
            "content output metadata"
        ),
        texts="content text message",
        inputs="arguments input action",
        persons="user user_message UserMessage",
        silent="assistant",
    ),
    Harness.PI: _make(
        _prepare_pi,
        names=(
            "type version id parentId timestamp parentSession cwd role model modelId provider thinkingLevel "
            "stopReason toolCallId toolName isError kind status name command"
        ),
        numbers=(
            "tokensBefore input output cacheRead cacheWrite cacheWrite1h reasoning totalTokens durationMs complete"
        ),
        parts="message usage content nestedCalls calls",
        texts="content text",
        inputs="arguments",
        persons="user",
        silent="assistant toolResult",
    ),
    Harness.MUSE: _make(
        _prepare_muse,
        names=(
            "id kind payload_type schema_version model_id provider_id semver workspace_root call_id name tool_call_id "
            "is_error model finish_reason terminal intent_id surface"
        ),
        numbers=(
            "sequence recorded_at duration_ms args_length input_tokens input output_tokens output cache_read_tokens "
            "cache_read cached_tokens cached cache_write_tokens cache_write reasoning"
        ),
        parts=("stream payload record build event tool_calls results usage children record_json outcome refill_blocks"),
        texts="prompt text",
        inputs="args",
        persons="started text",
        silent="",
    ),
}
