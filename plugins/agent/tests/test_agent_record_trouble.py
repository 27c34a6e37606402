"""Recordings that go wrong: harnesses and recorders that are killed, disks that are full, hooks that come in floods."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from agent_recording import Bench, kill, read_maxima

pytestmark = pytest.mark.spec("AGT-9")

BEGUN = "agent = Claude('s'); agent.start(); agent.prompt(); agent.tool('done'); agent.begin('open'); "


@pytest.fixture
def bench(omn: Any, tmp_path: Path) -> Bench:
    """A home, a working folder and programs."""
    made = Bench(omn, tmp_path)
    made.prepare()
    return made


@pytest.mark.spec("AGT-7")
def test_a_harness_that_is_killed_leaves_its_unfinished_work_incomplete(bench: Bench) -> None:
    """The recording is whole: what was done is, what was under way is incomplete, and nothing is made up."""
    ran = bench.record(BEGUN + "die()")
    assert ran.code == 0, ran.stderr
    trace = bench.read()
    done, cut = sorted(trace.named("Bash"), key=lambda row: row.start)
    assert ("incomplete" not in done.args, cut.args["incomplete"]) == (True, True)
    assert trace.one("prompt").args["incomplete"] is True
    assert trace.one("profile (1)").args["stop_reason"] == "harness-exit"
    assert read_maxima(trace, "Input tokens") == [200]


def test_a_recorder_that_is_killed_is_recovered_with_what_hooks_left(bench: Bench) -> None:
    """Its capture stays open, without closing zeros; later hooks are ids and counted drops; nothing is written over."""
    running = bench.start(BEGUN + "say('ready'); wait(); agent.finish('open'); Path('left').touch()")
    running.expect("ready")
    journal = bench.wait_for(b'"tool_use_id":"open"')
    busy = bench.command("recover", str(journal))
    assert (busy.code, "is at work" in busy.stderr) == (2, True)
    kill(running.process.pid)
    running.process.wait(timeout=60)
    running.go_on()
    until = time.monotonic() + 60
    while not (bench.work / "left").exists() and time.monotonic() < until:
        time.sleep(0.02)
    running.process.communicate(timeout=60)
    (spooled,) = [path for path in (bench.own / "run").rglob("spool/*") if path.name != "drops"]
    assert b"RESULTWORD" not in spooled.read_bytes()
    ran = bench.command("recover", str(journal))
    assert (ran.code, ran.stderr) == (0, "")
    assert "hook drops: 1" in ran.stdout
    trace = bench.read()
    capture = trace.one("profile (1)")
    assert (capture.end, capture.args["hook_drops"]) == (None, 1)
    assert [row.args["call_id"] for row in trace.named("Bash") if row.end is not None] == ["done", "open"]
    assert all(values[-1] for path, values in trace.counters.items() if path.endswith("Input tokens"))
    assert not bench.journals()
    assert not list((bench.own / "run").iterdir())


def test_a_recording_is_stopped_in_mid_session_and_the_harness_goes_on(bench: Bench) -> None:
    """SIGTERM ends the recording alone: it is published at once, and the harness does what it was to do."""
    running = bench.start(BEGUN + "say('ready'); wait(); agent.finish('open'); Path('after').touch()")
    running.expect("ready")
    bench.wait_for(b'"tool_use_id":"open"')
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(timeout=60) == 0
    trace = bench.read()
    assert trace.one("profile (1)").args["stop_reason"] == "stopped"
    assert [row.args.get("incomplete") for row in sorted(trace.named("Bash"), key=lambda row: row.start)] == [
        None,
        True,
    ]
    running.go_on()
    assert "goes on and is recorded no more" in running.finish().stderr  # the pipe's end is the harness's end
    assert (bench.work / "after").exists()


def test_an_interrupt_of_the_keyboard_is_the_harness_s_business(bench: Bench) -> None:
    """A terminal sends SIGINT to both: the recorder records on."""
    running = bench.start(BEGUN + "say('ready'); wait(); agent.finish('open'); agent.stop(); agent.end()")
    running.expect("ready")
    running.process.send_signal(signal.SIGINT)
    running.go_on()
    assert running.finish().code == 0
    assert "incomplete" not in bench.read().one("prompt").args


@pytest.fixture
def small_disk(bench: Bench) -> list[str]:
    """How to run a command with the recorder's cache on a file system of 256 KiB, in a mount namespace of its own."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can mount a small file system here")
    place = bench.own / "cache"
    place.mkdir()
    mount = f'mount -t tmpfs -o size=256k,mode=700 none {place} && exec "$@"'
    if subprocess.run(["unshare", "-m", "sh", "-c", mount, "sh", "true"], check=False).returncode:
        pytest.skip("only root can mount a small file system here")
    return ["unshare", "-m", "sh", "-c", mount, "sh"]


def test_a_full_disk_costs_events_that_are_counted_and_no_more(bench: Bench, small_disk: list[str]) -> None:
    """The journal holds what fits, the rest is counted, and the recording is published elsewhere."""
    script = """
        agent = Claude('s'); agent.start(); agent.prompt()
        agent.tool('first')
        for number in range(24):
            agent.hook("PreToolUse", tool_name="Bash", tool_use_id=f"t{number}", tool_input={"command": "x" * 20000})
        say('ready'); wait()
        for number in range(400):
            agent.hook("PreToolUse", tool_name="Bash", tool_use_id=f"u{number}", tool_input={"command": "x" * 30000})
        agent.end()
    """
    bench.omn = type("Wrapped", (), {"argv": (*small_disk, *bench.omn.argv), "environment": bench.omn.environment})()
    running = bench.start(script)
    running.expect("ready")
    running.go_on()
    ran = running.finish()
    assert ran.code == 0, ran.stderr
    assert "journal unwritten: " in ran.stdout
    trace = bench.read()
    assert trace.one("profile (1)").args["journal_unwritten"] > 0
    (depth,) = (values for path, values in trace.counters.items() if path.endswith("Tracing|Queue depth"))
    assert max(depth) >= (8 << 20) // 31_000 - 1  # 8 MiB of lines wait until there is no room for more either
    assert {"first", "t0"} <= {row.args["call_id"] for row in trace.named("Bash")}


def test_an_output_that_cannot_be_written_keeps_the_journal(bench: Bench) -> None:
    """The folder of the output is gone at the end: the journal is named, and recovered to another place."""
    (bench.work / "gone").mkdir()
    ran = bench.record(BEGUN + "Path('gone').rmdir()", "-o", "gone/out.pftrace")
    assert ran.code == 1
    (journal,) = bench.journals()
    assert str(journal) in ran.stderr
    other = bench.record("agent = Claude('s'); agent.start(); agent.end()", "-o", "other.pftrace")
    assert (other.code, str(journal) in other.stderr) == (0, True)  # whoever records next is told of it
    assert bench.command("recover", str(journal), "-o", "out.pftrace").code == 0
    assert len(bench.read().named("Bash")) == 2


def test_a_journal_with_torn_and_changed_lines_is_recovered_without_them(bench: Bench) -> None:
    """Each is counted; nothing of them is in the recording, and everything else is."""
    (bench.work / "gone").mkdir()
    ran = bench.record(BEGUN + "agent.tool('lost'); Path('gone').rmdir()", "-o", "gone/out.pftrace")
    assert ran.code == 1
    (journal,) = bench.journals()
    lines = journal.read_bytes().splitlines(keepends=True)
    changed = [line.replace(b'"lost"', b'"list"') for line in lines]
    assert changed != lines
    journal.write_bytes(b"".join(changed[:-1]) + changed[-1][:-9])
    ran = bench.command("recover", str(journal), "-o", "out.pftrace")
    assert ran.code == 0, ran.stderr
    trace = bench.read()
    capture = trace.one("profile (1)")
    damaged = sum(line != before for line, before in zip(changed, lines, strict=True)) + 1
    assert (capture.args["journal_corrupt"], capture.end) == (damaged, None)
    assert f": journal corrupt: {damaged}\n" in bench.command("show", "out.pftrace").stdout
    assert {row.args["call_id"] for row in trace.named("Bash")} == {"done", "open"}


def test_what_is_no_journal_is_refused(bench: Bench) -> None:
    """A file of another kind is no journal, and one that is not there is none either."""
    (bench.work / "text").write_text("hello\n")
    for name in ("text", "absent"):
        assert bench.command("recover", name).code == 2


@pytest.mark.spec("AGT-3")
def test_a_hook_of_a_megabyte_is_recorded_within_bounds(bench: Bench) -> None:
    """The input's keys and text are cut at 65,536 units, and its whole size is told."""
    ran = bench.record("agent = Claude('s'); agent.start(); agent.tool('big', content='x' * (1 << 20)); agent.end()")
    assert ran.code == 0, ran.stderr
    tool = bench.read().one("Bash")
    assert (len(tool.args["args"]["content"]), tool.args["args_truncated"]) == (65_536 - len("content"), True)
    assert bench.read().one("tool-preflight").args["bytes"] == (1 << 20) + len('{"content":""}')


def test_a_flood_of_hook_processes_is_taken_without_loss(bench: Bench) -> None:
    """400 processes as fast as four threads start them, hundreds in a second: each event is there."""
    script = """
        import concurrent.futures
        agent = Claude('s'); agent.start()
        def call(number):
            agent.hook("PreToolUse", tool_name="Bash", tool_use_id=f"t{number}", tool_input={"number": number})
            agent.hook("PostToolUse", tool_name="Bash", tool_use_id=f"t{number}", tool_response={})
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(call, range(200)))
        say(f"{400 / (time.monotonic() - began):.0f} hooks a second")
        agent.end()
    """
    ran = bench.record(script)
    assert ran.code == 0, ran.stderr
    print(ran.stdout)
    tools = bench.read().named("Bash")
    assert {row.args["call_id"] for row in tools} == {f"t{number}" for number in range(200)}
    assert not any("incomplete" in row.args for row in tools)
    assert not any("lost" in line or "drops" in line for line in ran.stdout.splitlines())


def test_a_flood_of_events_into_the_socket_is_taken_without_loss(bench: Bench) -> None:
    """5,000 events on one connection as fast as they are taken: each is there."""
    script = """
        import socket
        agent = Claude('s'); agent.start()
        client, name, folder, content = agent.hooks["PreToolUse"][0][-4:]
        os.chdir(folder)
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel.connect("hooks")
        began = time.monotonic()
        for number in range(5000):
            name = ("PreToolUse", "PostToolUse")[number % 2]
            event = {"session_id": "s", "hook_event_name": name, "tool_name": "Bash", "tool_use_id": f"t{number // 2}"}
            now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            told = {"stamp_ns": now, "harness": "claude", "pid": os.getpid(), "size": 0, "input": event}
            channel.send(json.dumps(told).encode())
        say(f"{5000 / (time.monotonic() - began):.0f} events a second")
        channel.close()
        agent.end()
    """
    ran = bench.record(script)
    assert ran.code == 0, ran.stderr
    print(ran.stdout)
    tools = bench.read().named("Bash")
    assert {row.args["call_id"] for row in tools} == {f"t{number}" for number in range(2500)}
    assert not any("incomplete" in row.args for row in tools)
