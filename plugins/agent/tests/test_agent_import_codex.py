"""Codex's rollouts: one made file for each shape and each trap, with its right totals."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
from agent_sessions import codex_count, codex_event, codex_line, codex_meta, stamp, write_lines
from omn_agent.encoding.write import write_recording
from omn_agent.harness import Harness
from omn_agent.importing.fields import parse_time
from omn_agent.importing.read import read_recording
from omn_agent.recording import Capture
from perfetto_reading import read_trace

from omn_core.api import RequestError

pytestmark = pytest.mark.spec("AGT-7")


def read(place: Path) -> list[Capture]:
    """Return what a place holds."""
    return read_recording(Harness.CODEX, place, True)[0].captures


def sums(*captures: Capture) -> tuple[int, int, int]:
    """Return the responses of captures, and their input and output tokens."""
    usages = [response.usage for capture in captures for response in capture.responses]
    return len(usages), sum(row.input_tokens or 0 for row in usages), sum(row.output_tokens or 0 for row in usages)


def item(second: float, what: str, **fields: Any) -> dict[str, Any]:
    """Return a response item's line."""
    return codex_line(second, "response_item", {"type": what, **fields})


def said(second: float, role: str, text: str) -> dict[str, Any]:
    """Return a message's line."""
    return item(second, "message", role=role, content=[{"type": "input_text", "text": text}])


def test_bare_items_before_the_envelope(tmp_path: Path) -> None:
    """Shape a: items without a stamp are counted, not placed; those with one are."""
    rows = [
        {"id": "s-a", "timestamp": stamp(0), "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "untimed"}]},
        {"type": "message", "role": "user", "timestamp": stamp(1), "content": [{"type": "input_text", "text": "q"}]},
        {"type": "function_call", "timestamp": stamp(2), "name": "shell", "call_id": "c", "arguments": "{}"},
        {"type": "function_call_output", "timestamp": stamp(4), "call_id": "c", "output": "x"},
        {"type": "message", "role": "assistant", "timestamp": stamp(5), "content": []},
    ]
    (capture,) = read(write_lines(tmp_path / "rollout-a.jsonl", rows))
    assert capture.session_id == "s-a"
    assert [prompt.text for prompt in capture.prompts] == ["q"]
    assert [(tool.name, (tool.end_ns or 0) - (tool.start_ns or 0)) for tool in capture.tools] == [("shell", 2 * 10**9)]
    assert capture.fields["untimed_records"] == 1
    assert capture.fields["unknown_lines"] == 0
    assert len(capture.responses) == 1
    assert capture.responses[0].usage.input_tokens is None
    assert capture.samples.context_tokens == []


def test_enveloped_lines_with_counts_that_are_told_again(tmp_path: Path) -> None:
    """Shape b: an event whose totals stand still, or that has none, is no response; input holds its cache."""
    rows = [
        codex_meta(0, "s-b", model_provider="garden"),
        codex_line(0.1, "turn_context", {"model": "fern-1", "effort": "high"}),
        codex_event(0.2, "task_started", model_context_window=900),
        said(0.3, "user", "<environment_context>\n</environment_context>"),
        said(1, "user", "plant beans"),
        codex_event(1, "user_message", message="plant beans"),
        item(2, "function_call", name="shell", call_id="c1", arguments='{"command":["ls"]}'),
        codex_event(2.5, "token_count", info=None, rate_limits={}),
        codex_count(3, (100, 60, 10), (100, 60, 10)),
        codex_count(3.1, (100, 60, 10), (100, 60, 10)),
        item(4, "function_call_output", call_id="c1", output=json.dumps({"output": "", "metadata": {"exit_code": 2}})),
        codex_count(5, (250, 160, 30), (150, 100, 20)),
        codex_event(5.5, "context_compacted"),
        codex_line(6, "compacted", {"message": "sum"}),
        codex_line(6.1, "compacted", {"message": "sum"}),
        codex_event(7, "user_message", message="stop"),
        item(8, "custom_tool_call", name="apply_patch", call_id="c2", input="*** patch"),
        codex_event(9, "turn_aborted", reason="interrupted"),
    ]
    path = write_lines(tmp_path / "rollout-b.jsonl", rows)
    (capture,) = read(path)
    assert sums(capture) == (2, 250, 30)
    assert [response.usage.cache_read_tokens for response in capture.responses] == [60, 100]
    assert [response.model for response in capture.responses] == ["fern-1", "fern-1"]
    assert [prompt.text for prompt in capture.prompts] == ["plant beans", "stop"]
    assert len(capture.compactions) == 1
    first, second = capture.tools
    assert (first.is_error, first.args) == (True, {"command": ["ls"]})
    assert (second.name, second.args, second.end_ns) == ("apply_patch", "*** patch", None)
    assert capture.samples.context_tokens == [
        (response.end_ns, tokens) for response, tokens in zip(capture.responses, (100, 150), strict=True)
    ]
    stream = io.BytesIO()
    write_recording(stream, read_recording(Harness.CODEX, path, True)[0])
    trace = read_trace(stream.getvalue())
    assert trace.counters["agentprof.capture|Input tokens"] == [0, 100, 250, 0]
    assert trace.counters["agentprof.capture|Context size"] == [100, 150, 0, 0]
    assert trace.counters["agentprof.capture|Context window"][0] == 900
    begun, stopped = trace.named("prompt")
    assert "incomplete" not in begun.args
    assert stopped.args["incomplete"] is True
    assert trace.one("profile (1)").args["provider"] == "garden"


def test_totals_alone_are_taken_apart(tmp_path: Path) -> None:
    """Without the last response's usage it is what the totals grew by, from nothing at first."""
    rows = [codex_meta(0, "s"), codex_count(1, (100, 0, 10), None), codex_count(2, (100, 0, 10), None),
            codex_count(3, (180, 50, 14), None)]  # fmt: skip
    (capture,) = read(write_lines(tmp_path / "rollout-t.jsonl", rows))
    assert [(row.input_tokens, row.output_tokens) for row in (r.usage for r in capture.responses)] == [
        (100, 10),
        (80, 4),
    ]


def test_totals_that_begin_anew_are_what_they_say(tmp_path: Path) -> None:
    """A counter that fell was started again: it grew from nothing."""
    rows = [codex_meta(0, "s"), codex_count(1, (100, 0, 10), None), codex_count(2, (30, 0, 12), None),
            codex_count(3, (50, 0, 13), None)]  # fmt: skip
    (capture,) = read(write_lines(tmp_path / "rollout-t.jsonl", rows))
    assert [(row.input_tokens, row.output_tokens) for row in (r.usage for r in capture.responses)] == [
        (100, 10),
        (30, 12),
        (20, 1),
    ]


def test_an_event_is_told_again_only_where_every_total_stands_still(tmp_path: Path) -> None:
    """The same input and output with more of it cached, or more of it reasoned, is another response."""
    rows = [codex_meta(0, "s"), codex_count(1, (100, 0, 10), (100, 0, 10)), codex_count(2, (100, 60, 10), (40, 40, 5))]
    reasoned = codex_count(3, (100, 60, 10), (7, 0, 7))
    reasoned["payload"]["info"]["total_token_usage"]["reasoning_output_tokens"] = 7
    rows += [reasoned, reasoned, codex_event(4, "token_count", info=None)]
    (capture,) = read(write_lines(tmp_path / "rollout-t.jsonl", rows))
    assert sums(capture) == (3, 147, 22)


def test_records_with_the_same_ordinal_are_each_their_own(tmp_path: Path) -> None:
    """An ordinal may be given twice: it drops nothing; what was said between agents is known and taken for nothing."""
    rows = [
        {**codex_meta(0, "s-c", history_mode="legacy"), "ordinal": 0},
        codex_line(1, "inter_agent_communication", {"message": "WORD"}, ordinal=1),
        {**codex_event(2, "user_message", message="a"), "ordinal": 2},
        {**codex_event(3, "user_message", message="b"), "ordinal": 2},
        {**codex_count(4, (100, 0, 10), (100, 0, 10)), "ordinal": 3},
        {**codex_count(5, (150, 0, 15), (50, 0, 5)), "ordinal": 3},
    ]
    (capture,) = read(write_lines(tmp_path / "rollout-c.jsonl", rows))
    assert sums(capture) == (2, 150, 15)
    assert [prompt.text for prompt in capture.prompts] == ["a", "b"]
    assert (capture.fields["unknown_lines"], capture.fields["duplicate_records"]) == (0, 0)


def test_a_thread_that_a_field_of_its_own_gives_a_parent_is_a_child(tmp_path: Path) -> None:
    """A guardian's: the parent stands in a field beside a source that is another word, under the session of both."""
    write_lines(tmp_path / "rollout-1.jsonl", [codex_meta(0, "p"), codex_count(1, (100, 0, 10), (100, 0, 10))])
    meta = codex_meta(2, "g", session_id="p", parent_thread_id="p", thread_source="subagent",
                      source={"subagent": {"other": "guardian"}})  # fmt: skip
    write_lines(tmp_path / "rollout-2.jsonl", [meta, codex_count(3, (40, 0, 4), (40, 0, 4))])
    captures = {capture.session_id: capture for capture in read(tmp_path)}
    assert captures["g"].parent_session == "p"
    assert (sums(captures["p"]), sums(captures["g"])) == ((1, 100, 10), (1, 40, 4))


def test_of_what_a_rollout_says_of_itself_little_is_taken(tmp_path: Path) -> None:
    """Instructions of many kilobytes are left out, and a client's name, which is free text, is cut."""
    meta = codex_meta(0, "s", base_instructions={"text": "WORD " * 9_000}, originator="my own client " * 50)
    path = write_lines(tmp_path / "rollout.jsonl", [meta, codex_count(1, (100, 0, 10), (100, 0, 10))])
    (capture,) = read(path)
    assert len(capture.fields["originator"]) == 100
    stream = io.BytesIO()
    assert write_recording(stream, read_recording(Harness.CODEX, path, True)[0]) < 5_000
    assert b"WORD" not in stream.getvalue()


def test_a_packed_rollout_that_is_torn_is_read_as_far_as_it_unpacks(tmp_path: Path) -> None:
    """But for what was still in a buffer then; the rest of it is a line that is no JSON."""
    rows = [codex_meta(0, "z"), *(codex_count(at, (100 * at, 0, at), (100, 0, 1)) for at in range(1, 2_000))]
    packer = zstandard.ZstdCompressor()
    frames = [packer.compress(json.dumps(row).encode() + b"\n") for row in rows]
    path = tmp_path / "rollout-z.jsonl.zst"
    path.write_bytes(b"".join(frames) + b"no frame of anything")
    (capture,) = read(path)
    assert 1_900 < sums(capture)[0] < 2_000
    assert capture.fields["malformed_lines"] == 1
    path.write_bytes(b"".join(frames)[:-10])
    (capture,) = read(path)
    assert sums(capture)[0] == 1_998


def test_the_persons_turn_as_a_completed_item_or_as_a_message(tmp_path: Path) -> None:
    """Shape d: no marker says which; each is found, and nothing twice."""
    done = {"type": "UserMessage", "content": [{"type": "text", "text": "prune"}]}
    rows = [codex_meta(0, "one", history_mode="paginated"), codex_event(1, "item_completed", item=done),
            said(1, "user", "prune")]  # fmt: skip
    write_lines(tmp_path / "rollout-1.jsonl", rows)
    write_lines(tmp_path / "rollout-2.jsonl", [codex_meta(0, "two"), said(1, "user", "# AGENTS.md instructions"),
                                               said(2, "user", "graft")])  # fmt: skip
    captures = {capture.session_id: capture for capture in read(tmp_path)}
    assert [prompt.text for prompt in captures["one"].prompts] == ["prune"]
    assert [prompt.text for prompt in captures["two"].prompts] == ["graft"]


def test_a_tool_lasts_as_long_as_its_completed_item_says(tmp_path: Path) -> None:
    """From when it began, which is later than when it was asked for; an item of no call adds no tool."""
    begun_ms = parse_time(stamp(2)) // 1_000_000  # type: ignore[operator]  # it is a time
    done = {"type": "CommandExecution", "id": "c1", "exit_code": 3, "command": ["make"], "stdout": "RESULTWORD"}
    times = {"started_at_ms": begun_ms + 400, "completed_at_ms": begun_ms + 900}
    rows = [
        codex_meta(0, "one"),
        *(item(1, "function_call", name="shell", call_id=call, arguments="{}") for call in ("c1", "c2", "c3")),
        codex_event(3, "item_completed", item=done, **times),
        codex_event(3, "item_completed", item={**done, "id": "c2"}, completed_at_ms=begun_ms),
        codex_event(3, "item_completed", item={**done, "id": "another"}, **times),
        *(item(5, "function_call_output", call_id=call, output="x") for call in ("c1", "c2", "c3")),
    ]
    (capture,) = read(write_lines(tmp_path / "rollout-1.jsonl", rows))
    measured, *others = capture.tools
    assert (measured.start_ns, measured.end_ns) == ((begun_ms + 400) * 1_000_000, (begun_ms + 900) * 1_000_000)
    assert (measured.timing, measured.duration_ns, measured.is_error) == ("native-duration", 500_000_000, True)
    assert measured.dispatch_ns == 1_900_000_000  # from its call
    assert [(tool.timing, (tool.end_ns or 0) - (tool.start_ns or 0)) for tool in others] == [
        ("transcript-observed", 4 * 10**9)
    ] * 2


def test_a_record_for_each_response_goes_before_every_count(tmp_path: Path) -> None:
    """Shapes c and e: one of each id, beside counts that are left alone; what summed a context up is no response."""

    def record(second: float, response: str, tokens: tuple[int, int], ordinal: int) -> dict[str, Any]:
        usage = {"input_tokens": tokens[0], "output_tokens": tokens[1]}
        return codex_line(second, "token_usage_record", {"response_id": response, "usage": usage}, ordinal=ordinal)

    compacted = {"message": "", "compaction_response_id": "r3", "latest_token_usage_record": {"response_id": "r3"}}
    rows = [
        {**codex_meta(0, "s-e"), "ordinal": 0},
        record(1, "r1", (100, 10), 1),
        codex_count(1.1, (100, 0, 10), (100, 0, 10)),
        record(2, "r1", (100, 10), 1),
        record(3, "r2", (200, 20), 3),
        record(4, "r3", (50, 5), 4),
        codex_line(5, "compacted", compacted, ordinal=5),
        codex_line(5.1, "compacted", compacted, ordinal=6),
        codex_line(6, "world_state", {"x": 1}, ordinal=7),
    ]
    path = write_lines(tmp_path / "rollout-e.jsonl", rows)
    (capture,) = read(path)
    assert sums(capture) == (2, 300, 30)
    assert [usage.input_tokens for _, usage in capture.other_usages] == [50]
    assert len(capture.compactions) == 1
    stream = io.BytesIO()
    write_recording(stream, read_recording(Harness.CODEX, path, True)[0])
    assert read_trace(stream.getvalue()).counters["agentprof.capture|Input tokens"] == [0, 100, 300, 350, 0]


@pytest.mark.parametrize("has_ordinals", [True, False])
def test_what_a_child_replays_of_its_parent_is_left_out(tmp_path: Path, has_ordinals: bool) -> None:
    """Restamped records, a second session_meta among them: below the ordinal, or as far as the totals agree."""
    parent = [codex_meta(0, "p"), codex_event(1, "user_message", message="do it"),
              codex_count(2, (100, 0, 10), (100, 0, 10)), codex_count(3, (250, 0, 30), (150, 0, 20)),
              item(3.1, "function_call", name="spawn_agent", call_id="c", arguments="{}"),
              item(3.2, "function_call_output", call_id="c", output=json.dumps({"agent_id": "c"})),
              codex_count(9, (500, 0, 60), (250, 0, 30))]  # fmt: skip
    write_lines(tmp_path / "rollout-p.jsonl", parent)
    fields: dict[str, Any] = {"source": {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}}
    if has_ordinals:
        fields["subagent_history_start_ordinal"] = 5
    replayed = [codex_meta(4, "p"), codex_event(4, "user_message", message="do it"),
                codex_count(4, (100, 0, 10), (100, 0, 10)), codex_count(4, (250, 0, 30), (150, 0, 20))]  # fmt: skip
    own = [codex_event(5, "user_message", message="sub"), codex_count(6, (250, 0, 30), None),
           codex_count(7, (290, 0, 34), None)]  # fmt: skip
    rows = [codex_meta(4, "c", **fields), *replayed, *own]
    if has_ordinals:
        rows = [{**row, "ordinal": ordinal} for ordinal, row in enumerate(rows)]
    write_lines(tmp_path / "rollout-q.jsonl", rows)
    captures = {capture.session_id: capture for capture in read(tmp_path)}
    assert sums(captures["p"]) == (3, 500, 60)
    assert sums(captures["c"]) == (1, 40, 4)
    assert captures["c"].parent_session == "p"
    assert [prompt.text for prompt in captures["c"].prompts] == ["sub"]
    (tool,) = captures["p"].tools
    assert tool.delegation is not None
    assert tool.delegation.child_session == "c"
    assert captures["p"].fields.get("duplicate_records", 0) == 5


def test_a_forks_baseline_is_its_parents_last_total(tmp_path: Path) -> None:
    """A fork's first total stands on its parent's, and its parent is no parent of a child."""
    history = [codex_count(1, (100, 0, 10), None), codex_count(2, (160, 0, 16), None)]
    write_lines(tmp_path / "rollout-1.jsonl", [codex_meta(0, "p"), *history])
    rows = [codex_meta(5, "f", forked_from_id="p"), *history, codex_count(6, (200, 0, 20), None)]
    write_lines(tmp_path / "rollout-2.jsonl", rows)
    captures = {capture.session_id: capture for capture in read(tmp_path)}
    assert sums(captures["f"]) == (1, 40, 4)
    assert captures["f"].parent_session is None
    assert captures["f"].fields["forked_from"] == "p"
    (alone,) = read(tmp_path / "rollout-2.jsonl")
    assert alone.fields["ancestor_not_imported"] is True


def test_a_history_that_is_named_and_not_replayed_is_a_baseline_too(tmp_path: Path) -> None:
    """Totals go on from the parent's at the ordinal where the fork left it."""
    counts = [codex_count(second, (second * 100, 0, second), None) for second in (1, 2, 3)]
    rows = [{**row, "ordinal": ordinal} for ordinal, row in enumerate([codex_meta(0, "p"), *counts])]
    write_lines(tmp_path / "rollout-1.jsonl", rows)
    base = {"thread_id": "p", "end_ordinal_exclusive": 3}
    meta = codex_meta(5, "f", forked_from_id="p", history_mode="paginated", history_base=base)
    write_lines(tmp_path / "rollout-2.jsonl", [meta, codex_count(6, (230, 0, 9), None)])
    captures = {capture.session_id: capture for capture in read(tmp_path)}
    assert sums(captures["p"]) == (3, 300, 3)
    assert sums(captures["f"]) == (1, 30, 7)


def test_a_compressed_rollout_is_read_unless_it_stands_there_whole(tmp_path: Path) -> None:
    """The plain file wins over its compressed sibling."""
    rows = [codex_meta(0, "z"), codex_count(1, (100, 0, 10), (100, 0, 10))]
    content = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    packed = tmp_path / "rollout-z.jsonl.zst"
    packed.write_bytes(zstandard.ZstdCompressor().compress(content))
    assert sums(*read(packed)) == (1, 100, 10)
    write_lines(tmp_path / "rollout-z.jsonl", [*rows, codex_count(2, (200, 0, 20), (100, 0, 10))])
    assert sums(*read(tmp_path)) == (2, 200, 20)


def test_a_rollout_that_is_archived_too_counts_once(tmp_path: Path) -> None:
    """The longer of two files of one thread is the thread."""
    rows = [codex_meta(0, "z"), codex_count(1, (100, 0, 10), (100, 0, 10)), codex_count(2, (150, 0, 15), (50, 0, 5))]
    write_lines(tmp_path / "archived_sessions" / "rollout-z.jsonl", rows[:2])
    write_lines(tmp_path / "sessions" / "rollout-z.jsonl", rows)
    (capture,) = read(tmp_path)
    assert sums(capture) == (2, 150, 15)
    assert capture.fields["duplicate_records"] == 2


def test_what_exec_prints_is_refused(tmp_path: Path) -> None:
    """`codex exec --json` speaks another grammar."""
    path = write_lines(tmp_path / "out.jsonl", [{"type": "thread.started", "thread_id": "x"}])
    with pytest.raises(RequestError, match="codex exec --json"):
        read(path)


def test_a_source_that_is_a_word_names_no_parent(tmp_path: Path) -> None:
    """`source` and its `subagent` may be texts."""
    for source in ("cli", {"subagent": "review"}):
        (capture,) = read(write_lines(tmp_path / "rollout.jsonl", [codex_meta(0, "s", source=source)]))
        assert capture.parent_session is None
