"""Claude Code's session files: one made file for each shape and each trap, with its right totals."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from agent_sessions import ClaudeLines, stamp, write_lines
from omn_agent.encoding.write import write_recording
from omn_agent.harness import Harness
from omn_agent.importing.read import read_recording
from omn_agent.recording import Capture, Recording
from perfetto_reading import ReadTrace, read_trace

from omn_core.api import RequestError

pytestmark = pytest.mark.spec("AGT-7")


def read(place: Path, has_content: bool = True) -> Recording:
    """Return what a place holds."""
    return read_recording(Harness.CLAUDE, place, has_content)[0]


def sums(*captures: Capture) -> tuple[int, int, int]:
    """Return the responses of captures, and their input and output tokens."""
    usages = [response.usage for capture in captures for response in capture.responses]
    return len(usages), sum(row.input_tokens or 0 for row in usages), sum(row.output_tokens or 0 for row in usages)


def encode(recording: Recording) -> ReadTrace:
    """Return what a recording's file holds."""
    stream = io.BytesIO()
    write_recording(stream, recording)
    return read_trace(stream.getvalue())


def test_a_response_of_several_lines_counts_once_at_its_largest(tmp_path: Path) -> None:
    """Its lines repeat its usage, the first as a placeholder; a cache is beside the input and makes the context."""
    lines = ClaudeLines()
    path = write_lines(
        tmp_path / "s.jsonl",
        [
            lines.user(0, "water the tomatoes"),
            lines.answer(2, "m1", (3, 1), cache=(500, 0)),
            lines.answer(2.5, "m1", (3, 40), cache=(500, 20), calls=[("t1", "Read", {"file_path": "bed.txt"})]),
            lines.result(4, "t1"),
            lines.answer(6, "m2", (5, 9), request="req2", cache=(520, 0), stop_reason=None),
        ],
    )
    recording = read(path)
    (capture,) = recording.captures
    assert sums(capture) == (2, 8, 49)
    assert [(row.cache_read_tokens, row.cache_write_tokens) for row in (r.usage for r in capture.responses)] == [
        (500, 20),
        (520, 0),
    ]
    trace = encode(recording)
    assert trace.counters["agentprof.capture|Input tokens"] == [0, 3, 8, 0]
    assert trace.counters["agentprof.capture|Context size"] == [523, 525, 0]
    profile = trace.one("profile (1)")
    assert profile.args["clock_uncertainty_ns"] == 1_000_000
    assert profile.args["clock"] == "REALTIME"
    assert profile.args["harness_version"] == "2.1.212"
    assert (profile.categories, profile.args["model"]) == (["claude.metadata"], "poppy-5")
    assert not any(row.HasField("process") or row.HasField("thread") for row in trace.descriptors.values())
    assert {packet.timestamp_clock_id for packet in trace.packets if packet.HasField("track_event")} == {1}
    (clocks,) = trace.clocks
    assert list(clocks) == [1]
    assert all(row.is_instant and row.args["start_not_recorded"] for row in trace.named("response"))
    tool = trace.one("Read")
    assert (tool.end or 0) - tool.start == 1_500_000_000
    assert tool.args["timing"] == "transcript-observed"
    prompt = trace.one("prompt")
    assert (prompt.args["text"], (prompt.end or 0) - prompt.start) == ("water the tomatoes", 6_000_000_000)


def test_without_content_no_word_of_the_session_is_kept(tmp_path: Path) -> None:
    """Neither prompt nor argument is there; response text and results never are."""
    lines = ClaudeLines()
    path = write_lines(
        tmp_path / "s.jsonl",
        [
            lines.user(0, "PROMPTWORD"),
            lines.answer(1, "m1", (1, 1), calls=[("t1", "Bash", {"command": "ARGWORD"})]),
            lines.result(2, "t1"),
            lines.answer(3, "m2", (1, 1)),
        ],
    )
    for has_content in (True, False):
        stream = io.BytesIO()
        write_recording(stream, read(path, has_content))
        found = [
            word for word in (b"PROMPTWORD", b"ARGWORD", b"ANSWERWORD", b"RESULTWORD") if word in stream.getvalue()
        ]
        assert found == ([b"PROMPTWORD", b"ARGWORD"] if has_content else [])
        assert encode(read(path, has_content)).one("prompt").args["length"] == 10


def test_a_gateways_lines_without_a_request_are_keyed_by_their_message(tmp_path: Path) -> None:
    """Two lines of one message count once, two messages twice."""
    lines = ClaudeLines()
    rows = [lines.answer(1, "m1", (7, 1), request=None), lines.answer(2, "m1", (7, 5), request=None),
            lines.answer(3, "m2", (2, 2), request=None)]  # fmt: skip
    (capture,) = read(write_lines(tmp_path / "s.jsonl", rows)).captures
    assert sums(capture) == (2, 9, 7)


def test_a_side_question_that_replays_its_parent_counts_only_its_own(tmp_path: Path) -> None:
    """The same message under another request is the parent's, wherever it stands first."""
    lines, side = ClaudeLines(), ClaudeLines(prefix="btw", isSidechain=True)
    path = write_lines(
        tmp_path / "s.jsonl",
        [
            side.answer(1, "m1", (100, 10), request="other"),
            lines.user(0, "q"),
            lines.answer(1, "m1", (100, 10)),
            side.answer(5, "m9", (4, 3), request="own"),
        ],
    )
    main, child = sorted(read(path).captures, key=lambda capture: capture.parent_session or "")
    assert sums(main) == (1, 100, 10)
    assert sums(child) == (1, 4, 3)
    assert child.parent_session == main.session_id


def test_lines_that_a_resume_and_a_compaction_append_again_count_once(tmp_path: Path) -> None:
    """Repeated uuids are dropped although time runs backwards in the file."""
    lines = ClaudeLines()
    first = [lines.user(0, "one"), lines.answer(1, "m1", (10, 1))]
    boundary = lines.make(
        "system", 2, subtype="compact_boundary", compactMetadata={"trigger": "manual", "preTokens": 90}
    )
    summary = lines.user(2.1, "what was said before", isCompactSummary=True)
    later = [lines.user(3, "two"), lines.answer(4, "m2", (20, 2), request="r2")]
    path = write_lines(tmp_path / "s.jsonl", [*first, boundary, summary, *first, *later, *first, boundary])
    recording = read(path)
    (capture,) = recording.captures
    assert sums(capture) == (2, 30, 3)
    assert len(capture.prompts) == 2
    assert [(row.reason, row.tokens_before, row.tokens_after) for row in capture.compactions] == [("manual", 90, None)]
    assert capture.fields["duplicate_records"] == 5
    assert encode(recording).counters["agentprof.capture|Context size"] == [10, 0, 20, 0]


def test_a_summary_without_its_boundary_is_a_compaction(tmp_path: Path) -> None:
    """Older files have only the summary line."""
    lines = ClaudeLines()
    rows = [lines.answer(1, "m1", (1, 1)), lines.user(2, "summed up", isCompactSummary=True), lines.user(3, "on")]
    (capture,) = read(write_lines(tmp_path / "s.jsonl", rows)).captures
    assert len(capture.compactions) == 1
    assert len(capture.prompts) == 1


def test_a_resume_into_another_file_and_a_fork_count_their_history_once(tmp_path: Path) -> None:
    """Lines copied with their uuids belong to the session they were copied from, over the whole folder."""
    lines = ClaudeLines("original")
    history = [lines.user(0, "one"), lines.answer(1, "m1", (10, 1))]
    write_lines(tmp_path / "original.jsonl", history)
    fork = ClaudeLines("forked", prefix="f")
    copied = [{**row, "sessionId": "forked"} for row in history]
    write_lines(tmp_path / "forked.jsonl", [*copied, fork.user(5, "two"), fork.answer(6, "m2", (20, 2))])
    captures = {capture.session_id: capture for capture in read(tmp_path).captures}
    assert sums(captures["original"]) == (1, 10, 1)
    assert sums(captures["forked"]) == (1, 20, 2)
    assert sums(*captures.values()) == (2, 30, 3)


def test_a_second_compaction_appends_what_the_first_one_kept_again(tmp_path: Path) -> None:
    """Each boundary is a compaction, with its summary or without; the lines between count where they first stood."""
    lines = ClaudeLines()
    before = [lines.user(0, "one"), lines.answer(1, "m1", (10, 1), cache=(100, 0))]
    first = [
        lines.make("system", 2, subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 900}),
        lines.user(2.1, "said before", isCompactSummary=True),
    ]
    between = [lines.user(3, "two"), lines.answer(4, "m2", (20, 2), request="r2")]
    kept = {"trigger": "manual", "preTokens": 800, "postTokens": 70}
    second = lines.make("system", 5, subtype="compact_boundary", compactMetadata=kept, logicalParentUuid="u5")
    after = [lines.answer(7, "m3", (30, 3), request="r3")]
    rows = [*before, *first, *between, second, *first, *between, *after]
    (capture,) = read(write_lines(tmp_path / "s.jsonl", rows)).captures
    assert sums(capture) == (3, 60, 6)
    assert [(row.reason, row.tokens_before, row.tokens_after) for row in capture.compactions] == [
        ("auto", 900, None),
        ("manual", 800, 70),
    ]
    assert len(capture.prompts) == 2
    assert capture.fields["duplicate_records"] == 4
    trace = encode(read(tmp_path / "s.jsonl"))
    assert trace.counters["agentprof.capture|Input tokens"] == [0, 10, 30, 60, 0]
    assert trace.counters["agentprof.capture|Context size"] == [110, 0, 20, 70, 30, 0]
    assert trace.one("profile (1)").args["peak_context_tokens"] == 900


def test_a_fork_is_no_owner_of_what_it_says_it_copied(tmp_path: Path) -> None:
    """Also where its original went on for longer; one whose original is not there counts what it copied itself."""
    lines = ClaudeLines("original")
    history = [lines.user(0, "one"), lines.answer(1, "m1", (10, 1))]
    write_lines(tmp_path / "original.jsonl", [*history, lines.answer(90, "m9", (5, 5), request="r9")])
    fork = ClaudeLines("forked", prefix="f")
    origin = {"sessionId": "original", "messageUuid": "u1"}
    copied = [{**row, "sessionId": "forked", "forkedFrom": origin} for row in history]
    write_lines(tmp_path / "forked.jsonl", [*copied, fork.user(5, "two"), fork.answer(6, "m2", (20, 2), request="r2")])
    captures = {capture.session_id: capture for capture in read(tmp_path).captures}
    assert (sums(captures["original"]), sums(captures["forked"])) == ((2, 15, 6), (1, 20, 2))
    assert captures["forked"].fields["forked_from"] == "original"
    assert "ancestor_not_imported" not in captures["forked"].fields
    (alone,) = read(tmp_path / "forked.jsonl").captures
    assert (sums(alone), alone.fields["ancestor_not_imported"]) == ((2, 30, 3), True)


def test_a_child_that_was_sent_into_the_background_goes_on_after_its_launch(tmp_path: Path) -> None:
    """Its tool is over when it was launched, without tokens of its own; what the child used is the child's."""
    main = ClaudeLines("parent")
    launched = {"isAsync": True, "status": "async_launched", "agentId": "bg1"}
    rows = [
        main.answer(1, "m1", (1, 1), calls=[("t1", "Agent", {"prompt": "dig", "subagent_type": "digger"})]),
        main.result(1.5, "t1", toolUseResult=launched),
        main.answer(2, "m2", (2, 2), request="r2"),
    ]
    write_lines(tmp_path / "parent.jsonl", rows)
    child = ClaudeLines("parent", prefix="c", isSidechain=True, agentId="bg1")
    write_lines(
        tmp_path / "parent" / "subagents" / "agent-bg1.jsonl",
        [child.user(1.6, "dig"), child.answer(50, "k1", (40, 4), request="k")],
    )
    parent, background = read(tmp_path / "parent.jsonl").captures
    (tool,) = parent.tools
    assert tool.delegation is not None
    assert (tool.delegation.child_session, (tool.end_ns or 0) - (tool.start_ns or 0)) == ("agent-bg1", 500_000_000)
    assert tool.usage.input_tokens is None
    assert (sums(parent), sums(background)) == ((2, 3, 3), (1, 40, 4))
    assert (background.end_ns or 0) > (parent.end_ns or 0)


def test_children_are_captures_of_their_own_linked_to_their_launch(tmp_path: Path) -> None:
    """A child's file beside its parent's, its launch found by the result or by the file that describes it."""
    main = ClaudeLines("parent")
    write_lines(
        tmp_path / "parent.jsonl",
        [
            main.user(0, "do both"),
            main.answer(1, "m1", (1, 1), calls=[("t1", "Task", {"subagent_type": "digger", "prompt": "dig"}),
                                               ("t2", "Agent", {"prompt": "sow"})]),
            main.result(9, "t1", toolUseResult={"agentId": "aa1", "usage": {"input_tokens": 999}}),
            main.result(9.5, "t2"),
        ],
    )  # fmt: skip
    for agent, prompt in (("aa1", "dig"), ("bb2", "sow")):
        child = ClaudeLines("parent", prefix=agent, isSidechain=True, agentId=agent)
        rows = [child.user(2, prompt), child.answer(3, f"m-{agent}", (50, 5))]
        write_lines(tmp_path / "parent" / "subagents" / f"agent-{agent}.jsonl", rows)
    meta = tmp_path / "parent" / "subagents" / "agent-bb2.meta.json"
    meta.write_text(json.dumps({"agentType": "sower", "toolUseId": "t2"}))
    recording = read(tmp_path / "parent.jsonl")
    assert [capture.session_id for capture in recording.captures] == ["parent", "agent-aa1", "agent-bb2"]
    assert sums(*recording.captures) == (3, 101, 11)
    trace = encode(recording)
    assert [capture.fields.get("role") for capture in recording.captures] == [None, "digger", "sower"]
    task, agent = trace.one("Task"), trace.one("Agent")
    assert (task.args["child_session"], agent.args["child_session"]) == ("agent-aa1", "agent-bb2")
    assert (task.args["subagent_type"], agent.args["subagent_type"]) == ("digger", "sower")
    inputs = [row for row in trace.named("prompt-input") if set(row.flows) & {*task.flows, *agent.flows}]
    assert len(inputs) == 2
    children = [row for row in trace.slices if row.name.startswith("profile") and "parent_session" in row.args]
    assert [row.args["parent_session"] for row in children] == ["parent", "parent"]


def test_a_childs_file_beside_its_sessions_comes_with_it(tmp_path: Path) -> None:
    """Older versions kept every child of a folder there: only those of the session that was named are read."""
    write_lines(tmp_path / "parent.jsonl", [ClaudeLines("parent").answer(1, "m1", (1, 1))])
    for agent, owner in (("a1", "parent"), ("a2", "stranger")):
        child = ClaudeLines(owner, prefix=agent, isSidechain=True, agentId=agent)
        write_lines(tmp_path / f"agent-{agent}.jsonl", [child.answer(2, f"m-{agent}", (50, 5))])
    captures = read(tmp_path / "parent.jsonl").captures
    assert [(row.session_id, row.parent_session) for row in captures] == [("parent", None), ("agent-a1", "parent")]


def test_an_inline_side_chain_is_found_by_its_prompt(tmp_path: Path) -> None:
    """Older files hold a child's lines among the parent's, without its id."""
    main, side = ClaudeLines("parent"), ClaudeLines("parent", prefix="s", isSidechain=True)
    rows = [
        main.answer(1, "m1", (1, 1), calls=[("t1", "Task", {"prompt": "count the seeds"})]),
        side.user(2, "count the seeds"),
        side.answer(3, "m2", (30, 3)),
        main.result(4, "t1"),
    ]
    parent, child = read(write_lines(tmp_path / "parent.jsonl", rows)).captures
    (tool,) = parent.tools
    assert tool.delegation is not None
    assert tool.delegation.child_session == child.session_id
    assert (sums(parent), sums(child)) == ((1, 1, 1), (1, 30, 3))


def test_only_a_nested_split_of_the_written_cache_is_summed(tmp_path: Path) -> None:
    """Some versions wrote 0 beside the split."""
    line = ClaudeLines().answer(1, "m1", (1, 1))
    line["message"]["usage"]["cache_creation"] = {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 12}
    (capture,) = read(write_lines(tmp_path / "s.jsonl", [line])).captures
    assert capture.responses[0].usage.cache_write_tokens == 42


def test_interrupted_work_is_incomplete_and_controls_are_no_prompts(tmp_path: Path) -> None:
    """A tool without its result ends with the capture, its prompt where the next begins; commands count as nothing."""
    lines = ClaudeLines()
    rows = [
        lines.user(0, "first"),
        lines.answer(1, "m1", (1, 1), calls=[("t1", "Bash", {"command": "sleep"})]),
        lines.user(3, "[Request interrupted by user for tool use]"),
        lines.user(4, "<command-name>/clear</command-name>"),
        lines.user(5, "notes", isMeta=True),
        lines.user(6, "second"),
        lines.answer(8, "m2", (1, 1), effort={"level": "high"}),
    ]
    trace = encode(read(write_lines(tmp_path / "s.jsonl", rows)))
    first, second = trace.named("prompt")
    assert (first.args["incomplete"], first.end) == (True, second.start)
    assert "incomplete" not in second.args
    cut = trace.one("Bash")
    assert cut.args["incomplete"] is True
    assert (cut.end or 0) - cut.start == 2_000_000_000
    assert trace.one("run-configuration").args["effort"] == "high"


def test_tools_that_never_ended_take_no_lane_for_good(tmp_path: Path) -> None:
    """A hundred of them, one a prompt, are over with their prompt: each is drawn, and none is left out."""
    lines = ClaudeLines()
    rows = []
    for index in range(100):
        rows.append(lines.user(index * 2, "again"))
        rows.append(lines.answer(index * 2 + 1, f"m{index}", (1, 1), calls=[(f"t{index}", "Bash", {})]))
    trace = encode(read(write_lines(tmp_path / "s.jsonl", rows)))
    cut = trace.named("Bash")
    assert len(cut) == 100
    assert all(row.args["incomplete"] for row in cut)
    assert {(row.end or 0) - row.start for row in cut[:-1]} == {1_000_000_000}
    assert "agentprof.capture|Tracing|Lane overflows" not in trace.counters


def test_what_is_no_record_is_counted_and_nothing_else_is_lost(tmp_path: Path) -> None:
    """A torn last line, one that is no object, a kind that nobody knows, an error written as a message."""
    lines = ClaudeLines()
    synthetic = lines.answer(2, "m0", (0, 0))
    synthetic["message"]["model"] = "<synthetic>"
    rows: list[Any] = [
        {"type": "summary", "summary": "x"},
        *({"type": kind} for kind in ("file-history-snapshot", "queue-operation", "attachment")),
        {"type": "hologram", "timestamp": stamp(1)},
        "[1, 2]\n",
        "\n",
        lines.user(1, "with a \u2028 in it"),
        synthetic,
        {**lines.answer(3, "m1", (1, 1)), "timestamp": "yesterday"},
        lines.answer(3, "m2", (4, 4)),
        '{"type": "assistant", "uuid": "torn',
    ]
    (capture,) = read(write_lines(tmp_path / "s.jsonl", rows)).captures
    assert sums(capture) == (1, 4, 4)
    assert len(capture.prompts) == 1
    counted = {name: capture.fields[name] for name in ("malformed_lines", "unknown_lines", "untimed_records")}
    assert counted == capture.fields["losses"] == {"malformed_lines": 2, "unknown_lines": 1, "untimed_records": 1}
    assert capture.fields["synthetic_messages"] == 1


def test_a_place_without_a_session_is_refused(tmp_path: Path) -> None:
    """Nothing there, nothing in the folder, nothing with a time."""
    with pytest.raises(RequestError, match="is not there"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(RequestError, match="no session's file"):
        read(tmp_path)
    with pytest.raises(RequestError, match="says when it happened"):
        read(write_lines(tmp_path / "s.jsonl", [{"type": "user"}]))
