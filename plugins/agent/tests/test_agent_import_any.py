"""Session files of any content: an answer or a refusal, for every harness."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest
from agent_sessions import ClaudeLines, codex_count, codex_event, codex_line, codex_meta, stamp, write_lines
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omn_agent.encoding.write import write_recording
from omn_agent.harness import Harness
from omn_agent.importing.read import read_recording
from omn_agent.recorder.allowed import filter_record

from omn_core.api import RequestError

pytestmark = pytest.mark.spec("AGT-7")


def make_claude() -> list[Any]:
    """Return lines of Claude Code's."""
    lines = ClaudeLines()
    launch = [("t1", "Task", {"prompt": "dig", "subagent_type": "x"})]
    return [
        lines.user(0, "one"),
        lines.answer(1, "m1", (10, 1), cache=(3, 4), calls=launch, effort={"level": "high"}),
        lines.result(2, "t1", toolUseResult={"agentId": "a1"}),
        lines.make("system", 3, subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 9}),
        lines.user(4, "sum", isCompactSummary=True),
        lines.answer(5, "m2", (1, 1), isSidechain=True, agentId="a1"),
    ]


def make_codex() -> list[Any]:
    """Return lines of Codex's."""
    item = {"type": "function_call", "call_id": "c", "name": "shell", "arguments": '{"a": 1}'}
    done = {"type": "function_call_output", "call_id": "c", "output": '{"metadata": {"exit_code": 1}}'}
    return [
        codex_meta(0, "s", source={"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}),
        codex_line(0.1, "turn_context", {"model": "fern", "effort": "high"}),
        codex_event(1, "user_message", message="x"),
        codex_line(2, "response_item", item),
        codex_line(3, "response_item", done),
        codex_count(4, (10, 1, 1), (10, 1, 1)),
        codex_event(5, "item_completed", item={"id": "c"}, started_at_ms=1, completed_at_ms=2),
        codex_line(6, "compacted", {"message": "x", "compaction_response_id": "r"}),
        codex_line(7, "token_usage_record", {"response_id": "r", "usage": {"input_tokens": 1}}),
    ]


def make_pi() -> list[Any]:
    """Return lines of Pi's."""
    usage = {"input": 1, "output": 2, "cacheRead": 3, "totalTokens": 6}
    called = {"role": "assistant", "usage": usage, "stopReason": "toolUse", "timestamp": 5,
              "content": [{"type": "toolCall", "id": "t", "name": "run", "arguments": {"a": [1]}}]}  # fmt: skip
    nested = [{"id": "t/1", "status": "ok", "durationMs": 1}]
    result = {
        "role": "toolResult",
        "toolCallId": "t",
        "usage": usage,
        "nestedCalls": {"complete": False, "calls": nested},
    }
    rows = [
        ("message", {"message": {"role": "user", "content": "x"}}),
        ("message", {"message": called}),
        ("message", {"message": result}),
        ("message", {"message": {"role": "bashExecution", "command": "ls x"}}),
        ("compaction", {"tokensBefore": 9, "usage": usage}),
        ("model_change", {"modelId": "m", "provider": "p"}),
        ("usage", {"usage": usage}),
    ]
    entries = [
        {"type": kind, "id": str(place), "parentId": str(place - 1), "timestamp": stamp(place), **fields}
        for place, (kind, fields) in enumerate(rows, 1)
    ]
    return [{"type": "session", "version": 3, "id": "s", "timestamp": stamp(0), "parentSession": "p"}, *entries]


def make_muse() -> list[Any]:
    """Return lines of Muse Code's."""
    events: list[dict[str, Any]] = [
        {"kind": "started", "prompt": "x"},
        {"kind": "assistant_tool_calls_committed", "tool_calls": [{"call_id": "c", "name": "sh", "args": "{}"}]},
        {"kind": "tool_result_batch_committed", "results": [{"tool_call_id": "c", "text": '{"exit_code": 1}'}]},
        {"kind": "model_completed", "usage": {"input_tokens": 1}, "duration_ms": 5, "model": "same-as-main"},
    ]
    begin_us = 1_772_355_600_000_000
    common = {"schema_version": 1, "stream": {"id": "s"}, "payload_type": "runtime.session", "recorded_at": begin_us}
    rows = [
        {**common, "id": str(place), "recorded_at": begin_us + place, "payload": {"kind": "run", "event": event}}
        for place, event in enumerate(events)
    ]
    return [{"retained_frame": "x", "children": [{"record_json": json.dumps(common)}]}, *rows]


MAKERS = {Harness.CLAUDE: make_claude, Harness.CODEX: make_codex, Harness.PI: make_pi, Harness.MUSE: make_muse}
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    PLAIN | st.sampled_from([stamp(3), "\ud800", "assistant"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "id"]), inner, max_size=2),
    max_leaves=4,
)


def list_places(value: Any) -> list[tuple[Any, Any]]:
    """Return everything that can be replaced in a value: what holds it, and where."""
    items = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    return [place for key, inner in items for place in ((value, key), *list_places(inner))]


@pytest.mark.parametrize("harness", list(Harness), ids=lambda harness: harness.value)
@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(data=st.data())
def test_lines_of_any_values_are_a_recording_or_a_refusal(
    tmp_path: Path, harness: Harness, data: st.DataObject
) -> None:
    """A value of another type or size than anybody writes is absent, and nothing falls over it."""
    records = copy.deepcopy(MAKERS[harness]())
    for _ in range(data.draw(st.integers(1, 4))):
        holder, key = data.draw(st.sampled_from(list_places(records)))
        holder[key] = data.draw(VALUES)
    path = write_lines(tmp_path / "s.jsonl", [json.dumps(record) + "\n" for record in records])
    has_content = data.draw(st.booleans())
    for record in records:  # what a recorder's journal would keep of the same lines
        json.dumps(filter_record(harness, copy.deepcopy(record), has_content) if isinstance(record, dict) else None)
    try:
        recording, _ = read_recording(harness, path, has_content)
    except RequestError as error:
        assert "\n" not in error.reason
        return
    write_recording(io.BytesIO(), recording)


@pytest.mark.parametrize("harness", list(Harness), ids=lambda harness: harness.value)
@pytest.mark.parametrize("content", [b"", b"\n\n", b"\x00" * 100, b"\xff\xfe{}", b"[" * 100_000, b'{"a":' * 50_000])
def test_a_file_of_anything_is_refused(tmp_path: Path, harness: Harness, content: bytes) -> None:
    """Empty, binary, in another encoding, nested without an end: no session, in a sentence."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(content)
    with pytest.raises(RequestError) as refused:
        read_recording(harness, path, True)
    assert "\n" not in refused.value.reason
