"""`omn agent record` with a harness that is none: what it makes of hooks and session files, end to end."""

from __future__ import annotations

import itertools
import stat
from pathlib import Path
from typing import Any

import pytest
from agent_recording import Bench, read_maxima
from omn_agent.flows import compute_delegation_flow

pytestmark = pytest.mark.spec("AGT-7", "AGT-10")

SESSION = """
    agent = Claude("aaaaaaaa-0000-4000-8000-000000000001")
    agent.start()
    agent.prompt()
    agent.tool("c1")
    child = agent.delegate("d1")
    agent.stop()
    agent.prompt("cut PROMPTWORD")
    agent.begin("c2")
    agent.end()
"""
MAIN = "aaaaaaaa-0000-4000-8000-000000000001"
WRITTEN = (b"PROMPTWORD", b"ARGWORD", b"CHILDWORD")
NEVER = (b"ANSWERWORD", b"RESULTWORD")


@pytest.fixture
def bench(omn: Any, tmp_path: Path) -> Bench:
    """A home, a working folder and programs."""
    made = Bench(omn, tmp_path)
    made.prepare()
    return made


@pytest.mark.spec("AGT-2", "AGT-4", "AGT-6", "AGT-9")
def test_a_session_and_its_subagent_are_recorded_from_hooks_and_files(bench: Bench) -> None:
    """Spans, their timings, tokens, the process, its clocks and the child's flow: what happened, and no more."""
    ran = bench.record(SESSION, "--label", "garden")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout == "out.pftrace: 1 sessions, 1 children, 6 responses, 4 tool calls\n"
    assert stat.S_IMODE((bench.work / "out.pftrace").stat().st_mode) == 0o600
    trace = bench.read()
    main, child = sorted(trace.named("profile (1)") + trace.named("profile (2)"), key=lambda row: row.start)
    assert {key: main.args[key] for key in ("session_id", "label", "stop_reason", "clock", "harness")} == {
        "session_id": MAIN, "label": "garden", "stop_reason": "prompt_input_exit", "clock": "MONOTONIC",
        "harness": "claude",
    }  # fmt: skip
    assert (child.args["parent_session"], child.args["role"]) == (MAIN, "Explore")
    assert "started_before_capture" not in {**main.args, **child.args}
    assert "incomplete" not in main.args
    # The main thread's is the process's own track; the child in the same process has one of its session's.
    assert (main.track, child.track) == ("claude", "claude|agentprof.capture|Session")
    (process,) = [row.process for row in trace.descriptors.values() if row.HasField("process")]
    assert (process.process_name, list(process.process_labels)) == ("claude", [])
    assert 0 < process.start_timestamp_ns <= main.start
    assert all(set(clocks) == {1, 3, 6} for clocks in trace.clocks)
    assert len(trace.clocks) >= 2
    bash, inner, agent, cut = sorted(trace.named("Bash") + trace.named("Agent"), key=lambda row: (row.end, row.start))
    assert [row.args["timing"] for row in (bash, inner, agent)] == ["native-duration"] * 3
    assert all(0 <= row.end - row.start <= row.args["dispatch_ns"] for row in (bash, inner, agent))
    assert (cut.args["timing"], cut.args["incomplete"], cut.end) == ("hook-dispatch", True, main.end)
    assert bash.args["args"] == {"command": "make ARGWORD"}
    assert compute_delegation_flow(child.args["session_id"]) in agent.flows
    first, second = sorted(trace.named("prompt"), key=lambda row: row.start)[0::2]
    assert (first.args["text"], first.args.get("incomplete")) == ("PROMPTWORD", None)
    assert (second.args["text"], second.args["incomplete"]) == ("cut PROMPTWORD", True)
    assert (read_maxima(trace, "Input tokens"), read_maxima(trace, "Output tokens")) == ([130, 500], [27, 105])
    assert not bench.journals()
    assert not list((bench.own / "run").iterdir())


@pytest.mark.spec("AGT-8")
@pytest.mark.parametrize("content", ["1", "0"])
def test_no_word_is_in_any_file_that_is_not_to_hold_it(bench: Bench, content: str) -> None:
    """With content off no word of a prompt or an input is in the journal or the trace, at any time.

    Lengths, names, ids and tokens are. Answers and results are in none, on or off.
    """
    script = SESSION.replace("agent.end()", "say('ready'); wait(); agent.end()")
    running = bench.start(script, AGENTPROF_CAPTURE_CONTENTS=content)
    running.expect("ready")
    bench.wait_for(b'"tool_use_id":"c2"')
    during = bench.find_words(*WRITTEN)
    assert not bench.find_words(*NEVER)
    running.go_on()
    assert running.finish().code == 0
    after = bench.find_words(*WRITTEN)
    assert not bench.find_words(*NEVER)
    assert (bool(during), bool(after)) == (content == "1", content == "1")
    trace = bench.read()
    assert {row.args["length"] for row in trace.named("prompt")} == {10, 14, 9}
    assert {row.args["call_id"] for row in trace.named("Bash")} == {"c1", "c2", "d1-inner"}
    assert trace.named("profile (1)")[0].args["capture_contents"] is (content == "1")
    assert (read_maxima(trace, "Input tokens"), read_maxima(trace, "Output tokens")) == ([130, 500], [27, 105])


def test_sessions_follow_one_another_in_one_recording(bench: Bench) -> None:
    """A clear begins another session, and one that is gone back to has a suffix and its own id beside it."""
    ran = bench.record(
        """
        first = Claude("first")
        first.start(); first.prompt(); first.stop(); first.end("clear")
        second = Claude("second")
        second.start("clear"); second.prompt(); second.stop(); second.end("resume")
        first.start("resume"); first.prompt("again PROMPTWORD"); first.stop(); first.end()
        """
    )
    assert ran.code == 0, ran.stderr
    trace = bench.read()
    captures = [trace.one(f"profile ({number})") for number in (1, 2, 3)]
    assert [row.args["session_id"] for row in captures] == ["first", "second", "first#2"]
    assert [row.args.get("native_session_id") for row in captures] == [None, None, "first"]
    assert [row.args["stop_reason"] for row in captures] == ["clear", "resume", "prompt_input_exit"]
    assert len({row.args["capture_id"] for row in captures}) == 3
    assert {row.track for row in captures} == {"claude"}
    assert all(before.end <= after.start for before, after in itertools.pairwise(captures))
    assert read_maxima(trace, "Input tokens") == [200, 200, 200]


def test_a_resumed_session_is_recorded_from_its_resumption_on(bench: Bench) -> None:
    """What its file holds of before is not filled in: no tokens, no prompts, no tools."""
    bench.record(
        "agent = Claude('old'); agent.start(); agent.prompt('OLDWORD'); agent.tool('c0'); agent.stop(); agent.end()"
    )
    ran = bench.record(
        "agent = Claude('old'); agent.start('resume'); agent.tool('c1'); agent.stop(); agent.end()", "-o", "two.pftrace"
    )
    assert ran.code == 0, ran.stderr
    assert not [path for path, _ in bench.find_words(b"OLDWORD") if path.endswith("two.pftrace")]
    trace = bench.read("two.pftrace")
    assert [row.args["call_id"] for row in trace.named("Bash")] == ["c1"]
    assert trace.one("prompt").args["started_before_capture"] is True
    assert trace.one("profile (1)").args["started_before_capture"] is True
    assert read_maxima(trace, "Input tokens") == [300]


def test_two_recordings_at_once_keep_apart(bench: Bench) -> None:
    """In one folder, at one time: each holds the session of its own harness alone."""
    begin = "agent = Claude('{0}'); agent.start(); agent.prompt(); say('ready'); wait(); "
    script = begin + "agent.tool('{0}'); agent.stop(); agent.end()"
    first = bench.start(script.format("first"), "-o", "first.pftrace")
    second = bench.start(script.format("second"), "-o", "second.pftrace")
    for running in (first, second):
        running.expect("ready")
    for running in (first, second):
        running.go_on()
        assert running.finish().code == 0
    for name in ("first", "second"):
        trace = bench.read(f"{name}.pftrace")
        assert trace.one("profile (1)").args["session_id"] == name
        assert [row.args["call_id"] for row in trace.named("Bash")] == [name]


def test_codex_is_followed_by_the_file_that_it_holds_open(bench: Bench) -> None:
    """Another rollout of the same folder and time is not taken: the process does not write it."""
    other = """
        import subprocess
        Path("other.py").write_text("import sys; sys.path.insert(0, sys.argv[1]); import fake_harness; "
            "other = fake_harness.Codex(); other.prompt(); other.answer(); other.file.close()")
        subprocess.run([sys.executable, "other.py", str(Path(__file__).parent)], check=True)
    """
    script = f"agent = Codex(); agent.prompt(); agent.tool('c1'); agent.answer()\n{other}\nsay('ready'); wait()"
    running = bench.start("\n".join(line.strip() for line in script.splitlines()), harness="codex")
    running.expect("ready")
    bench.wait_for(b'"descriptor"')
    running.go_on()
    ran = running.finish()
    assert (ran.code, ran.stdout.splitlines()[-1]) == (
        0,
        "out.pftrace: 1 sessions, 0 children, 1 responses, 1 tool calls",
    )
    trace = bench.read()
    assert trace.one("shell").args["timing"] == "transcript-observed"
    assert trace.one("prompt").args["text"] == "PROMPTWORD"
    assert trace.one("profile (1)").args["stop_reason"] == "harness-exit"


@pytest.mark.parametrize("harness", ["pi", "muse"])
def test_without_hooks_the_files_that_grew_in_the_folder_are_taken_and_it_is_said(bench: Bench, harness: str) -> None:
    """Nothing but the folder says that a session is the harness's, and the recording says so."""
    scripts = {
        "pi": """
            agent = Pi()
            agent.message("user", content="PROMPTWORD")
            text = [{"type": "text", "text": "ANSWERWORD"}]
            usage = {"input": 100, "output": 20, "totalTokens": 120}
            agent.message("assistant", model="poppy-5", provider="meadow", content=text, usage=usage, stopReason="stop")
        """,
        "muse": """
            agent = Muse()
            agent.run("started", prompt="PROMPTWORD")
            agent.run("model_completed", model="poppy-5", usage={"input": 100, "output": 20}, duration_ms=1)
        """,
    }
    ran = bench.record(scripts[harness], harness=harness)
    assert ran.code == 0, ran.stderr
    assert "degraded: no source named a session" in ran.stdout
    assert not bench.find_words(*NEVER)
    trace = bench.read()
    assert trace.one("prompt").args["text"] == "PROMPTWORD"
    assert read_maxima(trace, "Input tokens") == [100]


def test_hooks_that_are_switched_off_are_said_and_the_files_are_read(bench: Bench) -> None:
    """A harness that runs no hooks is recorded from its session files, and what is lost by that is said."""
    ran = bench.record("agent = Claude('s'); agent.hooks = {}; agent.prompt(); agent.tool('c1'); agent.answer()")
    assert ran.code == 0
    assert "degraded: no hook told anything" in ran.stdout
    assert bench.read().one("Bash").args["timing"] == "transcript-observed"
    assert "s: degraded: no hook told anything" in bench.command("show", "out.pftrace").stdout


def test_a_file_that_is_there_refuses_the_launch(bench: Bench) -> None:
    """The harness never runs, and nothing is left."""
    (bench.work / "out.pftrace").write_text("mine")
    ran = bench.record("Path('ran').touch()")
    assert ran.code == 2
    assert [path.name for path in bench.work.iterdir()] == ["out.pftrace"]
    assert not bench.journals()


@pytest.mark.parametrize(("program", "code"), [("./absent/claude", 1), ("hal", 2)])
def test_a_program_that_is_none_is_refused(bench: Bench, program: str, code: int) -> None:
    """One that is not there is the machine's to mend, one that is no harness is the request's; no journal is left."""
    ran = bench.record("", harness=program)
    assert ran.code == code
    assert not bench.journals()
    assert not list(bench.work.iterdir())


def test_a_harness_that_begins_no_session_leaves_no_recording(bench: Bench) -> None:
    """The run failed, and nothing is left of it."""
    ran = bench.record("")
    assert ran.code == 1
    assert "no session of the harness was seen" in ran.stderr
    assert not bench.journals()
    assert not list(bench.work.iterdir())


@pytest.mark.spec("AGT-8")
def test_codex_gets_hooks_where_they_are_asked_for_and_what_is_written_is_said(bench: Bench) -> None:
    """They are written once, into a file that was not there; a tool lasts from hook to hook then."""
    script = """
        agent = Codex(); agent.hook("SessionStart", source="startup")
        agent.hook("UserPromptSubmit", prompt="PROMPTWORD"); agent.prompt()
        agent.hook("PreToolUse", tool_name="shell", tool_use_id="c1", tool_input={"command": "ARGWORD"})
        agent.tool("c1")
        agent.hook("PostToolUse", tool_name="shell", tool_use_id="c1", tool_response="RESULTWORD")
        agent.answer(); agent.hook("Stop", last_assistant_message="ANSWERWORD")
    """
    ran = bench.record(script, "--write-hooks", harness="codex", AGENTPROF_CAPTURE_CONTENTS="0")
    assert ran.code == 0, ran.stderr
    path = bench.home / ".codex" / "hooks.json"
    assert f"wrote {str(path)!r}: hooks that, once they are trusted with /hooks, tell a recorder" in ran.stderr
    assert not bench.find_words(*WRITTEN, *NEVER)
    trace = bench.read()
    assert trace.one("shell").args["timing"] == "hook-dispatch"
    assert trace.one("prompt").args == {"length": 10}
    written = path.read_bytes()
    again = bench.record(script, "--write-hooks", "-o", "two.pftrace", harness="codex")
    assert (again.code, "are omn's already" in again.stderr) == (0, True)
    assert (path.read_bytes(), bench.read("two.pftrace").one("shell").args["timing"]) == (written, "hook-dispatch")


def test_hooks_of_somebody_s_own_are_never_changed(bench: Bench) -> None:
    """The launch is refused, with what would be written; a harness that needs none written is told so."""
    path = bench.home / ".codex" / "hooks.json"
    path.parent.mkdir()
    path.write_text("{}")
    ran = bench.record("Path('ran').touch()", "--write-hooks", harness="codex")
    assert (ran.code, "somebody's own" in ran.stderr, "OMN_AGENT_FOLDER" in ran.stderr) == (2, True, True)
    assert (path.read_text(), list(bench.work.iterdir())) == ("{}", [])
    assert bench.record("", "--write-hooks").code == 2
    (bench.work / ".muse").write_text("in the way")
    assert bench.record("", "--write-hooks", harness="muse").code == 1
    (bench.work / ".muse").unlink()
    assert "no session" in bench.record("", "--write-hooks", harness="muse").stderr
    assert "OMN_AGENT_FOLDER" in (bench.work / ".muse" / "hooks.json").read_text()
