"""What of session files goes into a journal: what importers need, and no word that is not to be there."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from agent_sessions import ClaudeLines, codex_line, codex_meta
from omn_agent.harness import Harness
from omn_agent.importing import claude, codex, muse, pi
from omn_agent.importing.lines import Account
from omn_agent.importing.session import Session
from omn_agent.recorder.allowed import filter_record
from omn_export.perfetto.annotations import compute_units

pytestmark = pytest.mark.spec("AGT-8")

READERS = {Harness.CLAUDE: claude, Harness.CODEX: codex, Harness.PI: pi, Harness.MUSE: muse}


@attrs.define
class Held:
    """Records that stand in for a file."""

    records: list[dict[str, Any]]

    def iter_records(self, path: Path, account: Account) -> Iterator[dict[str, Any]]:
        """Yield them, each a copy."""
        return iter(copy.deepcopy(self.records))

    def read_object(self, path: Path) -> dict[str, Any]:
        """Return nothing: nothing stands beside the file."""
        return {}


def make_claude() -> list[dict[str, Any]]:
    """A session with everything that a line may hold."""
    lines = ClaudeLines()
    return [
        {"type": "summary", "summary": "ANSWERWORD"},
        lines.user(0, "PROMPTWORD \U0001f33b"),
        lines.answer(1, "m1", (10, 5), calls=[("c1", "Bash", {"command": "ARGWORD", "n": 987654})], cache=(3, 4)),
        lines.result(2, "c1", toolUseResult={"stdout": "RESULTWORD", "agentId": "kid"}),
        lines.user(3, "<local-command-stdout>RESULTWORD</local-command-stdout>"),
        lines.user(4, "[Request interrupted by user for RESULTWORD]"),
        lines.user(5, "ANSWERWORD", isCompactSummary=True),
        lines.user(6, "ANSWERWORD", isMeta=True),
        lines.make("system", 7, subtype="compact_boundary", content="ANSWERWORD",
                   compactMetadata={"trigger": "auto", "preTokens": 900, "userContext": "PROMPTWORD"}),
        lines.answer(8, "m2", (20, 6), effort={"level": "high"}, thinking="ANSWERWORD"),
        {"type": "odd", "unheard": "PROMPTWORD"},
    ]  # fmt: skip


def make_codex() -> list[dict[str, Any]]:
    """A rollout with everything that a record may hold."""
    usage = {"input_tokens": 100, "cached_input_tokens": 4, "output_tokens": 20, "total_tokens": 120}
    return [
        codex_meta(0, "s1", instructions="PROMPTWORD", git={"branch": "PROMPTWORD"}),
        codex_line(0, "turn_context", {"model": "poppy-5", "effort": "high", "user_instructions": "PROMPTWORD"}),
        codex_line(1, "response_item", {"type": "message", "role": "user",
                   "content": [{"type": "input_text", "text": "# AGENTS.md PROMPTWORD"}]}),
        codex_line(1, "event_msg", {"type": "user_message", "message": "PROMPTWORD", "images": ["PROMPTWORD"]}),
        codex_line(2, "response_item", {"type": "function_call", "call_id": "c1", "name": "shell",
                   "arguments": json.dumps({"command": ["ARGWORD"]})}),
        codex_line(3, "response_item", {"type": "function_call_output", "call_id": "c1",
                   "output": json.dumps({"output": "RESULTWORD", "metadata": {"exit_code": 3}})}),
        codex_line(4, "response_item", {"type": "reasoning", "summary": ["ANSWERWORD"],
                   "encrypted_content": "ANSWERWORD"}),
        codex_line(4, "event_msg", {"type": "agent_reasoning", "text": "ANSWERWORD"}),
        codex_line(5, "event_msg", {"type": "agent_message", "message": "ANSWERWORD"}),
        codex_line(5, "response_item", {"type": "message", "role": "assistant",
                   "content": [{"type": "output_text", "text": "ANSWERWORD"}]}),
        codex_line(6, "event_msg", {"type": "token_count", "info": {"last_token_usage": usage,
                   "total_token_usage": usage, "model_context_window": 5000}}),
        codex_line(7, "compacted", {"message": "ANSWERWORD one"}),
        codex_line(7, "world_state", {"full": True, "state": {"files": "RESULTWORD"}}),
        codex_line(8, "compacted", {"message": "ANSWERWORD two"}),
        codex_line(9, "event_msg", {"type": "turn_aborted", "reason": "PROMPTWORD"}),
    ]  # fmt: skip


def make_pi() -> list[dict[str, Any]]:
    """A session of version 3 with everything that an entry may hold."""

    def entry(second: int, kind: str, **fields: Any) -> dict[str, Any]:
        return {
            "type": kind, "id": f"e{second}", "parentId": f"e{second - 1}" if second else None,
            "timestamp": f"2026-03-01T09:00:{second:02d}.000Z", **fields,
        }  # fmt: skip

    usage = {"input": 100, "output": 20, "cacheRead": 4, "cacheWrite": 2, "totalTokens": 126, "cost": {"total": 1}}
    return [
        {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-03-01T09:00:00.000Z", "cwd": "/home/ada"},
        entry(0, "message", message={"role": "user", "content": [{"type": "text", "text": "PROMPTWORD"}]}),
        entry(1, "message", message={"role": "assistant", "model": "poppy-5", "provider": "meadow", "usage": usage,
              "stopReason": "toolUse", "content": [{"type": "text", "text": "ANSWERWORD"},
              {"type": "thinking", "thinking": "ANSWERWORD"},
              {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "ARGWORD"}}]}),
        entry(2, "message", message={"role": "toolResult", "toolCallId": "c1", "toolName": "read", "isError": True,
              "content": [{"type": "text", "text": "RESULTWORD"}], "usage": usage,
              "nestedCalls": [{"id": "c1/1", "name": "grep", "status": "ok", "durationMs": 5}]}),
        entry(3, "message", message={"role": "bashExecution", "command": "grep ARGWORD file", "output": "RESULTWORD"}),
        entry(9, "message", message={"role": "bashExecution", "command": "$(ARGWORD)", "output": "RESULTWORD"}),
        entry(4, "session_info", name="PROMPTWORD"),
        entry(5, "compaction", summary="ANSWERWORD", firstKeptEntryId="e1", tokensBefore=900, usage=usage),
        entry(6, "branch_summary", summary="ANSWERWORD", usage=usage),
        entry(7, "model_change", modelId="poppy-6", provider="meadow"),
        entry(8, "custom", data="PROMPTWORD"),
    ]  # fmt: skip


def make_muse() -> list[dict[str, Any]]:
    """A log of a run, one of its records in a frame."""

    def record(number: int, what: str, **payload: Any) -> dict[str, Any]:
        return {
            "schema_version": 1, "id": f"e{number}", "stream": {"kind": "session", "id": "s1"}, "sequence": number,
            "recorded_at": 1_772_000_000_000_000 + number * 1_000_000, "payload_type": what, "payload": payload,
        }  # fmt: skip

    def run(number: int, what: str, **event: Any) -> dict[str, Any]:
        return record(number, "runtime.session", kind="run", event={"kind": what, **event})

    wrapped = run(
        5, "tool_result_batch_committed", results=[{"tool_call_id": "c1", "content": "RESULTWORD", "is_error": False}]
    )
    return [
        record(1, "runtime.session.metadata", record={"model_id": "poppy-5", "workspace_root": "/home/ada",
               "provider_id": "meadow", "build": {"semver": "1.2.3"}, "title": "PROMPTWORD"}),
        run(2, "started", prompt="PROMPTWORD"),
        record(7, "runtime.user_intent.accepted", intent_id="i", surface="main",
               refill_blocks=[{"kind": "text", "text": "PROMPTWORD"}]),
        record(8, "runtime.user_intent.materialized", intent_id="i", outcome={"kind": "active_run_delivery"}),
        run(9, "tool_result_batch_committed", results=[
            {"tool_call_id": "c1", "text": json.dumps({"exit_code": 1, "output": "RESULTWORD"})}]),
        run(3, "assistant_message_committed", text="ANSWERWORD", message={"content": "ANSWERWORD"}),
        run(4, "assistant_tool_calls_committed",
            tool_calls=[{"call_id": "c1", "name": "read", "args": '{"path": "ARGWORD"}'}]),
        {"schema_version": 1, "id": "f1", "payload": {"children": [{"record_json": json.dumps(wrapped)}]}},
        run(6, "model_completed", model="poppy-5", usage={"input": 100, "output": 20}, duration_ms=1500,
            text="ANSWERWORD"),
    ]  # fmt: skip


MAKERS = {Harness.CLAUDE: make_claude, Harness.CODEX: make_codex, Harness.PI: make_pi, Harness.MUSE: make_muse}


def keep(harness: Harness, has_content: bool) -> list[dict[str, Any]]:
    """Return what is kept of a harness's lines."""
    kept = [filter_record(harness, record, has_content) for record in MAKERS[harness]()]
    return [record for record in kept if record is not None]


def read(harness: Harness, records: list[dict[str, Any]]) -> tuple[list[Session], dict[str, int]]:
    """Return the sessions that an importer makes of records, and the kinds that it does not know."""
    account = Account()
    return READERS[harness].read_sessions([Path("/home/s1.jsonl")], account, Held(records)), account.unknown_kinds


@pytest.mark.parametrize("harness", list(Harness), ids=lambda harness: harness.value)
def test_answers_and_results_are_never_kept(harness: Harness) -> None:
    """With content on prompts and inputs are kept, and nothing of what a model or a tool said."""
    text = json.dumps(keep(harness, True))
    assert "PROMPTWORD" in text
    assert "ARGWORD" in text or harness is Harness.PI
    for word in ("ANSWERWORD", "RESULTWORD"):
        assert word not in text


@pytest.mark.parametrize("harness", list(Harness), ids=lambda harness: harness.value)
def test_with_content_off_no_word_of_anybody_is_kept(harness: Harness) -> None:
    """Neither a prompt's word nor an input's value, of whatever type."""
    text = json.dumps(keep(harness, False))
    for word in ("WORD", "987654"):
        assert word not in text


@pytest.mark.parametrize("has_content", [True, False])
@pytest.mark.parametrize("harness", list(Harness), ids=lambda harness: harness.value)
def test_an_importer_makes_the_same_of_what_is_kept(harness: Harness, has_content: bool) -> None:
    """Sessions of the kept lines are those of the file; without content, but for texts, of which the lengths are."""
    (whole, unknown), (kept, still_unknown) = (
        read(harness, MAKERS[harness]()),
        read(harness, keep(harness, has_content)),
    )
    assert [describe(session, has_content) for session in kept] == [describe(session, has_content) for session in whole]
    assert still_unknown == unknown


def describe(session: Session, has_content: bool) -> dict[str, Any]:
    """Return a session as plain values, texts as their lengths and inputs left out where content is off."""
    plain = attrs.asdict(session)
    plain["by_request"] = list(plain["by_request"])
    for prompt in plain["prompts"]:
        prompt["text"] = prompt["text"] if has_content else compute_units(prompt["text"])
    for tool in plain["tools"].values():
        if not has_content:
            del tool["args"], tool["has_args"]
    return plain
