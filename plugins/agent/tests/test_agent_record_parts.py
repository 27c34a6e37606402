"""The recorder's parts: a journal within its bounds, files followed while they grow, windows, and what hooks say."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from omn_agent.harness import Harness
from omn_agent.hook import client
from omn_agent.importing.session import Session
from omn_agent.recorder import follow
from omn_agent.recorder.clock import Reading, Timeline, read_file_clock
from omn_agent.recorder.event import HarnessEvent, Launch
from omn_agent.recorder.findings import Findings, Window
from omn_agent.recorder.follow import Follower
from omn_agent.recorder.hook_events import apply_events
from omn_agent.recorder.hook_source import HookSource, parse_message
from omn_agent.recorder.journal import FULL, UNWRITTEN, create_journal, encode_line, parse_line
from omn_agent.recorder.journal_content import read_journal
from omn_agent.recorder.places import Places
from omn_agent.recorder.windows import cut_session, list_windows, make_segment_ids, make_snap
from omn_agent.recording import Compaction, Prompt, Response, Usage

from omn_core.api import MachineRefused


@pytest.fixture
def findings() -> Findings:
    """A recording from 1000 to 9000."""
    return Findings(Harness.CLAUDE, True, Timeline([Reading(1_000, 1_000, 1_000, 1)]), 1_000, 9_000)


def tell(findings: Findings, *events: tuple[int, str, dict[str, Any]]) -> Session:
    """Apply hooks of a session and return it."""
    made = [HarnessEvent(findings.harness, at, "s", f"hook.{name}", payload) for at, name, payload in events]
    apply_events(findings, made)
    return findings.sessions["s"]


@pytest.mark.spec("AGT-6")
def test_a_machine_that_is_up_for_months_is_told_of(tmp_path: Path) -> None:
    """Stamps of CLOCK_MONOTONIC pass 2^53 nanoseconds after 104 days: hooks and the journal have them whole."""
    stamp_ns = (1 << 53) + 1
    told = {"stamp_ns": stamp_ns, "harness": "claude", "input": {"session_id": "s", "hook_event_name": "Stop"}}
    event = parse_message(Harness.CLAUDE, json.dumps(told).encode())
    assert event is not None
    assert event.stamp_ns == stamp_ns
    begin = {"k": "begin", "harness": "claude", "clocks": [stamp_ns - 9, 1, 1, 1]}
    kept = {"k": "event", "s": stamp_ns, "i": "s", "n": event.kind, "p": {}}
    (tmp_path / "a.journal").write_bytes(encode_line(begin) + encode_line(kept))
    content = read_journal(tmp_path / "a.journal")
    assert ([row.stamp_ns for row in content.events], content.last_ns) == ([stamp_ns], stamp_ns)


@pytest.mark.spec("AGT-9")
def test_a_line_that_was_changed_is_none() -> None:
    """What is not exactly what was written is not read."""
    line = encode_line({"k": "event", "s": 7})
    assert parse_line(line) == {"k": "event", "s": 7}
    for broken in (line[:-1], line[:-2] + b"\n", line.replace(b"7", b"8"), b"", b"\n", b"zz {}\n", line[9:]):
        assert parse_line(broken) is None


@pytest.mark.spec("AGT-9")
def test_a_journal_is_its_owners_and_never_longer_than_it_may_be(tmp_path: Path) -> None:
    """Past its bound events are dropped and counted; how it ended still has its place."""
    journal = create_journal(tmp_path / "j", most_bytes=(1 << 20) + 500)
    for number in range(100):
        journal.add("event", s=number)
    journal.add("end", s=100)
    journal.close()
    lines = [parse_line(line) for line in (tmp_path / "j").read_bytes().splitlines(keepends=True)]
    kept = [line["s"] for line in lines if line is not None and line["k"] == "event"]
    assert kept == list(range(len(kept)))
    assert journal.lost == {FULL: 100 - len(kept)}
    assert 0 < len(kept) < 100
    assert lines[-1] == {"k": "end", "s": 100}
    assert (tmp_path / "j").stat().st_mode & 0o777 == 0o600
    with pytest.raises(MachineRefused, match="File exists"):
        create_journal(tmp_path / "j")


@pytest.mark.spec("AGT-9")
def test_what_a_full_disk_did_not_take_is_written_when_it_takes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that was half written is written over, never followed by another; past the bound they are counted."""
    journal = create_journal(tmp_path / "j")
    room = [30]

    def write(descriptor: int, content: bytes, offset: int) -> int:
        taken = min(len(content), max(room[0] - offset, 0))
        if not taken:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, bytes(content[:taken]), offset)

    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", write)
    journal.add("event", s=1)
    journal.add("event", s=2)
    journal.flush()
    for _ in range(9):
        journal.add("event", text="x" * (1 << 20))
    assert journal.lost == {UNWRITTEN: 2}
    room[0] = 1 << 30
    journal.add("end", s=3)
    journal.close()
    lines = [parse_line(line) for line in (tmp_path / "j").read_bytes().splitlines(keepends=True)]
    assert [line and line.get("s") for line in lines] == [1, 2, *[None] * 7, 3]
    assert all(line is not None for line in lines)


def test_a_file_is_followed_line_by_line_and_a_torn_line_is_waited_for(tmp_path: Path) -> None:
    """Each line comes once, whole; what is no JSON is counted; at the very end a line needs no end of line."""
    path, follower = tmp_path / "s.jsonl", Follower(0)
    assert list(follower.read(path)) == []
    path.write_text('{"n":1}\n{"n":')
    assert list(follower.read(path)) == [{"n": 1}]
    assert list(follower.read(path)) == []
    with path.open("a") as file:
        file.write("2}\nbroken\n[3]\n\n" + '{"n":"\u2028"}\n{"n":4}')
    assert list(follower.read(path)) == [{"n": 2}, {"n": "\u2028"}]
    assert list(follower.read(path, is_last=True)) == [{"n": 4}]
    assert (follower.malformed, follower.replaced) == (2, 0)


def test_a_file_that_was_replaced_or_cut_is_read_from_its_beginning(tmp_path: Path) -> None:
    """And counted: whoever reads records twice knows them by their ids."""
    path, follower = tmp_path / "s.jsonl", Follower(0)
    path.write_text('{"n":1}\n{"n":2}\n')
    assert len(list(follower.read(path))) == 2
    path.write_text('{"n":3}\n')
    assert list(follower.read(path)) == [{"n": 3}]
    other = tmp_path / "other"
    other.write_text('{"n":4}\n{"n":5}\n')
    other.replace(path)
    assert list(follower.read(path)) == [{"n": 4}, {"n": 5}]
    assert follower.replaced == 2


def test_a_line_that_is_too_long_is_passed_over_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is longer than is read at once is no line of a session; the lines after it are read."""
    monkeypatch.setattr(follow, "_MOST_AT_ONCE", 64)
    path, follower = tmp_path / "s.jsonl", Follower(0)
    path.write_text('{"n":1}\n{"long":"' + "x" * 200 + '"}\n{"n":2}\n')
    found = []
    for _ in range(8):
        found += list(follower.read(path))
    assert found == [{"n": 1}, {"n": 2}]
    assert (follower.too_long > 0, follower.malformed, follower.has_more(path)) == (True, 1, False)


def test_a_file_that_is_written_at_once_is_never_older_than_the_beginning(tmp_path: Path) -> None:
    """A harness may have written all that it does within the step of the clock in which the recording began."""
    for number in range(50):
        follower, path = Follower(read_file_clock()), tmp_path / f"{number}.jsonl"
        path.write_text('{"n":1}\n')
        assert list(follower.read(path)) == [{"n": 1}]


def test_a_file_that_nobody_wrote_meanwhile_is_left_alone_until_somebody_does(tmp_path: Path) -> None:
    """A session of yesterday in the same folder is none of the recording's; resumed, it is read whole."""
    path, follower = tmp_path / "s.jsonl", Follower(1_000_000_000)
    path.write_text('{"n":1}\n')
    os.utime(path, ns=(0, 999_999_999))
    assert list(follower.read(path)) == []
    os.utime(path, ns=(0, 1_000_000_000))
    assert list(follower.read(path)) == [{"n": 1}]


def test_what_stands_beside_a_childs_file_is_one_object_over_several_lines(tmp_path: Path) -> None:
    """It comes once it is whole, and once."""
    path, follower = tmp_path / "agent-a.meta.json", Follower(0)
    path.write_text('{\n  "agentType":')
    assert list(follower.read(path)) == []
    path.write_text(json.dumps({"agentType": "Explore"}, indent=2))
    assert list(follower.read(path)) == [{"agentType": "Explore"}]
    assert list(follower.read(path)) == []


@pytest.mark.parametrize(
    ("harness", "name", "variable", "inside"),
    [
        (Harness.CLAUDE, "projects/-srv-a-b--c/s.jsonl", "CLAUDE_CONFIG_DIR", True),
        (Harness.CLAUDE, "projects/-srv-a-b--c/s/subagents/agent-1.jsonl", "CLAUDE_CONFIG_DIR", True),
        (Harness.CLAUDE, "projects/-srv-other/s.jsonl", "CLAUDE_CONFIG_DIR", False),
        (Harness.CODEX, "sessions/2020/01/01/rollout-1.jsonl", "CODEX_HOME", False),
        (Harness.PI, "sessions/--srv-a.b-_c--/1_s.jsonl", "PI_CODING_AGENT_DIR", True),
        (Harness.PI, "sessions/--srv-a--/1_s.jsonl", "PI_CODING_AGENT_DIR", True),
        (Harness.MUSE, "muse/sessions/2020/01/01/s/session.jsonl", "XDG_DATA_HOME", False),
    ],
)
def test_a_harnesss_files_are_where_it_keeps_them(
    tmp_path: Path, harness: Harness, name: str, variable: str, inside: bool
) -> None:
    """By its own variable, its working folder or the days around now."""
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.touch()
    places = Places(harness, {variable: str(tmp_path), "HOME": "/none"}, "/srv/a.b/_c")
    assert (path in list(places.iter_files())) is inside
    assert places.get_root() in path.parents


@pytest.mark.parametrize("told", [1 << 52, float("inf"), float("nan"), -1, "2", None])
def test_a_duration_that_no_clock_could_show_is_none(findings: Findings, told: Any) -> None:
    """It would begin before the machine did, or nowhere: the tool ends at its hook, and has the time between them."""
    session = tell(
        findings,
        (1_000_000, "PreToolUse", {"tool_use_id": "a", "tool_name": "Bash"}),
        (6_000_000, "PostToolUse", {"tool_use_id": "a", "tool_name": "Bash", "duration_ms": told}),
    )
    tool = session.tools["a"]
    assert (tool.start_ns, tool.end_ns, tool.timing) == (1_000_000, 6_000_000, "hook-dispatch")


@pytest.mark.spec("AGT-7")
def test_a_tool_stands_where_its_duration_ends_at_the_hook_of_its_end(findings: Findings) -> None:
    """The time between the hooks is kept beside it; without a duration it is the tool's; without an end it has none."""
    findings.end_ns = 90_000_000
    session = tell(
        findings,
        (1_000_000, "PreToolUse", {"tool_use_id": "a", "tool_name": "Bash", "tool_input": {"x": 1}}),
        (6_000_000, "PostToolUse", {"tool_use_id": "a", "tool_name": "Bash", "duration_ms": 2}),
        (7_000_000, "PreToolUse", {"tool_use_id": "b", "tool_name": "Read"}),
        (8_000_000, "PostToolUseFailure", {"tool_use_id": "b", "tool_name": "Read"}),
        (9_000_000, "PreToolUse", {"tool_use_id": "c", "tool_name": "Read"}),
        (9_500_000, "PostToolUse", {"tool_use_id": "c", "tool_name": "Read", "duration_ms": 1}),
        (9_600_000, "PreToolUse", {"tool_use_id": "d", "tool_name": "Read"}),
        (9_700_000, "PostToolUse", {"tool_use_id": "e", "tool_name": "Read"}),
    )
    rows = {key: (tool.start_ns, tool.end_ns, tool.dispatch_ns, tool.timing) for key, tool in session.tools.items()}
    assert rows == {
        "a": (4_000_000, 6_000_000, 5_000_000, "native-duration"),
        "b": (7_000_000, 8_000_000, None, "hook-dispatch"),
        "c": (9_000_000, 9_500_000, 500_000, "native-duration"),
        "d": (9_600_000, None, None, "hook-dispatch"),
        "e": (None, 9_700_000, None, "hook-dispatch"),
    }
    assert (session.tools["a"].args, session.tools["b"].is_error, session.tools["a"].is_error) == (
        {"x": 1},
        True,
        False,
    )


@pytest.mark.spec("AGT-7")
def test_a_prompt_of_the_file_and_its_hook_are_one(findings: Findings) -> None:
    """It begins when the hook says and ends at Stop; one that no Stop ends is cut by the next."""
    session = findings.get_session("s")
    session.prompts.append(Prompt(1_900, None, text="one"))
    tell(
        findings,
        (2_000, "UserPromptSubmit", {"prompt": "one"}),
        (3_000, "Stop", {}),
        (4_000, "UserPromptSubmit", {"prompt_length": 7}),
        (6_000, "UserPromptSubmit", {"prompt": "three"}),
        (7_000, "Stop", {}),
    )
    assert [(row.start_ns, row.end_ns, row.length) for row in session.prompts] == [
        (2_000, 3_000, None), (4_000, None, 7), (6_000, 7_000, 5),
    ]  # fmt: skip
    assert session.interruptions == [5_999]


@pytest.mark.spec("AGT-7")
def test_prompts_that_are_as_long_as_one_another_are_each_their_own(findings: Findings) -> None:
    """The same words twice within seconds are two prompts, of the file as of hooks, the nearest of each other."""
    session = findings.get_session("s")
    session.prompts += [Prompt(1_900, None, text="yes"), Prompt(2_900, None, text="yes")]
    tell(
        findings,
        (2_000, "UserPromptSubmit", {"prompt": "yes"}),
        (2_500, "Stop", {}),
        (3_000, "UserPromptSubmit", {"prompt": "yes"}),
        (3_500, "Stop", {}),
        (4_000, "UserPromptSubmit", {"prompt": "yes"}),
    )
    assert [(row.start_ns, row.end_ns) for row in session.prompts] == [(2_000, 2_500), (3_000, 3_500), (4_000, None)]


@pytest.mark.spec("AGT-7")
def test_a_stop_ends_the_prompt_before_it_though_the_next_ones_line_is_stamped_earlier(findings: Findings) -> None:
    """Lines are stamped in whole milliseconds, cut off: a prompt just after a Stop has the stamp of just before it."""
    session = findings.get_session("s")
    session.prompts += [Prompt(1_900, None, text="one"), Prompt(2_900, None, text="three")]
    tell(
        findings,
        (2_000, "UserPromptSubmit", {"prompt": "one"}),
        (3_000, "Stop", {}),
        (3_500, "UserPromptSubmit", {"prompt": "three"}),
    )
    assert [(row.start_ns, row.end_ns) for row in session.prompts] == [(2_000, 3_000), (3_500, None)]


@pytest.mark.spec("AGT-7")
def test_a_compaction_lasts_from_hook_to_hook_and_has_what_the_file_says(findings: Findings) -> None:
    """One that failed never ended; one that the file has is the same one."""
    session = findings.get_session("s")
    session.compactions.append(Compaction(None, 3_400, tokens_before=900))
    tell(
        findings,
        (2_000, "PreCompact", {"trigger": "auto"}),
        (3_500, "PostCompact", {}),
        (5_000, "PreCompact", {"trigger": "manual"}),
    )
    rows = [(row.start_ns, row.end_ns, row.reason, row.outcome, row.tokens_before) for row in session.compactions]
    assert rows == [(2_000, 3_500, "auto", "success", 900), (5_000, None, "manual", None, None)]


@pytest.mark.spec("AGT-7")
def test_codex_names_a_child_by_its_own_thread(findings: Findings) -> None:
    """On a subagent's hooks the session is the parent's and the agent the child."""
    findings.harness = Harness.CODEX
    tell(
        findings,
        (2_000, "PreToolUse", {"agent_id": "kid", "tool_use_id": "a", "tool_name": "shell"}),
        (2_500, "Stop", {}),
    )
    assert findings.sessions["kid"].parent_session == "s"
    assert list(findings.sessions["kid"].tools) == ["a"]


def test_without_a_compiler_hooks_run_a_slower_client_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration of the launch names the interpreter, and the recording says what that costs."""
    monkeypatch.setattr(client, "PROGRAM", tmp_path / "absent")
    source = HookSource(Harness.CLAUDE)
    try:
        asked = source.prepare(Launch(Harness.CLAUDE, ("claude",), {}, tmp_path, True))
        assert "no compiler" in " ".join(asked.degradations)
        assert asked.arguments == ("--plugin-dir", str(tmp_path / "plugin"))
        hooks = json.loads((tmp_path / "plugin" / "hooks" / "hooks.json").read_text())["hooks"]
        (handler,) = hooks["Stop"][0]["hooks"]
        assert (handler["command"], handler["args"][-3:]) == (sys.executable, ["claude", str(tmp_path), "on"])
        told = {"session_id": "s", "hook_event_name": "Stop"}
        subprocess.run([handler["command"], *handler["args"]], input=json.dumps(told).encode(), check=True)
        assert [event.kind for event in source.receive()] == ["hook.Stop"]
    finally:
        source.close()


@pytest.mark.parametrize("option", ["--bare", "--safe-mode"])
def test_a_launch_that_runs_no_hooks_is_given_none_and_it_is_said(tmp_path: Path, option: str) -> None:
    """The option is named, and nothing is put before the harness's arguments."""
    source = HookSource(Harness.CLAUDE)
    try:
        asked = source.prepare(Launch(Harness.CLAUDE, ("claude", option), {}, tmp_path, True))
        assert (asked.arguments, option in asked.degradations[0], source.list_degradations()) == ((), True, ())
    finally:
        source.close()


def test_events_that_nobody_knows_are_counted(findings: Findings) -> None:
    """One without a session, and one of another version; those that say nothing of what was done are not."""
    tell(findings, (2_000, "Stop", {}), (2_100, "Notification", {}), (2_200, "Novelty", {}))
    apply_events(findings, [HarnessEvent(Harness.CLAUDE, 3_000, None, "hook.Unparsed", {})])
    assert findings.health == {"unknown_hooks": 1, "unparsed_hooks": 1}


def test_a_window_takes_what_is_in_it_and_what_was_under_way(findings: Findings) -> None:
    """Nothing of before is filled in: a running prompt is one from the opening on, a running tool its completion."""
    session = Session("s", first_ns=100, last_ns=8_000)
    session.prompts = [
        Prompt(100, None, text="old"),
        Prompt(500, None, text="running"),
        Prompt(4_000, None, text="new"),
    ]
    session.responses = [Response(None, 900, usage=Usage(5)), Response(800, 1_200), Response(None, 2_000)]
    running = session.add_call(600, "running", "Bash", {"a": 1})
    running.end_ns = 2_500
    session.add_call(700, "over", "Bash", {}).end_ns = 800
    session.add_call(3_000, "new", "Bash", {"b": 1})
    session.configure(100, model="poppy-4")
    session.configure(5_000, model="poppy-5")
    (window,) = list_windows(findings, session)
    assert (window.opened_ns, window.closed_ns, window.is_resumed) == (1_000, 8_000, True)
    cut = cut_session(session, 1_000, 8_000)
    assert [(row.start_ns, row.text, row.started_before_capture) for row in cut.prompts] == [
        (1_000, None, True), (4_000, "new", False),
    ]  # fmt: skip
    assert [row.end_ns for row in cut.responses] == [2_000]
    assert {key: (row.start_ns, row.has_args) for key, row in cut.tools.items()} == {
        "running": (None, False), "new": (3_000, True),
    }  # fmt: skip
    assert [(at, found.model) for at, found in cut.configurations] == [(1_000, "poppy-4"), (5_000, "poppy-5")]
    findings.windows["s"] = [Window(200, 500), Window(2_000, None), Window(9_500, None)]
    assert [row.opened_ns for row in list_windows(findings, session)] == [2_000]
    assert make_segment_ids("s", 3) == ["s", "s#2", "s#3"]


def test_a_stamp_in_whole_milliseconds_is_of_the_window_that_it_seems_to_be_before() -> None:
    """Less than a millisecond before an opening is after it; a whole one is not."""
    snap = make_snap([5_000_000])
    assert [snap(at) for at in (4_000_000, 4_000_001, 4_999_999, 5_000_000, 6_000_000)] == [
        4_000_000, 5_000_000, 5_000_000, 5_000_000, 6_000_000,
    ]  # fmt: skip
