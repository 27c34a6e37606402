"""Pi, recorded by the extension that it loads for one launch: a stand-in for Pi runs the real extension in node."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_recording import Bench, kill, make_pi_bench, read_maxima
from omn_agent.content import is_content_kept
from omn_agent.harness import Harness
from omn_agent.importing.session import Session
from omn_agent.recorder.clock import Reading, Timeline
from omn_agent.recorder.event import HarnessEvent, Launch
from omn_agent.recorder.extension_events import apply_events
from omn_agent.recorder.extension_source import RESTAMPED, SILENT, ExtensionSource, LineReader
from omn_agent.recorder.findings import Findings
from omn_agent.recording import Prompt, Response, Usage

pytestmark = pytest.mark.spec("AGT-7")

WRITTEN = (b"PROMPTWORD", b"ARGWORD")
NEVER = (b"ANSWERWORD", b"RESULTWORD", b"SYSTEMWORD")

SESSION = """
open("pi-1"); await load();
const tokens = { input: 100, output: 20, cacheRead: 4, cacheWrite: 0, totalTokens: 124 };
const row = (timestamp, more) => ({ role: "assistant", timestamp, model: "poppy-5", provider: "meadow",
  content: [{ type: "text", text: "ANSWERWORD" }], ...more });
await emit("session_start", { reason: "startup" });
await emit("input", { text: "PROMPTWORD", source: "interactive" });
await emit("before_agent_start", { prompt: "do PROMPTWORD \\u{1f33b}", systemPrompt: "SYSTEMWORD" });
file({ role: "user", content: [{ type: "text", text: "do PROMPTWORD \\u{1f33b}" }] });

// The first try fails, and Pi tries again by itself.
await emit("agent_start");
await emit("turn_start", { turnIndex: 0 });
await emit("context", { messages: [1, 2, 3] });
await emit("before_provider_request", { payload: "PROMPTWORD" });
await emit("after_provider_response", { status: 529, headers: { secret: "SYSTEMWORD" } });
await emit("turn_end", { turnIndex: 0 });
await emit("agent_end", { messages: [row(1, { stopReason: "error" })] });

await emit("agent_start");
await emit("turn_start", { turnIndex: 0 });
usage.tokens = 260;
await emit("before_provider_request", { payload: {} });
await emit("after_provider_response", { status: 200, headers: {} });
await emit("message_start", { message: row(7, {}) });
await emit("message_update", { message: row(7, {}), assistantMessageEvent: { type: "text_start" } });
for (const delta of ["ANSWERWORD", "", "\\u00e9"])
  await emit("message_update", { message: row(7, {}), assistantMessageEvent: { type: "text_delta", delta } });
const said = row(7, { stopReason: "toolUse", usage: tokens });
await emit("message_end", { message: said });
file(said);

await emit("tool_execution_start", { toolCallId: "s", toolName: "codemode", args: { code: "ARGWORD\\n\\nx\\n" } });
await emit("tool_call", { toolCallId: "s", toolName: "codemode", input: {} });
await emit("tool_execution_start", { toolCallId: "s/1", toolName: "read", args: { path: "ARGWORD" },
  parentToolCallId: "s" });
await emit("tool_call", { toolCallId: "s/1", toolName: "read", input: {} });
await emit("tool_execution_update", { toolCallId: "s/1", partialResult: { content: "RESULTWORD" } });
await emit("tool_result", { toolCallId: "s/1", isError: true, content: "RESULTWORD" });
await emit("tool_execution_end", { toolCallId: "s/1", toolName: "read", isError: false, result: "RESULTWORD",
  durationMs: 2, parentToolCallId: "s" });
const show = (...calls) => emit("tool_execution_update", { toolCallId: "s", partialResult: { details: { calls } } });
const classify = { id: "s/c/1", name: "models.classify", args: "meadow/judge-1" };
await show({ ...classify, status: "running" });
await show({ ...classify, status: "running" }, { id: "s/c/2", name: "models.classify", args: "ARGWORD", status: "ok" });
await show({ ...classify, status: "ok" }, { id: "s/1", name: "read", args: "ARGWORD", status: "running" });
await emit("tool_result", { toolCallId: "s", isError: false, usage: { input: 5, output: 1 } });
await emit("tool_execution_end", { toolCallId: "s", toolName: "codemode", isError: false, result: "RESULTWORD" });
await emit("turn_end", { turnIndex: 0 });
await emit("agent_end", { messages: [said] });
await emit("agent_settled", { aborted: false });

await emit("session_before_compact", { reason: "threshold", willRetry: false, preparation: { tokensBefore: 450 } });
await emit("session_compact", { reason: "threshold", willRetry: false,
  compactionEntry: { tokensBefore: 450, summary: "ANSWERWORD", usage: { input: 9, output: 3 } } });
await emit("session_before_compact", { reason: "manual", willRetry: false, preparation: { tokensBefore: 90 } });
await emit("session_compact_failed", { reason: "manual", willRetry: true, aborted: true, errorMessage: "ANSWERWORD" });

// A model without a limit, whose answer the person stops: the file has no line of it.
context.model = { id: "poppy-6", provider: "meadow" };
await emit("model_select", { model: context.model, source: "set" });
await emit("before_agent_start", { prompt: "PROMPTWORD again" });
await emit("agent_start");
await emit("turn_start", { turnIndex: 1 });
await emit("message_start", { message: row(9, {}) });
await emit("tool_execution_start", { toolCallId: "cut", toolName: "bash", args: { command: "ARGWORD" } });
await emit("agent_end", { messages: [row(9, { stopReason: "aborted" })] });
await emit("session_shutdown", { reason: "new" });

open("pi-2"); await load();
await emit("session_start", { reason: "new" });
await emit("session_shutdown", { reason: "reload" });
await load();
await emit("session_start", { reason: "reload" });
await emit("before_agent_start", { prompt: "PROMPTWORD" });
say("ready"); await wait();
await emit("session_shutdown", { reason: "quit" });
"""


@pytest.fixture
def bench(omn: Any, tmp_path: Path) -> Bench:
    """A home, a working folder and a Pi that node runs."""
    return make_pi_bench(omn, tmp_path)


@pytest.mark.spec("AGT-2", "AGT-3", "AGT-4", "AGT-5", "AGT-8", "AGT-10")
@pytest.mark.parametrize("content", ["1", "0"])
def test_pi_tells_of_each_thing_as_it_happens(bench: Bench, content: str) -> None:
    """Prompts, attempts, turns, requests, responses, scripts with their calls and models, compactions, two sessions.

    With content off no word of a prompt or an input is in any file at any time; answers and results never are.
    """
    running = bench.start(SESSION, harness="pi", AGENTPROF_CAPTURE_CONTENTS=content)
    running.expect("ready")
    bench.wait_for(b"heap_bytes")
    during = bench.find_words(*WRITTEN)
    assert not bench.find_words(*NEVER)
    running.go_on()
    ran = running.finish()
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[-1] == "out.pftrace: 2 sessions, 0 children, 2 responses, 3 tool calls"
    assert not bench.find_words(*NEVER)
    assert (bool(during), bool(bench.find_words(*WRITTEN))) == (content == "1", content == "1")
    trace = bench.read()
    first, second = trace.one("profile (1)"), trace.one("profile (2)")
    assert [(row.args["session_id"], row.args["stop_reason"]) for row in (first, second)] == [
        ("pi-1", "new"),
        ("pi-2", "quit"),
    ]
    assert (first.args["model"], first.args["effort"], first.args["session_labels"]) == (
        "poppy-5",
        "high",
        ["codemode"],
    )
    assert {row.track for row in (first, second)} == {"pi"}
    done, cut, last = sorted(trace.named("prompt"), key=lambda row: row.start)
    assert (done.args["length"], done.args.get("incomplete"), cut.args["incomplete"]) == (16, None, True)
    assert (trace.named("prompt-input")[0].args, last.args["length"]) == ({"source": "interactive"}, 10)
    failed, again, stopped = sorted(trace.named("attempt"), key=lambda row: row.start)
    assert done.start <= failed.start <= failed.end <= again.start <= again.end <= done.end <= stopped.start
    assert [row.args["index"] for row in sorted(trace.named("turn"), key=lambda row: row.start)] == [0, 0, 1]
    refused, taken = sorted(trace.named("request"), key=lambda row: row.start)
    assert [(row.args["status_code"], row.args["context_messages"]) for row in (refused, taken)] == [(529, 3), (200, 3)]
    answer, unfinished = sorted(trace.named("response"), key=lambda row: row.start)
    assert (answer.args["updates"], answer.args["bytes"], answer.args["stop_reason"]) == (2, 12, "toolUse")
    assert 0 <= answer.args["first_content_ns"] <= answer.args["duration_ns"] == answer.end - answer.start
    assert (unfinished.args["incomplete"], "timing" in answer.args) == (True, False)
    script, read = trace.one("codemode"), trace.one("read")
    assert (script.args["kind"], script.args["language"], script.args.get("line_count")) == (
        "script",
        "javascript",
        3 if content == "1" else None,
    )
    assert (read.args["parent_call_id"], read.args["is_error"], read.args["middleware_is_error"]) == ("s", False, True)
    assert (read.args["updates"], read.args["duration_ns"]) == (1, 2_000_000)
    assert (read.args["bytes"], read.args.get("bytes_unavailable")) == ((12, None) if content == "1" else (0, True))
    assert script.start < read.start <= read.end < script.end
    assert set(script.flows) & set(read.flows)
    seen, unseen = trace.one("models.classify"), trace.one("tool-result")
    assert (seen.args["model"], seen.args["provider"], seen.args["timing"]) == (
        "judge-1",
        "meadow",
        "codemode-lifecycle",
    )
    assert (unseen.args["kind"], unseen.args["start_not_recorded"], "model" in unseen.args) == (
        "model-call",
        True,
        False,
    )
    assert trace.one("bash").args["incomplete"] is True
    whole, aborted = sorted(trace.named("compact"), key=lambda row: row.start)
    assert (whole.args["reason"], whole.args["outcome"], whole.args["tokens_before"]) == ("threshold", "success", 450)
    assert (aborted.args["outcome"], aborted.args["will_retry"], aborted.start <= aborted.end) == (
        "aborted",
        True,
        True,
    )
    # Of the response once, of the tool and of the compaction.
    assert (read_maxima(trace, "Input tokens"), read_maxima(trace, "Output tokens")) == ([114], [24])
    counters = {name.rpartition("|")[2]: values for name, values in trace.counters.items()}
    assert counters["Context size"] == [260, 0, 0]
    assert counters["Context window"][:2] == [1000, 0]
    assert counters["JS heap"][0] > 1 << 20
    assert not bench.journals()
    assert not list((bench.own / "run").iterdir())


@pytest.mark.spec("AGT-9")
def test_pi_goes_on_without_its_recorder_and_what_nobody_took_is_counted(bench: Bench) -> None:
    """The recorder is killed: Pi does the rest, each event more is counted, and what was told is recovered."""
    script = """
        open("pi-1"); await load();
        await emit("session_start", { reason: "startup" });
        await emit("before_agent_start", { prompt: "PROMPTWORD" });
        say("told"); await wait();
        await emit("agent_start"); await emit("turn_start", { turnIndex: 0 });
        await emit("session_shutdown", { reason: "quit" });
        (await import("node:fs")).writeFileSync("done", "");
    """
    running = bench.start(script, harness="pi")
    running.expect("told")
    (journal,) = bench.journals()
    bench.wait_for(b"before_agent_start")
    kill(running.process.pid)
    running.process.wait()
    running.go_on()
    running.finish()
    until = time.monotonic() + 60
    while not (bench.work / "done").exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert (bench.work / "done").exists()
    ran = bench.command("recover", str(journal))
    counted = re.search(r"hook drops: (\d+)", ran.stdout)
    assert (ran.code, counted is not None and int(counted[1]) >= 3) == (0, True), ran.stdout  # and samples of its heap
    trace = bench.read()
    assert trace.one("profile (1)").end is None
    assert trace.one("prompt").args["text"] == "PROMPTWORD"


def test_a_pi_without_the_extension_is_recorded_by_its_file_and_it_is_said(bench: Bench) -> None:
    """One that loads none tells nothing; what does no session's work is given none."""
    script = 'open("pi-1"); file({ role: "user", content: "PROMPTWORD" });'
    ran = bench.record(script, harness="pi")
    assert (ran.code, f"degraded: {SILENT}" in ran.stdout) == (0, True)
    assert bench.read().one("prompt").args["text"] == "PROMPTWORD"


@pytest.mark.spec("AGT-8")
@pytest.mark.parametrize(
    ("switch", "kept"), [("AGENTPROF_CAPTURE_CONTENTS", []), ("PI_TRACING_CAPTURE_CONTENTS", list(Harness)[:2])]
)
def test_a_switch_of_another_recorder_keeps_pis_words_out(
    monkeypatch: pytest.MonkeyPatch, switch: str, kept: list[Harness]
) -> None:
    """The switch of all is every harness's, Pi's own is Pi's alone; neither is anything but 0."""
    for name in ("AGENTPROF_CAPTURE_CONTENTS", "PI_TRACING_CAPTURE_CONTENTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(switch, "1")
    assert all(is_content_kept(harness) for harness in Harness)
    monkeypatch.setenv(switch, "0")
    assert not is_content_kept(Harness.PI)
    assert [harness for harness in (Harness.CLAUDE, Harness.CODEX) if is_content_kept(harness)] == kept


def test_a_line_is_whole_however_it_comes_and_one_that_is_too_long_is_passed_over() -> None:
    """Byte by byte or several at once; what follows a line that is too long is read."""
    reader = LineReader(longest=4)
    assert [line for byte in b"one\ntwo\n" for line in reader.feed(bytes([byte]))] == [b"one", b"two"]
    assert list(reader.feed(b"a\nb\ncc")) == [b"a", b"b"]
    assert list(reader.feed(b"ccc")) == []
    assert list(reader.feed(b"ccc")) == []
    assert (list(reader.feed(b"c\nd\n")), reader.too_long) == ([b"d"], 1)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[tuple[ExtensionSource, socket.socket]]:
    """A source that listens, and somebody who speaks to it."""
    made = ExtensionSource(Harness.PI)
    prepared = made.prepare(Launch(Harness.PI, ("pi",), {}, tmp_path, True))
    assert prepared.arguments[0] == "-e"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as speaker:
        speaker.connect(str(tmp_path / "events"))
        yield made, speaker
    made.close()


def tell(stamp_ns: int, name: str, **given: Any) -> bytes:
    """Return a line of the extension's."""
    told = {"harness": "pi", "event": name, "stamp_ns": stamp_ns, "pid": 7, "session_id": "s", "input": given}
    return json.dumps(told).encode() + b"\n"


def test_a_stamp_of_another_clock_is_not_believed(source: tuple[ExtensionSource, socket.socket]) -> None:
    """One of before the launch or of later than now is the time of its arrival, and that is said."""
    made, speaker = source
    before_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    speaker.send(tell(5, "agent_start") + tell(1 << 62, "agent_end") + tell(before_ns, "turn_start"))
    *restamped, believed = made.receive()
    assert all(before_ns <= event.stamp_ns <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) for event in restamped)
    assert (believed.stamp_ns, believed.kind, believed.payload["pid"]) == (before_ns, "extension.turn_start", 7)
    assert list(made.list_degradations()) == [RESTAMPED]


def test_what_is_no_event_and_what_was_not_sent_are_counted(source: tuple[ExtensionSource, socket.socket]) -> None:
    """A line that is none, another harness's, and what an extension says that it dropped, which grows."""
    made, speaker = source
    other = tell(1, "x").replace(b'"pi"', b'"claude"')
    speaker.send(b"{\n" + other + tell(1, "a", dropped=2) + tell(1, "b", dropped=3))
    assert [event.kind for event in made.receive()] == ["extension.a", "extension.b"]
    assert made.count_losses() == {"extension_malformed": 2, "extension_dropped": 3}


@pytest.mark.parametrize("command", ["install", "list"])
def test_what_begins_no_session_is_given_no_extension(tmp_path: Path, command: str) -> None:
    """Pi's own commands take no extension before them."""
    made = ExtensionSource(Harness.PI)
    prepared = made.prepare(Launch(Harness.PI, ("pi", command), {}, tmp_path, True))
    assert (prepared.arguments, len(prepared.degradations)) == ((), 1)
    assert not list(made.list_degradations())
    made.close()


def test_what_nobody_saw_begin_has_no_beginning() -> None:
    """The headers of a request, and a tool's way back and end, where the events of before were not told."""
    findings = Findings(Harness.PI, True, Timeline([Reading(0, 0, 0, 1)]), 0, 10_000)
    told = {"after_provider_response": {"status_code": 200}, "tool_result": {"call_id": "a", "is_error": True}}
    told |= {"tool_execution_end": {"call_id": "b", "is_error": False}}
    events = [
        HarnessEvent(Harness.PI, at, "s", f"extension.{name}", fields) for at, (name, fields) in enumerate(told.items())
    ]
    apply_events(findings, events)
    session = findings.get_session("s")
    (request,), back, done = session.requests, session.tools["a"], session.tools["b"]
    assert (request.start_ns, request.end_ns, request.status_code) == (None, 0, 200)
    assert (back.start_ns, back.end_ns, back.middleware_ns, back.middleware_is_error) == (None, 1, 1, True)
    assert (done.start_ns, done.end_ns, done.middleware_ns) == (None, 2, None)


def test_what_the_file_says_too_counts_once() -> None:
    """A response of the file has the times of its message's events, and a prompt of the file begins with its event."""
    findings = Findings(Harness.PI, True, Timeline([Reading(0, 0, 0, 1)]), 0, 10_000)
    session = findings.get_session("s")
    session.prompts.append(Prompt(105, None, text="hello"))
    session.by_request["77"] = Response(None, 290, usage=Usage(10, 2), timing="transcript-observed")
    session.responses.append(session.by_request["77"])
    session.configure(1, model="of the file")

    def event(stamp_ns: int, name: str, **payload: Any) -> HarnessEvent:
        return HarnessEvent(Harness.PI, stamp_ns, "s", f"extension.{name}", payload)

    apply_events(
        findings,
        [
            event(100, "before_agent_start", prompt="hello", prompt_source="rpc"),
            event(200, "message_start", timestamp=77),
            event(300, "message_end", timestamp=77, usage={"input": 99}, first_content_ns=40),
            event(400, "agent_end"),
            event(401, "unheard_of"),
        ],
    )
    (response,), (prompt,) = session.responses, session.prompts
    assert (response.start_ns, response.end_ns, response.usage, response.timing) == (200, 300, Usage(10, 2), None)
    assert (prompt.start_ns, prompt.end_ns, prompt.source) == (100, 400, "rpc")
    assert isinstance(session, Session)
    assert [found.model for _, found in session.configurations] == ["of the file"]
    assert findings.health == {"unknown_events": 1}
