"""Sessions that a tool of the recorded agent started, found by their processes."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_recording import Bench, read_maxima
from omn_agent.harness import Harness
from omn_agent.recorder.event import Launch
from omn_agent.recorder.launch import read_start_ticks
from omn_agent.recorder.process_source import ProcessSource

pytestmark = pytest.mark.spec("AGT-7", "AGT-9")

OUTER = """
import subprocess
agent = Claude("outer"); agent.appear(); agent.start(); agent.prompt(); agent.begin("c1")
say("outer"); wait()
Path("inner.py").write_text(INNER)
subprocess.run(["claude"], env={**os.environ, "CLAUDE_CODE_SESSION_ID": "outer", "FAKE_SCRIPT": "inner.py"}, check=True)
say("gone"); wait()
agent.finish("c1"); agent.stop(); agent.end()
"""
INNER = """
agent = Claude("inner"); agent.appear(); agent.prompt("CHILDWORD"); agent.tool("n1"); agent.answer((7, 3))
say("inner"); wait()
"""
STRANGER = """
agent = Claude("stranger"); agent.appear(); agent.prompt(); agent.answer((1000, 1000)); wait()
"""


@pytest.fixture
def bench(omn: Any, tmp_path: Path) -> Bench:
    """A home, a working folder and programs."""
    made = Bench(omn, tmp_path)
    made.prepare()
    return made


def test_an_agent_that_a_tool_started_is_a_child_in_a_process_of_its_own(bench: Bench) -> None:
    """Its session file is read although no hook names it; one of another's in the same folder is not."""
    running = bench.start(f"INNER = {INNER!r}\n{OUTER}")
    running.expect("outer")
    stranger = subprocess.Popen(
        [str(bench.folder / "bin" / "claude")], cwd=bench.work, env=bench.environment(STRANGER), stdin=subprocess.PIPE
    )
    bench.wait_for(b'"process.session_seen"')
    running.go_on()
    running.expect("inner")
    bench.wait_for(b"inner.jsonl")
    running.go_on()
    running.expect("gone")
    bench.wait_for(b"process.session_gone")
    running.go_on()
    ran = running.finish()
    stranger.communicate(b"\n")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout == "out.pftrace: 1 sessions, 1 children, 4 responses, 2 tool calls\n"
    trace = bench.read()
    outer, inner = trace.one("profile (1)"), trace.one("profile (2)")
    assert (inner.args["session_id"], inner.args["parent_session"], inner.args["stop_reason"]) == (
        "inner",
        "outer",
        "process-exit",
    )
    assert outer.start < inner.start < inner.end < outer.end
    tool = next(row for row in trace.named("Bash") if row.args["call_id"] == "n1")
    assert (tool.args["timing"], inner.start <= tool.start <= tool.end <= inner.end) == ("transcript-observed", True)
    processes = [row.process for row in trace.descriptors.values() if row.HasField("process")]
    assert sorted((row.process_name, list(row.process_labels)) for row in processes) == [
        ("claude", ["inner"]),
        ("claude", ["outer"]),
    ]
    assert read_maxima(trace, "Input tokens") == [107, 300]


HELD = {
    "codex": "agent = Codex('{0}'); agent.prompt(); agent.answer()",
    "muse": "agent = Muse('{0}', is_held=True); agent.run('started', prompt='PROMPTWORD'); "
    "agent.run('model_completed', model='poppy-5', usage={{'input': 100, 'output': 20}}, duration_ms=1)",
}


@pytest.mark.parametrize("harness", ["codex", "muse"])
def test_an_agent_that_holds_its_file_open_is_the_child_of_the_one_above_it(bench: Bench, harness: str) -> None:
    """A shell is between the two; another's session of the same folder and time is nobody's."""
    run = (
        f"subprocess.run(['sh', '-c', '{harness}; true'], env={{**os.environ, 'FAKE_SCRIPT': 'inner.py'}}, check=True)"
    )
    inner = HELD[harness].format("inner-1") + "; say('inner'); wait()"
    script = [
        "import subprocess",
        f"Path('inner.py').write_text({inner!r})",
        HELD[harness].format("outer-1"),
        f"say('outer'); wait(); {run}",
    ]
    running = bench.start("\n".join(script), harness=harness)
    running.expect("outer")
    stranger = HELD[harness].format("stranger-1") + "; say('ready'); wait()"
    other = subprocess.Popen(
        [str(bench.folder / "bin" / harness)], cwd=bench.work, env=bench.environment(stranger), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert other.stdout is not None
    assert other.stdout.readline() == b"ready\n"
    bench.wait_for(b"outer-1")
    running.go_on()
    running.expect("inner")
    bench.wait_for(b"inner-1")
    running.go_on()
    ran = running.finish()
    other.communicate(b"\n")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[-1] == "out.pftrace: 1 sessions, 1 children, 2 responses, 0 tool calls"
    trace = bench.read()
    above, below = trace.one("profile (1)"), trace.one("profile (2)")
    assert (above.args["session_id"], below.args["session_id"]) == ("outer-1", "inner-1")
    assert (above.args.get("parent_session"), below.args["parent_session"]) == (None, "outer-1")
    assert len({row.process.pid for row in trace.descriptors.values() if row.HasField("process")}) == 2
    assert read_maxima(trace, "Input tokens") == [100, 100]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_session_is_seen_as_soon_as_its_process_writes_its_file(tmp_path: Path, is_there: bool) -> None:
    """Nobody waits for a second to pass, so that one which lives for less is seen too; also the first of all."""
    folder = tmp_path / "sessions"
    if is_there:
        folder.mkdir()
    source = ProcessSource(Harness.CLAUDE)
    source.prepare(Launch(Harness.CLAUDE, ("claude",), {"CLAUDE_CONFIG_DIR": str(tmp_path)}, tmp_path, True))
    assert select.select([source], [], [], 0)[0] == []
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        seen: set[str | None] = set()
        for session in ("s1", "s2"):
            folder.mkdir(exist_ok=True)
            told = {"sessionId": session, "procStart": str(read_start_ticks(child.pid))}
            (folder / f"{child.pid}.json").write_text(json.dumps(told))
            while session not in seen:
                assert select.select([source], [], [], 60)[0] == [source]
                seen |= {event.session_id for event in source.receive() if event.kind == "process.session_seen"}
        child.communicate(b"\n")
    source.close()


def test_a_file_of_another_process_is_nobodys(tmp_path: Path) -> None:
    """A number that another has now, one of nobody's own, what is no JSON and names that lead elsewhere.

    What is known of a process stays until it is over, whatever becomes of its file.
    """
    folder = tmp_path / "sessions"
    source = ProcessSource(Harness.CLAUDE)
    source.prepare(Launch(Harness.CLAUDE, ("claude",), {"CLAUDE_CONFIG_DIR": str(tmp_path)}, tmp_path, True))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert list(source.receive()) == []
        folder.mkdir()
        started = read_start_ticks(child.pid)
        path = folder / f"{child.pid}.json"
        for told in ("{", json.dumps({"sessionId": "s", "procStart": "1"}), json.dumps({"sessionId": "../s"})):
            path.write_text(told)
            assert list(source.receive()) == []
        (folder / f"{os.getppid()}.json").write_text(json.dumps({"sessionId": "elsewhere"}))
        path.write_text(json.dumps({"sessionId": "s", "procStart": str(started)}))
        (seen,) = source.receive()
        assert (seen.kind, seen.session_id, seen.payload) == (
            "process.session_seen",
            "s",
            {"pid": child.pid, "parent_session": None},
        )
        path.write_text("{")
        assert list(source.receive()) == []
        path.unlink()
        assert list(source.receive()) == []
        child.communicate(b"\n")
        assert [event.kind for event in source.receive()] == ["process.session_gone"]
    source.close()
