"""`omn agent show` of what others recorded: older names, other recorders, events of programs that are no agents."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_traces import BEGIN, END, INSTANT, SECOND, Hand, at, make_capture, show, write
from omn_agent.flows import compute_delegation_flow
from omn_agent.reading.text import render_report
from omn_agent.recording import Delegation, Process, Prompt, Tool

pytestmark = pytest.mark.spec("AGT-1", "AGT-10")


def test_an_older_recording_is_read_by_its_old_names(tmp_path: Path) -> None:
    """Dotted counters, prefixed and camel-case fields, lanes by number, a tracing span, summary instants."""
    hand = Hand()
    for uuid, name in ((1, "Agent"), (2, "tools.lane.0"), (3, "tools.lane.1"), (4, "Responses")):
        hand.track(uuid, name)
    hand.track(5, "llm.tokens.input", counter=True)
    hand.event(
        at(0), BEGIN, 1, "tracing", "agentprof.metadata", agentprof__sessionId="old", agentprof__harness="claude"
    )
    hand.event(at(1), BEGIN, 1, "turn", "agentprof.activity")
    hand.event(at(1), BEGIN, 2, "read", "agentprof.activity", tool__callId="1")
    hand.event(at(1.5), BEGIN, 3, "bash", "agentprof.activity")
    hand.event(at(2), END, 2)
    hand.event(at(3), END, 3)
    hand.event(at(4), INSTANT, 4, "assistant-message", "agentprof.activity", message__durationNs=2 * SECOND,
               message__outputTokens=50)  # fmt: skip
    hand.event(at(5), END, 1)
    hand.count(5, (0, 0), (2, 120), (9, 0))
    hand.event(at(9), END, 1)
    report = show(hand.write(tmp_path / "old.pftrace"))
    (row,) = report["groups"]
    expected = {"session": "old", "harnesses": ["claude"], "turns": 1, "tools": 2, "responses": 1, "input_tokens": 120,
                "output_tokens": 50, "output_tokens_per_second": 25.0, "peak_concurrent_tools": 2, "incomplete": 0,
                "context_tokens": None}  # fmt: skip
    assert {name: row[name] for name in expected} == expected


def test_a_capture_that_only_began_and_scripts_of_older_files(tmp_path: Path) -> None:
    """A tracing-start instant has its activity until the last event; a script's lines are counted in its source."""
    hand = Hand()
    hand.track(1, "Session")
    hand.track(2, "Tools")
    hand.event(at(0), INSTANT, 1, "tracing-start", "pi.session", session_id="s")
    hand.event(at(1), BEGIN, 2, "run", "pi.tools", kind="script", args="a\nb\n", args_truncated=True)
    hand.event(at(2), END, 2)
    hand.event(at(3), INSTANT, 1, "tool-preflight", "pi.tools", call_id="c", args="early")
    hand.event(at(3), BEGIN, 2, "edit", "pi.tools", kind="tool-execution", call_id="c")
    hand.event(at(6), END, 2)
    report = show(hand.write(tmp_path / "old.pftrace"))
    (row,) = report["groups"]
    assert (row["window_ns"], row["tools"], row["scripts"]) == (6 * SECOND, 1, 1)
    (script,) = report["scripts"]
    assert (script["lines"], script["lines_at_least"], script["language"]) == (2, True, None)
    assert report["slow_tools"][0]["about"] == '"early"'
    assert report["captures"][0]["is_open"] is True
    assert ">= 2 lines" in render_report(report)


def test_somebody_elses_events_are_left_alone(tmp_path: Path) -> None:
    """Slices of other categories are no activity, also where they share the thread and stand around the agent's."""
    hand = Hand()
    hand.track(1, "main")
    hand.track(7, "other")
    for second in range(3):
        hand.event(at(second), BEGIN, 7, f"frame {second}", "toplevel")
    hand.event(at(0), BEGIN, 1, "outer", "toplevel")
    hand.event(at(1), BEGIN, 1, "profile (1)", "pi.metadata", kind="capture", session_id="s")
    hand.event(at(2), BEGIN, 1, "inner", "toplevel")
    hand.event(at(3), END, 1)
    hand.event(at(4), END, 1, "profile (1)")
    hand.event(at(5), END, 1)
    report = show(hand.write(tmp_path / "mixed.pftrace"))
    (row,) = report["groups"]
    assert (row["window_ns"], row["tools"], row["incomplete"]) == (3 * SECOND, 0, 0)
    assert report["health"]["files"][0]["unfinished_ends"] == 1


COUNTER_NAMES = {
    "input_tokens": ("Input tokens", "llm.tokens.input"),
    "output_tokens": ("Output tokens", "llm.tokens.output"),
    "context_tokens": ("Context size", "llm.context.size", "llm.tokens.context"),
    "context_window_tokens": ("Context window", "llm.context.window"),
    "dropped_events": ("Dropped events", "tracing.dropped"),
    "lane_overflows": ("Lane overflows", "tracing.lane_overflows"),
}


@pytest.mark.parametrize(("field", "name"), [(field, name) for field, names in COUNTER_NAMES.items() for name in names])
def test_a_counter_is_read_by_its_label_and_by_its_older_key(tmp_path: Path, field: str, name: str) -> None:
    """Also where it stands flat beside everything else; its closing zero is no total and no limit."""
    hand = Hand()
    hand.track(1, "Session")
    hand.track(2, name, counter=True)
    hand.event(at(0), BEGIN, 1, "tracing", "pi.metadata", session_id="s")
    hand.count(2, (0, 0), (1, 40), (2, 90), (9, 0))
    hand.event(at(9), END, 1)
    report = show(hand.write(tmp_path / "a.pftrace"))
    values = {**report["captures"][0], **report["groups"][0]}
    limit = {40, 90} if field == "context_window_tokens" else None
    assert values[field] == (None if limit else 90)


def test_a_context_window_has_one_limit_or_none(tmp_path: Path) -> None:
    """A zero ends the limit before it, and is none itself."""
    hand = Hand()
    hand.track(1, "Session")
    hand.track(2, "llm.context.window", counter=True)
    hand.track(3, "Context size", counter=True)
    hand.event(at(0), BEGIN, 1, "tracing", "pi.metadata", session_id="s")
    hand.count(2, (0, 200), (4, 0), (6, 200), (9, 0))
    hand.count(3, (1, 50), (9, 0))
    hand.event(at(9), END, 1)
    (row,) = show(hand.write(tmp_path / "a.pftrace"))["groups"]
    assert (row["context_tokens"], row["context_share"]) == (50, 0.25)


def test_without_roots_what_belongs_together_stands_in_one_process(tmp_path: Path) -> None:
    """Two sessions at once in older files: their tracks and counters are their processes'."""
    hand = Hand()
    for pid in (10, 20):
        hand.process(pid, pid, "pi")
        hand.track(pid + 1, "Session", pid)
        hand.track(pid + 2, "tools.lane.0", pid)
        hand.track(pid + 3, "llm.tokens.output", pid, counter=True)
        hand.event(at(pid / 100), BEGIN, pid + 1, "tracing", "pi.metadata", session_id=f"s{pid}")
        hand.event(at(2), BEGIN, pid + 2, f"tool{pid}", "pi.tools")
        hand.event(at(3), END, pid + 2)
        hand.count(pid + 3, (1, 0), (4, pid), (9, 0))
        hand.event(at(9), END, pid + 1)
    report = show(hand.write(tmp_path / "a.pftrace"))
    assert [(row["session"], row["tools"], row["output_tokens"]) for row in report["groups"]] == [
        ("s10", 1, 10),
        ("s20", 1, 20),
    ]
    assert {tool["name"]: tool["session"] for tool in report["slow_tools"]} == {"tool10": "s10", "tool20": "s20"}


def test_a_child_is_found_by_what_its_launch_returned_or_by_its_flow(tmp_path: Path) -> None:
    """Where it names no parent: by the child of a tool or an older workflow, or by the flow to its first input."""
    hand = Hand()
    for uuid, name in ((1, "Session"), (2, "workflow.child.0"), (3, "Tools")):
        hand.track(uuid, name)
    hand.event(at(0), BEGIN, 1, "tracing", "pi.metadata", session_id="p")
    hand.event(at(1), BEGIN, 2, "reviewer", "pi.workflow", workflow__childSession="by-workflow")
    hand.event(at(1), BEGIN, 3, "task", "pi.tools", delegation=True).track_event.flow_ids.append(77)
    for place, (session, flow) in enumerate((("by-workflow", None), ("by-flow", 77), ("nobodys", 78))):
        track = 10 + place
        hand.track(track, "Session")
        hand.event(at(2), BEGIN, track, "tracing", "pi.metadata", session_id=session)
        taken = hand.event(at(3), INSTANT, track, "prompt-input", "pi.session").track_event
        if flow is not None:
            taken.terminating_flow_ids.append(flow)
        hand.event(at(4), END, track)
    hand.event(at(5), END, 2)
    hand.event(at(5), END, 3)
    hand.event(at(9), END, 1)
    report = show(hand.write(tmp_path / "a.pftrace"))
    groups = [[report["captures"][place]["session"] for place in row["members"]] for row in report["groups"]]
    assert groups == [["p", "by-workflow", "by-flow"], ["nobodys"]]
    assert report["groups"][0]["tools"] == 1


def test_flows_of_separate_files_are_not_joined(tmp_path: Path) -> None:
    """The same flow in another file is nobody's launch; ids that a session names hold over all files."""
    flow = compute_delegation_flow("kid")
    launch = Tool("task", "t", at(1), at(8), delegation=Delegation({}, "kid"))
    first = write(tmp_path / "a.pftrace", make_capture("p", tools=[launch]))
    hand = Hand()
    hand.track(1, "Session")
    hand.event(at(2), BEGIN, 1, "tracing", "pi.metadata", session_id="other")
    hand.event(at(3), INSTANT, 1, "prompt-input", "pi.session").track_event.terminating_flow_ids.append(flow)
    hand.event(at(4), END, 1)
    second = hand.write(tmp_path / "b.pftrace")
    third = write(tmp_path / "c.pftrace", make_capture("kid", 2, 3, prompts=[Prompt(at(3), at(4), length=1)]))
    report = show(first, second, third)
    groups = [[report["captures"][place]["session"] for place in row["members"]] for row in report["groups"]]
    assert groups == [["p", "kid"], ["other"]]


def test_a_session_that_was_gone_back_to_is_a_parent_by_its_own_id(tmp_path: Path) -> None:
    """A segment's name has a suffix; its children know the id that the harness gave it."""
    segment = make_capture("p#2", native_session_id="p")
    child = make_capture("kid", 2, 3, parent_session="p")
    report = show(write(tmp_path / "a.pftrace", segment, child))
    assert [row["captures"] for row in report["groups"]] == [2]


def test_a_processs_labels_name_no_agent(tmp_path: Path) -> None:
    """Several sessions share it: each is called by what it says of itself."""
    process = Process(42, 42, 7, ("somebody",))
    captures = [make_capture("s1", 0, 4, process=process), make_capture("s2", 5, 4, process=process, label="mine")]
    text = render_report(show(write(tmp_path / "a.pftrace", *captures)))
    assert "s1 (pi)\n" in text
    assert "mine (pi)\n" in text
    assert "somebody" not in text


def test_keys_of_an_input_stay_as_they_were_given(tmp_path: Path) -> None:
    """Only a recorder's own names are made alike."""
    args = {"filePath": "a", "tool.oldText": "b"}
    report = show(write(tmp_path / "a.pftrace", make_capture(tools=[Tool("edit", "t", at(1), at(2), args, True)])))
    assert report["slow_tools"][0]["about"] == '{"filePath": "a", "tool.oldText": "b"}'


def test_what_a_recorder_lost_is_said(tmp_path: Path) -> None:
    """Packets that were dropped, and those that do not decode."""
    hand = Hand()
    hand.track(1, "Session")
    hand.event(at(0), BEGIN, 1, "tracing", "pi.metadata", session_id="s")
    hand.event(at(1), INSTANT, 1, "x", "pi.session").previous_packet_dropped = 1
    hand.event(at(9), END, 1)
    path = hand.write(tmp_path / "a.pftrace")
    path.write_bytes(path.read_bytes() + b"\x0a\x02\xff\xff" + b"\x12\x01x")
    report = show(path)
    text = render_report(report)
    assert "a.pftrace: 1 times its recorder lost packets" in text
    assert "a.pftrace: 1 packets do not decode" in text
    assert "a.pftrace: 1 parts are no packet or too large" in text
    assert report["groups"][0]["window_ns"] == 9 * SECOND


def test_what_a_recording_says_of_its_own_losses_is_said(tmp_path: Path) -> None:
    """Of the whole recording, and of a session; and what was known less well. Figures that are no losses are not."""
    fields = {
        "losses": {"hook_drops": 3, "malformed_lines": 2}, "degradations": ["no hook told anything"],
        "unavailable_child_sessions": 1, "duplicate_records": 9, "import_lines": 9,
    }  # fmt: skip
    report = show(write(tmp_path / "a.pftrace", make_capture(fields=fields)))
    assert report["captures"][0]["losses"] == {
        "hook_drops": 3, "malformed_lines": 2, "unavailable_child_sessions": 1,
    }  # fmt: skip
    text = render_report(report)
    assert text.endswith(
        "\n  s1: hook drops: 3\n  s1: malformed lines: 2\n  s1: unavailable child sessions: 1"
        "\n  s1: degraded: no hook told anything"
    )
