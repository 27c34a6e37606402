"""`omn agent show`: recordings read back into answers, of this recorder and of others, old and broken ones."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from agent_sessions import ClaudeLines, write_lines
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omn_agent.encoding.write import write_recording
from omn_agent.harness import Harness
from omn_agent.reading.captures import read_captures
from omn_agent.reading.figures import compute_union
from omn_agent.reading.report import make_report
from omn_agent.reading.text import render_report
from omn_agent.recording import Attempt as AttemptRow
from omn_agent.recording import (
    Capture,
    Compaction,
    Configuration,
    Delegation,
    Process,
    Prompt,
    Recording,
    Response,
    Samples,
    Script,
    Tool,
    Turn,
    Usage,
)
from omn_export.perfetto.tracks import Clock, ClockSnapshot
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from omn_core.api import RequestError

pytestmark = pytest.mark.spec("AGT-10")

SECOND = 1_000_000_000
WALL = 1_772_355_600 * SECOND


def write(path: Path, *captures: Capture, harness: Harness = Harness.PI, **changes: Any) -> Path:
    """Write a recording's file."""
    with path.open("wb") as stream:
        write_recording(stream, Recording(harness, list(captures), **changes))
    return path


def show(*paths: Path) -> dict[str, Any]:
    """Return the report on files."""
    return make_report(read_captures(paths))


def make_capture(session: str = "s1", at: float = 0, length: float = 10, **changes: Any) -> Capture:
    """Return a capture of some seconds on the wall clock."""
    start_ns = WALL + int(at * SECOND)
    fields = {"capture_id": f"c-{session}-{at}", "stop_reason": "manual", **changes}
    return Capture(session, start_ns=start_ns, end_ns=start_ns + int(length * SECOND), **fields)


def at(second: float) -> int:
    """Return a time on the wall clock."""
    return WALL + int(second * SECOND)


def make_parent() -> Capture:
    """Return a capture with some of everything."""
    return make_capture(
        label="code-mode",
        configuration=Configuration("m1", "garden", "high", 1_000, ("codemode",)),
        prompts=[Prompt(at(0.1), at(9), text="p", attempts=[AttemptRow(at(0.2), at(8), [Turn(0, at(0.3), at(3))])])],
        responses=[
            Response(at(1), at(2), "garden", "m1", Usage(100, 20)),
            Response(at(3), at(4), "garden", "m2", Usage(180, 45)),
            Response(None, at(4.5), usage=Usage(None, 5)),
            Response(at(8), None),
        ],
        tools=[
            Tool("read", "t1", at(2), at(2.5), args={"path": "a"}, has_args=True),
            Tool(
                "bash", "t2", at(2.25), at(6), args={"command": "make"}, has_args=True, intent="build it", is_error=True
            ),
            Tool("task", "t3", at(5), at(7), delegation=Delegation({}, "kid")),
            Tool("run", "t4", at(2), at(3), args={"code": "a\nb"}, has_args=True, script=Script("js", "a\nb")),
            Tool("grep", "t5", at(2.1), at(2.2), parent_call_id="t4"),
            Tool("edit", "t6", at(9), None),
        ],
        compactions=[Compaction(at(6), at(6.5), outcome="success", tokens_before=450)],
        samples=Samples(context_tokens=[(at(1), 100), (at(3), 400)], dropped_events=[(at(5), 3)]),
    )


def test_a_session_and_its_child_are_one_row(tmp_path: Path) -> None:
    """Sums are of both, context is the largest agent's, the window is from the first to the last."""
    child = make_capture(
        "kid", 5.2, 6, parent_session="s1", configuration=Configuration("m3", "other", "low", 2_000),
        responses=[Response(at(6), at(8), usage=Usage(40, 15))],
        tools=[Tool("read", "k1", at(8), at(8.5))],
        samples=Samples(context_tokens=[(at(6), 300)]),
    )  # fmt: skip
    report = show(write(tmp_path / "a.pftrace", make_parent(), child))
    (row,) = report["groups"]
    expected = {
        "session": "s1",
        "label": "code-mode",
        "session_labels": ["codemode"],
        "captures": 2,
        "start_ns": at(0),
        "window_ns": int(11.2 * SECOND),
        "harnesses": ["pi"],
        "providers": ["garden", "other"],
        "models": ["m1", "m2", "m3"],
        "efforts": ["high", "low"],
        "input_tokens": 320,
        "output_tokens": 85,
        "responses_with_usage": 4,
        "output_tokens_per_second": 20.0,
        "context_tokens": 450,
        "context_share": 0.45,
        "peak_concurrent_tools": 2,
        "prompts": 1,
        "turns": 1,
        "responses": 5,
        "tools": 6,
        "scripts": 1,
        "compactions": 1,
        "incomplete": 2,
    }
    assert {name: row[name] for name in expected} == expected
    # Responses and tools cover 1 to 8.5 s, each moment once; what was cut off was not measured.
    assert row["busy_share"] == pytest.approx(7.5 / 11.2)
    slowest = report["slow_tools"][0]
    assert (slowest["name"], slowest["duration_ns"], slowest["is_error"]) == ("bash", int(3.75 * SECOND), True)
    assert slowest["about"] == "build it"
    about = {tool["name"]: tool["about"] for tool in report["slow_tools"] if tool["session"] == "s1"}
    assert about["read"] == '{"path": "a"}'
    (script,) = report["scripts"]
    assert (script["language"], script["lines"], script["calls"]) == ("js", 2, ["grep"])
    parent = next(capture for capture in report["captures"] if capture["session"] == "s1")
    assert (parent["dropped_events"], parent["context_window_tokens"]) == (3, 1_000)
    timings = [row["duration_ns"] for row in report["responses"] if row["session"] == "s1"]
    assert sorted(timings, key=str) == [SECOND, SECOND, None, None]


def test_what_was_not_recorded_says_so(tmp_path: Path) -> None:
    """A capture with nothing in it has no tokens, no context, no busy share and no zero in their place."""
    report = show(write(tmp_path / "a.pftrace", make_capture()))
    (row,) = report["groups"]
    absent = ("input_tokens", "output_tokens", "context_tokens", "context_share", "busy_share", "turns", "label",
              "output_tokens_per_second", "peak_concurrent_tools")  # fmt: skip
    assert {name: row[name] for name in absent} == dict.fromkeys(absent)
    assert (row["tools"], row["responses"]) == (0, 0)
    text = render_report(report)
    assert "tokens    input Not recorded, output Not recorded" in text
    assert "busy      Not recorded" in text


def test_a_changed_limit_leaves_the_share_out(tmp_path: Path) -> None:
    """The context's share of two limits is no share."""
    capture = make_capture(
        configuration=Configuration("a", context_window_tokens=100),
        changes=[(at(5), Configuration("b", context_window_tokens=200))],
        samples=Samples(context_tokens=[(at(1), 50)]),
    )
    (row,) = show(write(tmp_path / "a.pftrace", capture))["groups"]
    assert (row["context_tokens"], row["context_share"], row["models"]) == (50, None, ["a", "b"])


def test_children_without_one_parent_have_rows_of_their_own(tmp_path: Path) -> None:
    """Their parent is not there, is one of two that ran, is their own child; repeats are told apart by time."""
    captures = [
        make_capture("p", 0), make_capture("p", 100), make_capture("kid-1", 2, 1, parent_session="p"),
        make_capture("kid-2", 102, 1, parent_session="p"), make_capture("orphan", 3, 1, parent_session="gone"),
        make_capture("a", 200, 5, parent_session="b"), make_capture("b", 200, 5, parent_session="a"),
        make_capture("own", 300, 5, parent_session="own"),
        make_capture("q", 400), make_capture("q", 401), make_capture("torn", 402, 1, parent_session="q"),
        make_capture("grandkid", 2.2, 0.1, parent_session="kid-1"),
    ]  # fmt: skip
    rows = show(write(tmp_path / "a.pftrace", *captures))["groups"]
    found = sorted((row["session"], row["captures"]) for row in rows)
    assert found == [("a", 1), ("b", 1), ("orphan", 1), ("own", 1), ("p", 2), ("p", 3), ("q", 1), ("q", 1), ("torn", 1)]


def test_captures_of_one_process_keep_their_own(tmp_path: Path) -> None:
    """Two captures with the same process and session, overlapping or not, stay apart with what is theirs."""
    process = Process(42, 42, 7)
    captures = [
        make_capture("s", 0, 10, process=process, tools=[Tool("one", "1", at(5.5), at(6))]),
        make_capture("s", 5, 10, process=process, prompts=[Prompt(at(6), at(7), length=1)],
                     tools=[Tool("two", "2", at(5.5), at(6)), Tool("x", "3", at(7), at(8))]),
        make_capture("s", 20, 10, process=process, responses=[Response(at(21), at(22), usage=Usage(7, 7))]),
    ]  # fmt: skip
    rows = show(write(tmp_path / "a.pftrace", *captures))["groups"]
    assert [(row["tools"], row["prompts"], row["responses"], row["input_tokens"]) for row in rows] == [
        (1, 0, 0, None),
        (2, 1, 0, None),
        (0, 0, 1, 7),
    ]


def test_files_of_unrelated_boots_are_on_one_clock(tmp_path: Path) -> None:
    """A child recorded in another file and on another boot falls into its parent's row at its wall time."""
    paths = []
    for boot, monotonic, session, second in (("one", 5 * SECOND, "p", 0), ("two", 900 * SECOND, "kid", 2)):
        snapshot = ClockSnapshot({Clock.MONOTONIC: monotonic, Clock.BOOTTIME: monotonic * 2, Clock.REALTIME: WALL})
        start_ns = monotonic + second * SECOND
        capture = Capture(
            session, f"c{session}", start_ns, start_ns + 4 * SECOND, parent_session="p" if session == "kid" else None
        )
        path = tmp_path / f"{boot}.pftrace"
        write(path, capture, clock=Clock.MONOTONIC, boot=boot, clock_snapshots=[snapshot])
        paths.append(path)
    report = show(*paths)
    (row,) = report["groups"]
    assert (row["captures"], row["start_ns"], row["window_ns"]) == (2, at(0), 6 * SECOND)
    assert report["health"]["has_one_clock"] is True


def test_without_a_snapshot_times_of_several_captures_are_not_combined(tmp_path: Path) -> None:
    """A clock that nothing relates to the wall clock is an error that is counted."""
    captures = [
        Capture(session, f"c{session}", 5, 900, parent_session=parent) for session, parent in (("p", None), ("k", "p"))
    ]
    report = show(write(tmp_path / "a.pftrace", *captures, clock=Clock.MONOTONIC))
    (row,) = report["groups"]
    assert (row["captures"], row["window_ns"], row["busy_share"]) == (2, None, None)
    assert report["health"]["files"][0]["clock_errors"] == 4
    assert "times of several captures are not combined" in render_report(report)


class Hand:
    """A recording made packet by packet, as older and other recorders did."""

    def __init__(self) -> None:
        self.trace = protos.Trace()

    def track(self, uuid: int, name: str, parent: int = 0, *, counter: bool = False) -> None:
        """Describe a track."""
        row = self.trace.packet.add().track_descriptor
        row.uuid, row.name, row.parent_uuid = uuid, name, parent
        if counter:
            row.counter.SetInParent()

    def event(self, ts_ns: int, what: int, track: int, name: str = "", category: str = "", **args: Any) -> Any:
        """Add an event; a double underscore in an argument's name is a dot."""
        packet = self.trace.packet.add(timestamp=ts_ns, timestamp_clock_id=1, trusted_packet_sequence_id=9)
        event = packet.track_event
        event.type, event.track_uuid = what, track
        if name:
            event.name = name
        if category:
            event.categories.append(category)
        for key, value in args.items():
            row = event.debug_annotations.add(name=key.replace("__", "."))
            field = (
                "bool_value" if isinstance(value, bool) else "int_value" if isinstance(value, int) else "string_value"
            )
            setattr(row, field, value)
        return packet

    def write(self, path: Path) -> Path:
        """Write the file."""
        path.write_bytes(self.trace.SerializeToString())
        return path


BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


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
    for second, value in ((0, 0), (2, 120), (9, 0)):
        hand.event(at(second), COUNTER, 5).track_event.counter_value = value
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


def test_a_torn_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """What came before the tear is an answer, and the rest is counted."""
    whole = write(tmp_path / "a.pftrace", make_parent()).read_bytes()
    torn = tmp_path / "torn.pftrace"
    torn.write_bytes(whole[:-30])
    report = show(torn)
    assert len(report["captures"]) == 1
    assert report["health"]["files"][0]["torn_bytes"] > 0
    assert "bytes at the end are no packet" in render_report(report)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b'{"traceEvents": []}', "is a JSON trace"),
        (b"\x1f\x8b\x08\x00", "compressed with gzip"),
        (b"\xff" * 100, "is no Perfetto recording"),
        (b"\x00" * 100, "is no Perfetto recording"),
        (b"\x0a\xff\xff\xff\xff\x7f", "is no Perfetto recording"),
        (protos.Trace(packet=[protos.TracePacket(timestamp=1)]).SerializeToString(), "no capture of a coding agent"),
    ],
)
def test_what_is_no_recording_is_one_sentence(omn: Any, tmp_path: Path, content: bytes, reason: str) -> None:
    """The request is refused by what is wrong with the file."""
    path = tmp_path / "x.pftrace"
    path.write_bytes(content)
    ran = omn("agent", "show", str(path))
    assert (ran.code, ran.stdout) == (2, b"")
    assert reason in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_file_that_is_not_there_is_refused(omn: Any, tmp_path: Path) -> None:
    """So is one that is a folder."""
    assert "cannot be read" in omn("agent", "show", str(tmp_path / "none")).stderr
    assert "cannot be read" in omn("agent", "show", str(tmp_path)).stderr


def test_two_gibibytes_of_nothing_are_refused_at_once(tmp_path: Path) -> None:
    """A huge file that is no recording is not read to its end."""
    path = tmp_path / "huge.pftrace"
    with path.open("wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(RequestError, match="no Perfetto recording"):
        read_captures([path])


def test_memory_is_of_the_agents_events_and_not_of_the_file(tmp_path: Path) -> None:
    """24 MiB of other packets around a recording take no more than a few chunks."""
    filler = protos.Trace()
    packet = filler.packet.add(timestamp=1, trusted_packet_sequence_id=77)
    packet.track_event.type, packet.track_event.track_uuid = BEGIN, 4711
    packet.track_event.name = "x" * 4_000
    block = filler.SerializeToString()
    whole = write(tmp_path / "a.pftrace", make_parent()).read_bytes()
    big = tmp_path / "big.pftrace"
    with big.open("wb") as file:
        file.write(block * 3_000)
        file.write(whole)
        file.write(block * 3_000)
    tracemalloc.start()
    try:
        report = show(big)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert report["health"]["files"][0]["packets"] > 6_000
    assert report["groups"][0]["tools"] == 5
    assert peak < 12 << 20


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_bytes_are_an_answer_or_a_refusal(tmp_path: Path, data: st.DataObject) -> None:
    """A recording with bytes changed, taken away or put in never ends in anything else."""
    stream = io.BytesIO()
    write_recording(stream, Recording(Harness.PI, [make_parent()]))
    content = bytearray(stream.getvalue())
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    path = tmp_path / "fuzz.pftrace"
    path.write_bytes(bytes(content))
    try:
        render_report(show(path))
    except RequestError as error:
        assert "\n" not in error.reason


def test_an_import_is_shown_from_the_command_line(omn: Any, tmp_path: Path) -> None:
    """What was imported reads back with its totals, as text and as JSON."""
    lines = ClaudeLines("s")
    rows = [
        lines.user(0, "dig"),
        lines.answer(2, "m1", (3, 40), cache=(500, 20), calls=[("t1", "Read\x1b[31m", {"file_path": "bed.txt"})]),
        lines.result(4, "t1"),
        lines.answer(6, "m2", (5, 9), request="r2"),
    ]
    write_lines(tmp_path / "s.jsonl", rows)
    output = str(tmp_path / "out.pftrace")
    assert omn("agent", "import", "claude", str(tmp_path / "s.jsonl"), "-o", output).code == 0
    (row,) = omn("agent", "show", output, "--format", "json").document["groups"]
    expected = {"session": "s", "input_tokens": 8, "output_tokens": 49, "responses": 2, "tools": 1, "prompts": 1,
                "context_tokens": 523, "context_share": None, "output_tokens_per_second": None}  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    ran = omn("agent", "show", output)
    text = ran.stdout.decode()
    assert ran.code == 0
    assert text.startswith("What happened in this recording?\n\ns (claude)\n")
    assert "tokens    input 8, output 49; 2 of 2 responses report any" in text
    assert "\x1b" not in text


def test_time_that_is_covered_twice_counts_once() -> None:
    """The union of intervals, whatever their order."""
    rows: Iterable[tuple[int, int]] = [(5, 9), (0, 4), (1, 2), (8, 12), (20, 20)]
    assert compute_union(rows) == 11
