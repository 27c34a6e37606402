"""What tools' processes did, as a recording says it, against what wait4(2) says of the same processes."""

from __future__ import annotations

import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from agent_recording import Bench, kill

pytestmark = pytest.mark.spec("AGT-11")

SESSION = """
requests:
  - {source: mem.rss, mode: poll, emits: [summary, timeline], keys: [proc], interval: 20ms}
  - {source: cpu.util, mode: poll, emits: [timeline], target: {system: true}, interval: 100ms}
"""
WAITS = """
  - {source: sched.offcpu, mode: trace, emits: [summary], keys: [proc]}
  - {source: net.tcp.lifetime, mode: trace, emits: [summary], keys: [proc], value: tx_bytes}
"""
SLEEP_S = 0.15
TICK_NS = 10_000_000

TOOLS = f"""
import subprocess
made = {{}}

def run(call, code, *words):
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", code, *words])
    made[call] = child.pid
    return child

def wait_for(call, child):
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    made[call] = (child.pid, child.returncode, int((usage.ru_utime + usage.ru_stime) * 1e9), usage.ru_maxrss << 10,
                  usage.ru_oublock * 512)

WORK = '''
import os, socket, subprocess, sys, time
until = time.process_time_ns() + 80_000_000
while time.process_time_ns() < until: pass
time.sleep({SLEEP_S})
with open("written", "wb") as file:
    file.write(bytes(1 << 20)); file.flush(); os.fsync(file.fileno())
listener = socket.create_server(("127.0.0.1", 0))
ours = socket.create_connection(listener.getsockname())
theirs, _ = listener.accept()
ours.sendall(bytes(50_000)); ours.shutdown(socket.SHUT_WR)
while theirs.recv(65536): pass
theirs.close(); ours.recv(1); ours.close()
subprocess.run([sys.executable, "-I", "-S", "-c", "pass"])
sys.exit(3)
'''
agent = Claude("s1"); agent.start(); agent.prompt()
agent.begin("work"); wait_for("work", run("work", WORK, "ARGWORD")); agent.finish("work", duration_ms=1)
agent.begin("read", "Read", file_path="ARGWORD"); agent.finish("read", "Read")
agent.begin("left"); server = run("left", "import time; time.sleep(60)"); agent.finish("left")
agent.begin("one"); agent.begin("two")
children = [run(call, "import time; time.sleep(0.03)") for call in ("one", "two")]
for call, child in zip(("one", "two"), children): wait_for(call, child)
agent.finish("one"); agent.finish("two")
agent.begin("after"); wait_for("after", run("after", "pass")); agent.finish("after")
agent.stop(); server.kill(); wait_for("left", server); agent.end()
Path("made.json").write_text(json.dumps(made))
"""


@pytest.fixture
def bench(omn: Any, tmp_path: Path) -> Bench:
    """A home, a working folder and programs."""
    made = Bench(omn, tmp_path)
    made.prepare()
    return made


def show(bench: Bench) -> dict[str, Any]:
    """Return what a recording says, skipping the test where this machine tells of no processes."""
    report: dict[str, Any] = json.loads(bench.command("show", "--format", "json", "out.pftrace").stdout)
    (run,) = report["machine"]["runs"]
    if not run["has_processes"]:
        pytest.skip(f"this machine tells of no process: {run['reservations'][-1]}")
    return report


def test_each_tool_has_its_processes_and_what_they_did(bench: Bench) -> None:
    """By time where one tool alone ran, in dispute where two did, and nothing of a process that outlived its tool."""
    is_root = os.geteuid() == 0
    (bench.work / "session.yaml").write_text(SESSION + (WAITS if is_root else ""))
    ran = bench.record(TOOLS, "--with", "session.yaml")
    assert (ran.code, ran.stderr) == (0, "")
    made = json.loads((bench.work / "made.json").read_text())
    report = show(bench)
    tools = {tool["call_id"]: tool for tool in report["machine"]["tools"]}
    work, read, left = tools["work"], tools["read"], tools["left"]
    assert (work["processes"], work["evidence"], work["outliving"], work["disputed"]) == (2, ["temporal"], 0, 0)
    assert work["in_processes_ns"] + work["harness_ns"] == work["length_ns"]
    assert 80_000_000 + SLEEP_S * 1e9 <= work["in_processes_ns"] <= work["length_ns"]
    # The kernel's largest is of counters that each cpu adds to in batches, and statm's are exact.
    assert 0 < work["figures"]["mem.rss"]["value"] <= made["work"][3] + (1 << 20)
    if is_root:
        figures = {name: row["value"] for name, row in work["figures"].items()}
        assert SLEEP_S * 1e9 <= figures["sched.offcpu"] <= work["in_processes_ns"] * 2
        # wait4 has the child that it waited for in its account, as the tool has both processes.
        assert abs(figures["proc.exit cpu_ns"] - made["work"][2]) <= 2 * TICK_NS
        assert figures["proc.exit write_bytes"] == made["work"][4] >= 1 << 20
        assert figures["net.tcp.lifetime tx_bytes"] == 50_000
    assert (read["processes"], read["is_in_process"], read["figures"]) == (0, True, {})
    assert (left["processes"], left["outliving"], left["figures"]) == (0, 1, {})
    for call in ("one", "two"):
        assert (tools[call]["processes"], tools[call]["disputed"], tools[call]["harness_ns"]) == (0, 2, None)
    assert {tuple(row["tools"]) for row in report["machine"]["disputed"]} == {("one", "two")}
    assert [tools[call]["beside"] for call in ("work", "read", "left", "one", "after")] == [0, 0, 0, 1, 1]
    assert (tools["after"]["processes"], tools["after"]["evidence"]) == (1, ["temporal"])
    trace = bench.read()
    lives = {row.args["pid"]: row for row in trace.slices if row.args.get("kind") == "process"}
    for call, (pid, code, *_) in made.items():
        assert lives[pid].args.get("exit_code") == (code if code >= 0 else None), call
        assert lives[pid].args.get("exit_signal") == (None if code >= 0 else "SIGKILL")
    assert sum(row.args.get("is_recorder") is True for row in lives.values()) >= len(tools) * 2
    assert any("cpu.util" in name and values for name, values in trace.counters.items())
    text = bench.command("show", "out.pftrace").stdout
    assert "Bash: 2 processes (forked inside it); " in text
    assert "Read: in the harness's own process" in text
    assert "1 outlived it, and their figures are not in it" in text
    assert "nobody can tell" in text


SPANS = """
import subprocess, threading
agent = Claude("s1"); agent.start(); agent.prompt()
telemetry = Telemetry(agent)
begun = time.time_ns()
spans = {"one": "00" * 7 + "11", "two": "00" * 7 + "22"}
for call in spans: agent.begin(call)
parents = [{**os.environ, "TRACEPARENT": f"00-{'ab' * 16}-{span}-01"} for span in spans.values()]
children = [subprocess.Popen(["/bin/sh", "-c", "sleep 0.4; true"], env=parent) for parent in parents]
for child in children: child.wait()
for call in spans: agent.finish(call)
for call, span in spans.items():
    telemetry.span("tool.execution", span, "", begun, tool_use_id=call)
agent.stop(); agent.end()
Path("made.json").write_text(json.dumps([child.pid for child in children]))
"""


def test_tools_that_run_at_once_are_told_apart_by_what_their_processes_name(bench: Bench) -> None:
    """A shell is the tool's whose span it was executed in, and so is what the shell runs."""
    (bench.work / "session.yaml").write_text(SESSION)
    ran = bench.record(SPANS, "--with", "session.yaml", "--telemetry")
    assert (ran.code, ran.stderr) == (0, "")
    report = show(bench)
    shells = json.loads((bench.work / "made.json").read_text())
    trace = bench.read()
    lives = [row.args for row in trace.slices if row.args.get("kind") == "process"]
    named = {args["pid"]: args["parent_span"] for args in lives if "parent_span" in args}
    assert [named[pid] for pid in shells] == ["0000000000000011", "0000000000000022"]
    for tool in report["machine"]["tools"]:
        assert (tool["evidence"], tool["processes"], tool["disputed"]) == (["identity"], 2, 0)
    assert report["machine"]["disputed"] == []


def test_what_the_machine_did_goes_with_a_recorder_that_is_killed_and_it_is_said(bench: Bench) -> None:
    """The agent goes on as without a recorder, and what is recovered of it says what is missing."""
    (bench.work / "session.yaml").write_text(SESSION)
    script = """
        agent = Claude("s1"); agent.start(); agent.prompt(); agent.begin("open")
        say("ready"); wait(); Path("after").touch()
    """
    running = bench.start(script, "--with", "session.yaml")
    running.expect("ready")
    journal = bench.wait_for(b'"tool_use_id":"open"')
    kill(running.process.pid)
    running.go_on()
    running.process.communicate(timeout=60)  # until the agent let go of its output
    assert (bench.work / "after").exists()
    ran = bench.command("recover", str(journal))
    assert ran.code == 0, ran.stderr
    assert "degraded: what the machine did was in memory until the end, and went with the recorder" in ran.stdout
    assert json.loads(bench.command("show", "--format", "json", "out.pftrace").stdout)["machine"] is None


UNPRIVILEGED = """
import ctypes, os, sys
for capability in range(64):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""PR_CAPBSET_DROP of <linux/prctl.h>: what is executed from there on has no privileges, root's program neither."""


def test_without_privileges_it_says_what_it_could_not_see(bench: Bench) -> None:
    """Tools have their processes still; what takes programs in the kernel is named, and is no zero."""
    (bench.work / "session.yaml").write_text(SESSION)
    argv = [sys.executable, "-c", UNPRIVILEGED, *bench.omn.argv]
    bench.omn = types.SimpleNamespace(argv=argv, environment=bench.omn.environment)
    script = """
        import subprocess
        agent = Claude("s1"); agent.start(); agent.prompt()
        agent.begin("c1"); subprocess.run(["sleep", "0.05"]); agent.finish("c1")
        agent.stop(); agent.end()
    """
    ran = bench.record(script, "--with", "session.yaml")
    assert ran.code == 0, ran.stderr
    report = show(bench)
    (tool,) = report["machine"]["tools"]
    assert (tool["processes"], tool["evidence"]) == (1, ["temporal"])
    assert "proc.exit cpu_ns" not in tool["figures"]
    said = report["machine"]["runs"][0]["reservations"]
    assert any("proc.exit: degraded: " in sentence and "nothing of what it used" in sentence for sentence in said)


@pytest.mark.spec("AGT-8")
def test_no_word_of_a_command_line_is_kept_without_content(bench: Bench) -> None:
    """A program's name may be of what a person wrote, so that it is left out with the arguments."""
    script = """
        import shutil, subprocess
        shutil.copy("/bin/sleep", "ARGWORD")
        agent = Claude("s1"); agent.start(); agent.prompt()
        agent.begin("c1"); subprocess.run(["./ARGWORD", "0.03"]); agent.finish("c1")
        agent.stop(); agent.end()
        os.unlink("ARGWORD")
    """
    (bench.work / "session.yaml").write_text(
        SESSION + "  - {source: mem.rss, mode: poll, keys: [comm], emits: [timeline]}\n"
    )
    for content in ("1", "0"):
        ran = bench.record(
            script, "--with", "session.yaml", "-o", f"{content}.pftrace", AGENTPROF_CAPTURE_CONTENTS=content
        )
        assert ran.code == 0, ran.stderr
        trace = bench.read(f"{content}.pftrace")
        assert any(row.args.get("kind") == "process" and "figures" in row.args for row in trace.slices)
    found = bench.find_words(b"ARGWORD")
    assert {Path(path).name for path, _ in found} == {"1.pftrace"}


@pytest.mark.parametrize(("name", "figures"), [("polled", {"mem.rss"}), ("traced", {"sched.offcpu", "mem.rss"})])
def test_a_ready_session_is_asked_by_its_name(bench: Bench, name: str, figures: set[str]) -> None:
    """What waits, writes and speaks has its figures of each source that follows it."""
    if name == "traced" and os.geteuid() != 0:
        pytest.skip("only root loads programs into the kernel here")
    script = """
        import subprocess
        agent = Claude("s1"); agent.start(); agent.prompt()
        agent.begin("c1"); subprocess.run(["sleep", "1"]); agent.finish("c1")
        agent.stop(); agent.end()
    """
    ran = bench.record(script, "--with", name)
    assert (ran.code, ran.stderr) == (0, "")
    (tool,) = show(bench)["machine"]["tools"]
    assert (tool["processes"], figures - tool["figures"].keys()) == (1, set())
    assert any("cpu.util" in path for path in bench.read().counters)


def test_a_session_that_cannot_be_asked_refuses_the_launch(bench: Bench) -> None:
    """The harness never runs: what is wrong with the session is said as omn says it of a run."""
    wrong = {
        "launch: [make]\nrequests: [{source: mem.rss}]": (2, "a recording's program is the harness"),
        "requests: [{source: mem.rss, target: {pid: 1}}]": (2, "a recording's process is the harness"),
        "requests: [{source: cpu.util, target: {cgroup: /nowhere}}]": (1, "/nowhere"),
    }
    for text, (code, said) in wrong.items():
        (bench.work / "session.yaml").write_text(text)
        ran = bench.record("Path('ran').touch()", "--with", "session.yaml")
        assert (ran.code, said in ran.stderr) == (code, True), ran.stderr
    assert [path.name for path in bench.work.iterdir()] == ["session.yaml"]
    assert not bench.journals()
