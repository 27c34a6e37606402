"""Pis that a recorded Pi starts, by its own program and by its name: their sessions are its children."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_recording import Bench, kill, make_pi_bench
from omn_agent.flows import compute_delegation_flow
from omn_agent.harness import Harness
from omn_agent.recorder.clock import Reading, Timeline
from omn_agent.recorder.compose import compose
from omn_agent.recorder.event import HarnessEvent
from omn_agent.recorder.extension_tools import link_child
from omn_agent.recorder.findings import Findings, Window
from omn_agent.recorder.journal_content import JournalContent
from omn_agent.recording import Delegation, Tool
from perfetto_reading import ReadTrace

pytestmark = pytest.mark.spec("AGT-7", "AGT-9")

WRITTEN = (b"PROMPTWORD", b"ARGWORD", b"CHILDWORD")

OUTER = """
const { spawn } = await import("node:child_process");
const fs = await import("node:fs");
const run = (program, args, script) => new Promise((done) => {
  const child = spawn(program, args, { env: { ...process.env, FAKE_SCRIPT: script }, stdio: ["pipe", "inherit", 2] });
  child.on("close", done);
  if (script.endsWith("first.mjs")) child.stdin.end();
});
fs.writeFileSync("first.mjs", FIRST); fs.writeFileSync("second.mjs", SECOND); fs.writeFileSync("none.mjs", NONE);
open("outer"); await load();
await emit("session_start", { reason: "startup" });
await emit("before_agent_start", { prompt: "PROMPTWORD" });
await emit("agent_start");
const args = { agent: "scout", task: "ARGWORD" };
await emit("tool_execution_start", { toolCallId: "d", toolName: "subagent", args });
await run(process.execPath, [process.argv[1], "--mode", "json", "-p", "--no-session"], "first.mjs");
await emit("tool_execution_end", { toolCallId: "d", toolName: "subagent", isError: false, result: {} });
await emit("tool_execution_start", { toolCallId: "b", toolName: "bash", args: { command: "ARGWORD" } });
await run("pi", ["-p", "CHILDWORD too"], "second.mjs");
await run("pi", ["list"], "none.mjs");
await run(process.execPath, [process.argv[1], "list"], "none.mjs");
await emit("tool_execution_end", { toolCallId: "b", toolName: "bash", isError: false, result: {} });
await emit("agent_end", { messages: [] });
say("ready"); await wait();
await emit("session_shutdown", { reason: "quit" });
"""
INNER = """
session.id = "NAME"; await load();
await emit("session_start", { reason: "startup" });
await emit("before_agent_start", { prompt: "CHILDWORD" });
await emit("agent_start");
const row = { role: "assistant", timestamp: 5, model: "poppy-5", provider: "meadow" };
await emit("message_start", { message: row });
await emit("message_end", { message: { ...row, usage: { input: 30, output: 7 }, stopReason: "stop" } });
await emit("agent_end", { messages: [] });
"""
FIRST = INNER.replace("NAME", "first") + 'await emit("session_shutdown", { reason: "quit" });'
SECOND = INNER.replace("NAME", "second") + 'process.kill(process.pid, "SIGKILL"); await pause(60_000);'
NONE = 'if (process.argv.includes("-e")) { (await import("node:fs")).writeFileSync("loaded", ""); }'


@pytest.fixture
def bench(omn: Any, tmp_path: Path) -> Bench:
    """A home, a working folder and a Pi that node runs, found by its name."""
    return make_pi_bench(omn, tmp_path)


def script() -> str:
    """Return the script of the Pi that is launched."""
    return f"const FIRST = {FIRST!r}, SECOND = {SECOND!r}, NONE = {NONE!r};\n{OUTER}"


def check(trace: ReadTrace) -> None:
    """Hold who is whose child, in processes of their own, the launch linked to the one that it made."""
    outer, first, second = (trace.one(f"profile ({number})") for number in (1, 2, 3))
    assert [row.args["session_id"] for row in (outer, first, second)] == ["outer", "first", "second"]
    assert [row.args.get("parent_session") for row in (outer, first, second)] == [None, "outer", "outer"]
    assert len({row.process.pid for row in trace.descriptors.values() if row.HasField("process")}) == 3
    assert {row.track for row in (outer, first, second)} == {"pi"}
    launch, shell = trace.one("subagent"), trace.one("bash")
    assert (launch.args["delegation"], launch.args["child_session"]) == (True, "first")
    assert compute_delegation_flow("first") in launch.flows
    assert "delegation" not in shell.args
    assert launch.start < first.start < launch.end < shell.start < second.start < shell.end
    for prompt in trace.named("prompt-input")[1:]:
        assert (compute_delegation_flow("first") in prompt.flows) == (prompt.start < launch.end)


@pytest.mark.spec("AGT-2", "AGT-4", "AGT-8")
@pytest.mark.parametrize("content", ["1", "0"])
def test_a_pi_that_pi_starts_is_its_child_in_the_same_recording(bench: Bench, content: str) -> None:
    """Also one without a session file, and one that is killed; what is no session loads nothing."""
    running = bench.start(script(), harness="pi", AGENTPROF_CAPTURE_CONTENTS=content)
    running.expect("ready")
    bench.wait_for(b'"second"')
    during = bench.find_words(*WRITTEN)
    running.go_on()
    ran = running.finish()
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[-1] == "out.pftrace: 1 sessions, 2 children, 2 responses, 2 tool calls"
    trace = bench.read()
    check(trace)
    first, second = trace.one("profile (2)"), trace.one("profile (3)")
    assert [row.args["stop_reason"] for row in (first, second)] == ["quit", "harness-exit"]
    assert all(row.end < trace.one("bash").end for row in (first, second))
    assert trace.one("subagent").args.get("subagent_type") == ("scout" if content == "1" else None)
    words = [(path, word) for path, word in (*during, *bench.find_words(*WRITTEN)) if not path.endswith(".mjs")]
    assert bool(words) == (content == "1")
    assert not (bench.work / "loaded").exists()
    assert not list((bench.own / "run").iterdir())


def test_children_outlive_their_recorder_in_what_is_recovered(bench: Bench) -> None:
    """What each told until the recorder died is there; a launch that nobody saw end leads nowhere."""
    cut = script().replace('await run("pi", ["-p"', 'say("cut"); await wait(); await run("pi", ["-p"')
    running = bench.start(cut, harness="pi")
    running.expect("cut")
    journal = bench.wait_for(b'"first"')
    bench.wait_for(b"session_shutdown")
    kill(running.process.pid)
    running.process.wait(timeout=60)
    running.go_on()
    running.go_on()
    running.finish()
    assert bench.command("recover", str(journal)).code == 0
    trace = bench.read()
    outer, first = trace.one("profile (1)"), trace.one("profile (2)")
    assert (outer.end, first.args["stop_reason"], first.args["parent_session"]) == (None, "quit", "outer")


@pytest.mark.spec("AGT-5")
def test_each_capture_has_the_readings_of_its_own_process_and_time() -> None:
    """Sessions that follow one another share a process, a child has its own; the queue's depth is the first one's."""

    def event(stamp_ns: int, name: str, session: str, pid: int, **given: Any) -> HarnessEvent:
        return HarnessEvent(Harness.PI, stamp_ns, session, f"extension.{name}", {**given, "pid": pid})

    content = JournalContent({"id": "r", "content": True}, Harness.PI, [Reading(0, 0, 0, 1)], starts={7: 0, 8: 0})
    content.events = [
        event(10, "session_start", "one", 7),
        event(20, "session_start", "child", 8, parent_session="one"),
        event(30, "session_shutdown", "child", 8),
        event(40, "session_shutdown", "one", 7),
        event(50, "session_start", "two", 7),
    ]
    content.samples = {7: [(5, 1, 1), (15, 2, 2), (45, 3, 3), (55, 4, 4)], 8: [(25, 9, 9), (35, 8, 8)]}
    content.depths = [(12, 3), (38, 1), (90, 6)]
    content.end = {"s": 100, "reason": "harness-exit"}
    captures = {capture.session_id: capture for capture in compose(content).recording.captures}
    assert {name: row.samples.resident_bytes for name, row in captures.items()} == {
        "one": [(15, 2)],
        "child": [(25, 9)],
        "two": [(55, 4)],
    }
    assert {name: row.samples.cpu_us for name, row in captures.items()} == {
        "one": [(15, 2)],
        "child": [(25, 9)],
        "two": [(55, 4)],
    }
    assert [captures[name].samples.queue_depth for name in captures] == [[(12, 3), (38, 1), (39, 6)], [], []]
    assert [row.process.tid for row in captures.values() if row.process is not None] == [7, 8, 7]


def test_a_launch_leads_to_a_child_where_no_other_can_have_made_it() -> None:
    """Not where two were made in it, and not where another tool was under way."""
    findings = Findings(Harness.PI, True, Timeline([Reading(0, 0, 0, 1)]), 0, 10_000)
    outer = findings.get_session("outer")
    times = {"alone": (100, 200), "two": (300, 400), "beside": (500, 600), "none": (700, None)}
    for call, (start_ns, end_ns) in times.items():
        outer.tools[call] = Tool("subagent", call, start_ns, end_ns, delegation=Delegation())
    outer.tools["shell"] = Tool("bash", "shell", 550, 560)
    for name, opened_ns in {"a": 150, "b": 310, "c": 320, "d": 555, "e": 950}.items():
        findings.get_session(name, "outer")
        findings.windows[name] = [Window(opened_ns)]
    link_child(findings, outer)
    linked = {call: tool.delegation.child_session for call, tool in outer.tools.items() if tool.delegation is not None}
    assert linked == {"alone": "a", "two": None, "beside": None, "none": "e"}
