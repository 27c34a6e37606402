"""Pi's session files: one made file for each version and each trap, with its right totals."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from agent_sessions import stamp, write_lines
from omn_agent.encoding.write import write_recording
from omn_agent.harness import Harness
from omn_agent.importing.read import read_recording
from omn_agent.recording import Capture
from perfetto_reading import ReadTrace, read_trace

from omn_core.api import RequestError

pytestmark = pytest.mark.spec("AGT-7")


def header(session: str, version: int | None = 3, **fields: Any) -> dict[str, Any]:
    """Return a file's first line."""
    versioned = {} if version is None else {"version": version}
    return {"type": "session", **versioned, "id": session, "timestamp": stamp(0), "cwd": "/work", **fields}


def entry(second: float, what: str, **fields: Any) -> dict[str, Any]:
    """Return an entry."""
    return {"type": what, "timestamp": stamp(second), **fields}


def user(second: float, text: str, **fields: Any) -> dict[str, Any]:
    """Return what a person typed."""
    return entry(second, "message", message={"role": "user", "content": [{"type": "text", "text": text}]}, **fields)


def answer(
    second: float, tokens: tuple[int, int], calls: Any = (), reason: str = "stop", **fields: Any
) -> dict[str, Any]:
    """Return a response: (input, output) beside 100 read from the cache, and calls as (id, name, arguments)."""
    usage = {"input": tokens[0], "output": tokens[1], "cacheRead": 100, "cacheWrite": 0,
             "totalTokens": sum(tokens) + 100}  # fmt: skip
    content = [{"type": "toolCall", "id": call, "name": name, "arguments": args} for call, name, args in calls]
    message = {"role": "assistant", "model": "moss-2", "provider": "garden", "content": content, "usage": usage,
               "stopReason": reason}  # fmt: skip
    return entry(second, "message", message=message, **fields)


def read(place: Path) -> list[Capture]:
    """Return what a place holds."""
    return read_recording(Harness.PI, place, True)[0].captures


def encode(place: Path) -> ReadTrace:
    """Return what the import of a place writes."""
    stream = io.BytesIO()
    write_recording(stream, read_recording(Harness.PI, place, True)[0])
    return read_trace(stream.getvalue())


def sums(*captures: Capture) -> tuple[int, int, int]:
    """Return the responses of captures, and their input and output tokens."""
    usages = [response.usage for capture in captures for response in capture.responses]
    return len(usages), sum(row.input_tokens or 0 for row in usages), sum(row.output_tokens or 0 for row in usages)


@pytest.mark.parametrize("version", [None, 1])
def test_the_first_version_is_one_branch_without_ids(tmp_path: Path, version: int | None) -> None:
    """Entries stand one after another, and the version may be unsaid."""
    rows = [header("s1", version), user(1, "hoe"), answer(2, (10, 1)), entry(3, "hookMessage"), answer(4, (20, 2))]
    (capture,) = read(write_lines(tmp_path / "s.jsonl", rows))
    assert sums(capture) == (2, 30, 3)
    assert [tokens for _, tokens in capture.samples.context_tokens] == [111, 122]


@pytest.mark.parametrize("version", [2, 3])
def test_an_abandoned_branch_was_paid_for_and_is_no_context(tmp_path: Path, version: int) -> None:
    """Tokens are of every branch; the context is of the one that the file ends on."""
    rows = [
        header("s", version),
        user(1, "try", id="a", parentId=None),
        answer(2, (10, 1), id="b", parentId="a"),
        answer(3, (50, 5), id="c", parentId="b"),
        user(4, "again", id="d", parentId="b"),
        answer(5, (20, 2), id="e", parentId="d"),
        entry(6, "label", id="f", parentId="e"),
    ]
    (capture,) = read(write_lines(tmp_path / "s.jsonl", rows))
    assert sums(capture) == (3, 80, 8)
    assert [tokens for _, tokens in capture.samples.context_tokens] == [111, 122]


def test_several_roots_are_several_beginnings(tmp_path: Path) -> None:
    """Every one was paid for; the context is of the branch that the file ends on."""
    rows = [header("s"), user(1, "one", id="a", parentId=None), answer(2, (10, 1), id="b", parentId="a"),
            user(3, "two", id="c", parentId=None), answer(4, (20, 2), id="d", parentId="c")]  # fmt: skip
    (capture,) = read(write_lines(tmp_path / "s.jsonl", rows))
    assert sums(capture) == (2, 30, 3)
    assert [tokens for _, tokens in capture.samples.context_tokens] == [122]
    assert [prompt.text for prompt in capture.prompts] == ["one", "two"]


def test_tokens_inside_others_are_added_to_nothing(tmp_path: Path) -> None:
    """Reasoning is inside the output, an hour's cache inside what was written; a cost is no token."""
    row = answer(1, (10, 7))
    row["message"]["usage"] |= {"reasoning": 5, "cacheWrite": 9, "cacheWrite1h": 4, "cost": {"total": 1.5}}
    (capture,) = read(write_lines(tmp_path / "s.jsonl", [header("s"), row]))
    usage = capture.responses[0].usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_write_tokens) == (10, 7, 9)


def test_how_a_response_ended_is_told_in_pis_word(tmp_path: Path) -> None:
    """Whatever it is; what was aborted cuts its prompt off."""
    reasons = ("stop", "length", "toolUse", "error", "deferred", "aborted")
    rows = [header("s"), user(0.5, "x"), *(answer(at, (1, 1), reason=reason) for at, reason in enumerate(reasons, 1))]
    trace = encode(write_lines(tmp_path / "s.jsonl", rows))
    assert [row.args["stop_reason"] for row in trace.named("response")] == list(reasons)
    assert trace.one("prompt").args["incomplete"] is True


def test_a_fork_counts_what_it_copied_in_its_parent(tmp_path: Path) -> None:
    """Copied entries keep their ids, labels are chained anew; the same id in a stranger's file is another entry."""
    copied = [user(1, "one", id="a", parentId=None), answer(2, (10, 1), id="b", parentId="a")]
    write_lines(tmp_path / "2026_parent.jsonl", [header("parent"), *copied, answer(3, (30, 3), id="c", parentId="b")])
    fork = [header("fork", parentSession="/elsewhere/2026_parent.jsonl"), *copied,
            entry(2, "label", id="b9", parentId="b"), answer(5, (20, 2), id="d", parentId="b9")]  # fmt: skip
    write_lines(tmp_path / "2026_fork.jsonl", fork)
    write_lines(tmp_path / "2026_stranger.jsonl", [header("stranger"), answer(2, (7, 7), id="b", parentId=None)])
    captures = {capture.session_id: capture for capture in read(tmp_path)}
    assert sums(captures["parent"]) == (2, 40, 4)
    assert sums(captures["fork"]) == (1, 20, 2)
    assert sums(captures["stranger"]) == (1, 7, 7)
    assert captures["fork"].fields["forked_from"] == "2026_parent"
    assert captures["fork"].parent_session is None
    (alone,) = read(tmp_path / "2026_fork.jsonl")
    assert alone.fields["ancestor_not_imported"] is True


def test_a_copied_file_counts_once(tmp_path: Path) -> None:
    """The longer of two files of one session is the session."""
    rows = [header("s"), answer(1, (10, 1), id="a"), answer(2, (20, 2), id="b", parentId="a")]
    write_lines(tmp_path / "one.jsonl", rows)
    write_lines(tmp_path / "two.jsonl", rows[:2])
    (capture,) = read(tmp_path)
    assert sums(capture) == (2, 30, 3)


def test_what_a_tool_reports_holds_its_nested_calls(tmp_path: Path) -> None:
    """The result's usage counts once; nested calls are completions of known length, and no tokens of their own."""
    result = {
        "role": "toolResult", "toolCallId": "t1", "toolName": "run", "isError": False,
        "usage": {"input": 40, "output": 4},
        "nestedCalls": [{"id": "t1/0", "name": "read", "status": "ok", "durationMs": 12},
                        {"id": "t1/1", "name": "edit", "status": "error"}],
    }  # fmt: skip
    rows = [
        header("s"),
        answer(1, (10, 1), [("t1", "run", {"code": "x"})], "toolUse"),
        entry(3, "message", message=result),
    ]
    path = write_lines(tmp_path / "s.jsonl", rows)
    trace = encode(path)
    assert trace.counters["agentprof.capture|Input tokens"] == [0, 10, 50, 0]
    run = trace.one("run")
    assert (run.end or 0) - run.start == 2_000_000_000
    nested = trace.named("tool-result")
    assert [(row.args["name"], row.args["parent_call_id"], row.args["is_error"]) for row in nested] == [
        ("read", "t1", False),
        ("edit", "t1", True),
    ]
    assert nested[0].args["duration_ns"] == 12_000_000
    assert all(row.args["start_not_recorded"] for row in nested)


def test_nested_calls_that_pi_did_not_keep_are_said(tmp_path: Path) -> None:
    """What it keeps of them is bounded, and says where that is not all."""
    nested = {"complete": False, "calls": [{"id": "t1/1", "name": "read", "status": "ok", "durationMs": 3}]}
    result = {"role": "toolResult", "toolCallId": "t1", "toolName": "run", "isError": False, "nestedCalls": nested}
    rows = [header("s"), answer(1, (1, 1), [("t1", "run", {})], "toolUse"), entry(3, "message", message=result)]
    (capture,) = read(write_lines(tmp_path / "s.jsonl", rows))
    assert capture.fields["cut_nested_calls"] == 1
    assert [(tool.name, tool.parent_call_id) for tool in capture.tools] == [("run", None), ("read", "t1")]


def test_tokens_beside_the_responses_are_counted(tmp_path: Path) -> None:
    """A warmed cache, a branch's summary, a compaction: in the counters, and no responses."""
    rows = [
        header("s"),
        answer(1, (10, 1)),
        entry(2, "usage", kind="cache_warm", usage={"input": 5, "output": 0}),
        entry(3, "branch_summary", usage={"input": 6, "output": 1}),
        entry(4, "compaction", firstKeptEntryId="x", tokensBefore=800, usage={"input": 7, "output": 2}),
        answer(5, (20, 2)),
    ]
    path = write_lines(tmp_path / "s.jsonl", rows)
    (capture,) = read(path)
    assert len(capture.responses) == 2
    trace = encode(path)
    assert trace.counters["agentprof.capture|Input tokens"] == [0, 10, 15, 21, 28, 48, 0]
    assert trace.counters["agentprof.capture|Context size"] == [111, 0, 122, 0]
    assert trace.one("profile (1)").args["peak_context_tokens"] == 800
    assert trace.one("compact").args["tokens_before"] == 800
    assert "tokens_after" not in trace.one("compact").args


def test_a_persons_command_is_an_executable_and_a_length(tmp_path: Path) -> None:
    """What it said is not taken; a first word that is no name of a program is not either."""
    rows = [header("s")]
    rows += [entry(at, "message", message={"role": "bashExecution", "command": command})
             for at, command in ((1, "/bin/grep SECRETWORD file"), (2, "$(SECRETWORD) x"))]  # fmt: skip
    path = write_lines(tmp_path / "s.jsonl", rows)
    first, second = encode(path).named("user_bash")
    assert first.args == {"executable": "grep", "length": 25}
    assert second.args == {"length": 15}
    stream = io.BytesIO()
    write_recording(stream, read_recording(Harness.PI, path, True)[0])
    assert b"SECRETWORD" not in stream.getvalue()


def test_configurations_change_where_they_were_worked_with(tmp_path: Path) -> None:
    """The first is the capture's own; a later one is a span until the end."""
    rows = [
        header("s"),
        entry(0.1, "model_change", provider="garden", modelId="moss-1"),
        entry(0.2, "thinking_level_change", thinkingLevel="high"),
        user(1, "a"),
        answer(2, (1, 1)),
        answer(3, (1, 1), reason="aborted"),
    ]
    trace = encode(write_lines(tmp_path / "s.jsonl", rows))
    profile = trace.one("profile (1)").args
    assert (profile["model"], profile["provider"], profile["effort"]) == ("moss-1", "garden", "high")
    change = trace.one("run-configuration").args
    assert (change["model"], change["effort"]) == ("moss-2", "high")
    assert trace.one("prompt").args["incomplete"] is True


def test_lines_end_at_lf_alone(tmp_path: Path) -> None:
    """U+2028 and its like are text."""
    rows = [header("s"), user(1, "a\u2028b\u0085c"), answer(2, (1, 1))]
    (capture,) = read(write_lines(tmp_path / "s.jsonl", rows))
    assert capture.prompts[0].text == "a\u2028b\u0085c"
    assert capture.fields["malformed_lines"] == 0


def test_another_version_is_refused(tmp_path: Path) -> None:
    """A file of a version that nobody knows, or of something else, is no session of Pi."""
    for first in (header("s", 4), {"type": "user"}):
        with pytest.raises(RequestError, match="does not begin as a session of Pi"):
            read(write_lines(tmp_path / "s.jsonl", [first]))
