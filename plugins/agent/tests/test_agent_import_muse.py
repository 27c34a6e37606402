"""Muse Code's session log: made files by the descriptions that others made of it, with their right totals."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from agent_sessions import write_lines
from omn_agent.encoding.write import write_recording
from omn_agent.harness import Harness
from omn_agent.importing.read import read_recording
from omn_agent.recording import Capture
from perfetto_reading import read_trace

from omn_core.api import RequestError

pytestmark = pytest.mark.spec("AGT-7")

BEGIN_US = 1_772_355_600_000_000


class Log:
    """Events of one stream."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.sequence = 0

    def make(self, ms: int, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Return an event."""
        self.sequence += 1
        return {
            "schema_version": 1, "id": f"{self.stream}-{self.sequence}",
            "stream": {"kind": "session", "id": self.stream},
            "sequence": self.sequence, "recorded_at": BEGIN_US + ms * 1000, "payload_type": kind, "payload": payload,
        }  # fmt: skip

    def run(self, ms: int, what: str, **fields: Any) -> dict[str, Any]:
        """Return a run's event."""
        return self.make(ms, "runtime.session", {"kind": "run", "run_id": "r", "event": {"kind": what, **fields}})

    def completed(
        self, ms: int, tokens: tuple[int, int], duration_ms: int | None = 500, **fields: Any
    ) -> dict[str, Any]:
        """Return a response's event, 30 of its input cached."""
        usage = {"input_tokens": tokens[0], "output_tokens": tokens[1], "cached_tokens": 30}
        duration = {} if duration_ms is None else {"duration_ms": duration_ms}
        return self.run(ms, "model_completed", usage=usage, **duration, **{"model": "lichen", **fields})


def read(place: Path) -> list[Capture]:
    """Return what a place holds."""
    return read_recording(Harness.MUSE, place, True)[0].captures


def sums(capture: Capture) -> tuple[int, int, int]:
    """Return a capture's responses, and their input and output tokens."""
    usages = [response.usage for response in capture.responses]
    return len(usages), sum(row.input_tokens or 0 for row in usages), sum(row.output_tokens or 0 for row in usages)


def make_session(log: Log) -> list[dict[str, Any]]:
    """Return a session with one prompt, one tool and two responses."""
    call = {"id": "x", "call_id": "c1", "name": "bash", "args": json.dumps({"command": "ls"})}
    return [
        log.make(0, "runtime.session.metadata", {"record": {"model_id": "lichen", "build": {"semver": "1.4.3"}}}),
        log.run(10, "started", prompt="mulch the bed"),
        log.run(1_000, "assistant_tool_calls_committed", tool_calls=[call]),
        log.completed(1_010, (200, 20)),
        log.run(1_500, "tool_result_batch_committed", results=[{"tool_call_id": "c1", "text": "RESULTWORD"}]),
        log.completed(2_500, (300, 30)),
        log.run(2_600, "terminal", terminal="completed"),
    ]


def test_a_response_stands_before_its_stamp_by_what_the_harness_measured(tmp_path: Path) -> None:
    """Native durations reach back from the completion; input holds the cache; nothing is verified, and that is said."""
    log = Log("s1")
    path = write_lines(tmp_path / "s1" / "session.jsonl", [*make_session(log), log.completed(3_000, (1, 1), None)])
    (capture,) = read(path)
    assert sums(capture) == (3, 501, 51)
    stream = io.BytesIO()
    write_recording(stream, read_recording(Harness.MUSE, path, True)[0])
    trace = read_trace(stream.getvalue())
    first, second, third = trace.named("response")
    assert (first.end or 0) - first.start == 500_000_000
    assert first.args["timing"] == "native-duration"
    assert "first_content_ns" not in first.args
    assert second.args["cache_read_tokens"] == 30
    assert third.is_instant
    assert trace.counters["agentprof.capture|Context size"] == [200, 300, 1, 0]
    profile = trace.one("profile (1)").args
    assert (profile["unverified"], profile["harness_version"], profile["model"]) == (True, "1.4.3", "lichen")
    bash = trace.one("bash")
    assert (bash.args["args"], (bash.end or 0) - bash.start) == ({"command": "ls"}, 500_000_000)
    assert b"RESULTWORD" not in stream.getvalue()
    assert trace.one("prompt").args["text"] == "mulch the bed"


def test_a_mirrored_child_counts_once_in_its_own_session(tmp_path: Path) -> None:
    """The parent's file repeats the child's events under the child's stream, and aggregates repeat them again."""
    parent, child = Log("s1"), Log("kid")
    rows = [child.run(600, "started", prompt="sub"), child.completed(1_200, (40, 4), model="same-as-main")]
    attribution = parent.make(1_300, "runtime.goal_usage_attribution", {"usage": {"input_tokens": 40}})
    lifecycle = parent.make(1_400, "runtime.workflow_child_lifecycle", {"usage": {"input_tokens": 40}})
    begun = make_session(parent)
    write_lines(tmp_path / "s1" / "session.jsonl", [*begun[:3], *rows, *begun[3:], attribution, lifecycle])
    write_lines(tmp_path / "s1" / "subagent" / "kid" / "session.jsonl", rows)
    captures = {capture.session_id: capture for capture in read(tmp_path)}
    assert sums(captures["s1"]) == (2, 500, 50)
    assert sums(captures["kid"]) == (1, 40, 4)
    assert captures["kid"].parent_session == "s1"
    assert len(captures["kid"].prompts) == 1
    alone = {capture.session_id: sums(capture) for capture in read(tmp_path / "s1" / "session.jsonl")}
    assert alone == {"s1": (2, 500, 50), "kid": (1, 40, 4)}


@pytest.mark.spec("AGT-9")
def test_what_a_log_lacks_is_counted_in_its_session(tmp_path: Path) -> None:
    """Numbers that no event has, whoever's the mirrored ones are, and a child whose own log is not there."""
    parent, child = Log("s1"), Log("kid")
    rows = [child.run(600, "started", prompt="sub"), child.completed(1_200, (40, 4))]
    begun = make_session(parent)
    write_lines(tmp_path / "s1" / "session.jsonl", [*begun[:2], *rows, *begun[5:]])
    (whole, kid) = sorted(read(tmp_path), key=lambda capture: capture.parent_session is not None)
    assert (whole.fields["missing_journal_records"], whole.fields["unavailable_child_sessions"]) == (3, 1)
    assert (kid.session_id, "missing_journal_records" in kid.fields) == ("kid", False)
    write_lines(tmp_path / "s1" / "subagent" / "kid" / "session.jsonl", rows)
    mirrored = [{**row, "sequence": number} for row, number in zip(rows, (3, 4), strict=True)]
    write_lines(tmp_path / "s1" / "session.jsonl", [*begun[:2], *mirrored, *begun[4:]])
    for capture in read(tmp_path):
        assert not {"missing_journal_records", "unavailable_child_sessions"} & capture.fields.keys()


@pytest.mark.spec("AGT-8")
def test_without_content_the_length_of_an_input_stays(tmp_path: Path) -> None:
    """Muse keeps an input as a text, whose units are counted; with content the input itself is there."""
    write_lines(tmp_path / "s1" / "session.jsonl", make_session(Log("s1")))
    for has_content in (True, False):
        stream = io.BytesIO()
        write_recording(stream, read_recording(Harness.MUSE, tmp_path, has_content)[0])
        args = read_trace(stream.getvalue()).one("bash").args
        assert (args.get("args"), args.get("length")) == (
            ({"command": "ls"}, None) if has_content else (None, len('{"command": "ls"}'))
        )


def test_frames_that_were_retained_are_unwrapped(tmp_path: Path) -> None:
    """An event that a frame holds as text is the same event."""
    log = Log("s1")
    rows = make_session(log)
    frame = {**log.make(5_000, "retained_frame", {}), "children": [{"record_json": json.dumps(row)} for row in rows]}
    (capture,) = read(write_lines(tmp_path / "s1" / "session.jsonl", [*rows[:4], frame]))
    assert sums(capture) == (2, 500, 50)
    assert capture.fields["duplicate_records"] == 4


def test_a_session_as_others_saw_one_is_read(tmp_path: Path) -> None:
    """It begins with a frame that has no schema; models are configured, tokens attributed again, people steer."""
    log = Log("s1")
    usage = {"input_tokens": 200, "output_tokens": 20, "cached_tokens": 30}
    format_declared = log.make(0, "runtime.session.permission_format_declared", {"format": "profile_v1"})
    frame = {"retained_frame": "permissions", "children": [{"record_json": json.dumps(format_declared)}]}
    attributed = {"usage_family": "provider", "usage_id": "u", "quantity": usage}

    def accept(ms: int, intent: str, text: str) -> dict[str, Any]:
        blocks = [{"kind": "text", "text": text}]
        payload = {"intent_id": intent, "surface": "main", "refill_blocks": blocks}
        return log.make(ms, "runtime.user_intent.accepted", payload)

    def materialize(ms: int, intent: str, outcome: str) -> dict[str, Any]:
        payload = {"intent_id": intent, "outcome": {"kind": outcome, "run_id": "r"}}
        return log.make(ms, "runtime.user_intent.materialized", payload)

    report = json.dumps({"command": "make", "exit_code": 2, "output": "RESULTWORD"})
    calls = [{"call_id": call, "name": "bash", "args": "{}"} for call in ("c1", "c2")]
    rows = [
        frame,
        log.make(1, "runtime.session.metadata", {"kind": "metadata", "record": {"provider_id": "meadow"}}),
        log.make(2, "run.model.configured", {"record": {"model_id": "lichen", "run_stream": {"id": "r"}}}),
        accept(5, "i1", "mulch"),
        log.run(6, "started", prompt="mulch"),
        materialize(7, "i1", "top_level_turn_started"),
        log.run(8, "started", task_id="t"),
        log.run(20, "assistant_tool_calls_committed", tool_calls=calls),
        accept(30, "i2", "and prune"),
        materialize(31, "i2", "active_run_delivery"),
        accept(32, "i3", "or not"),
        materialize(33, "i3", "terminal_no_effect"),
        log.run(40, "tool_result_batch_committed", results=[{"tool_call_id": "c1", "text": report},
                                                           {"tool_call_id": "c2", "text": "plain"}]),
        log.run(50, "model_completed", usage=usage, model="same-as-main"),
        log.run(51, "goal_usage_attribution", record=attributed),
        log.make(60, "session.name.changed", {"new_name": "x", "source": "automatic"}),
    ]  # fmt: skip
    (capture,) = read(write_lines(tmp_path / "s1" / "session.jsonl", rows))
    assert sums(capture) == (1, 200, 20)
    assert [prompt.text for prompt in capture.prompts] == ["mulch", "and prune"]
    assert [tool.is_error for tool in capture.tools] == [True, None]
    assert [(row.model, row.provider) for row in (capture.configuration, capture.responses[0])] == [
        ("lichen", "meadow"),
        ("lichen", None),
    ]
    assert (capture.fields["unknown_lines"], capture.fields["untimed_records"]) == (0, 0)


def test_a_fork_that_numbers_its_events_anew_counts_them_once(tmp_path: Path) -> None:
    """The same words at the same microsecond are the same event, whatever ids a copy has."""
    log = Log("s1")
    rows = make_session(log)
    write_lines(tmp_path / "s1" / "session.jsonl", rows)
    copied = [{**row, "id": f"f{place}", "stream": {"kind": "session", "id": "s2"}} for place, row in enumerate(rows)]
    own = Log("s2").completed(9_000, (7, 7))
    write_lines(tmp_path / "s2" / "session.jsonl", [*copied, own])
    captures = {capture.session_id: capture for capture in read(tmp_path)}
    assert (sums(captures["s1"]), sums(captures["s2"])) == ((2, 500, 50), (1, 7, 7))


def test_a_cancelled_run_is_incomplete(tmp_path: Path) -> None:
    """A terminal event that says so cuts its prompt off."""
    log = Log("s1")
    rows = [log.run(0, "started", prompt="p"), log.completed(900, (1, 1)),
            log.run(950, "terminal", terminal="cancelled"),
            log.run(960, "started", prompt="q"), log.completed(990, (1, 1), 5)]  # fmt: skip
    first, second = read(write_lines(tmp_path / "s1" / "session.jsonl", rows))[0].prompts
    assert first.end_ns is None
    assert second.end_ns is not None


def test_another_document_is_refused(tmp_path: Path) -> None:
    """What `muse export` prints, or a log of another schema, is not guessed at."""
    for row in ({"session": {}, "transcript": []}, {**Log("s").run(0, "started"), "schema_version": 7}):
        with pytest.raises(RequestError, match="no session of Muse that is known"):
            read(write_lines(tmp_path / "s1" / "session.jsonl", [row]))
