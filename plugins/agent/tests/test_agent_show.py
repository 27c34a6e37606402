"""`omn agent show`: recordings read back into answers, of this recorder and of others, old and broken ones."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from agent_sessions import ClaudeLines, write_lines
from agent_traces import BEGIN, SECOND, WALL, at, make_capture, make_parent, show, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omn_agent.encoding.write import write_recording
from omn_agent.harness import Harness
from omn_agent.reading.activity import compute_union
from omn_agent.reading.captures import read_captures
from omn_agent.reading.text import render_report
from omn_agent.recording import (
    Capture,
    Configuration,
    ModelCall,
    Process,
    Prompt,
    Recording,
    Response,
    Samples,
    Script,
    Tool,
    Usage,
)
from omn_export.perfetto.tracks import Clock, ClockSnapshot
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
from perfetto_reading import read_trace

from omn_core.api import RequestError

pytestmark = pytest.mark.spec("AGT-10")


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
    assert row["activity"] == {
        "busy_ns": 7.5 * SECOND, "responses_ns": 2 * SECOND, "tools_ns": 3.5 * SECOND, "both_ns": 2 * SECOND,
        "scripts_ns": 0,
    }  # fmt: skip
    slowest = report["slow_tools"][0]
    assert (slowest["name"], slowest["duration_ns"], slowest["is_error"]) == ("bash", int(3.75 * SECOND), True)
    assert slowest["about"] == "build it"
    about = {tool["name"]: tool["about"] for tool in report["slow_tools"] if tool["session"] == "s1"}
    assert about["read"] == '{"path": "a"}'
    (script,) = report["scripts"]
    assert (script["language"], script["lines"], script["calls"]) == ("js", 2, ["grep"])
    parent = next(capture for capture in report["captures"] if capture["session"] == "s1")
    assert (parent["dropped_events"], parent["context_window_tokens"]) == (3, 1_000)
    assert [
        (row["session"], row["input_tokens"], row["output_tokens"], row["tools"]) for row in report["captures"]
    ] == [
        ("s1", 280, 70, 5),
        ("kid", 40, 15, 1),
    ]
    timings = [row["duration_ns"] for row in report["responses"] if row["session"] == "s1"]
    assert sorted(timings, key=str) == [SECOND, SECOND, None, None]


def test_what_was_not_recorded_says_so(tmp_path: Path) -> None:
    """A capture with nothing in it has no tokens, no context, no busy share and no zero in their place."""
    report = show(write(tmp_path / "a.pftrace", make_capture()))
    (row,) = report["groups"]
    absent = ("input_tokens", "output_tokens", "context_tokens", "context_share", "busy_share", "turns", "label",
              "output_tokens_per_second", "peak_concurrent_tools", "session_labels", "activity", "cache_read_tokens",
              "first_prompt")  # fmt: skip
    assert {name: row[name] for name in absent} == dict.fromkeys(absent)
    assert (row["tools"], row["responses"]) == (0, 0)
    text = render_report(report)
    assert "tokens    input Not recorded, output Not recorded" in text
    assert "busy      Not recorded" in text


def test_a_script_is_busy_where_nothing_inside_it_is(tmp_path: Path) -> None:
    """Its calls are tools; a model that it called is neither a response nor busy on its own, nor in any speed."""
    script = Script("js", "a", model_calls=[ModelCall("classify", at(4), at(5)), ModelCall("classify", at(8), None)])
    capture = make_capture(
        tools=[Tool("run", "s", at(2), at(6), script=script), Tool("read", "t", at(3), at(4), parent_call_id="s")],
        responses=[Response(at(5.5), at(7), usage=Usage(1, 30))],
    )
    stranger = make_capture("s2", tools=[Tool("grep", "t", at(3), at(4), parent_call_id="s")])
    report = show(write(tmp_path / "a.pftrace", capture, stranger))
    row = report["groups"][0]
    assert row["activity"] == {
        "busy_ns": 5 * SECOND, "responses_ns": 1.5 * SECOND, "tools_ns": SECOND, "both_ns": 0,
        "scripts_ns": 2.5 * SECOND,
    }  # fmt: skip
    assert (row["output_tokens_per_second"], row["responses"], row["tools"], row["scripts"]) == (20.0, 1, 1, 1)
    assert (row["peak_concurrent_tools"], row["incomplete"]) == (1, 1)
    assert [script["calls"] for script in report["scripts"]] == [["read", "classify", "classify"]]


def test_what_was_not_timed_is_said_beside_what_was(tmp_path: Path) -> None:
    """Responses without a start leave their part of the busy time unknown, and not 0."""
    capture = make_capture(responses=[Response(None, at(2))], tools=[Tool("read", "t", at(2), at(4))])
    report = show(write(tmp_path / "a.pftrace", capture))
    activity = report["groups"][0]["activity"]
    assert (activity["responses_ns"], activity["both_ns"], activity["tools_ns"]) == (None, None, 2 * SECOND)
    assert "20.0%: tools 20.0%; how long responses took was not recorded" in render_report(report)


def test_tools_are_summed_up_by_their_names(tmp_path: Path) -> None:
    """Calls, failures that were told, the longest, and the time that they cover, each moment once."""
    capture = make_capture(
        tools=[
            Tool("bash", "1", at(1), at(3), is_error=True),
            Tool("bash", "2", at(2), at(4), is_error=False),
            Tool("read", "3", at(5), at(6)),
            Tool("edit", "4", at(7), None, args={"path": "bed"}, has_args=True),
            Tool("grep", "5", None, at(8)),
        ],
    )
    report = show(write(tmp_path / "a.pftrace", capture))
    rows = {row.pop("name"): row for row in report["tools"]}
    assert rows["bash"] == {"calls": 2, "failed": 1, "longest_ns": 2 * SECOND, "covered_ns": 3 * SECOND}
    assert rows["read"] == {"calls": 1, "failed": None, "longest_ns": SECOND, "covered_ns": SECOND}
    assert rows["edit"] == rows["grep"] == {"calls": 1, "failed": None, "longest_ns": None, "covered_ns": None}
    (cut,) = report["unfinished"]
    assert (cut["name"], cut["start_ns"], cut["about"]) == ("edit", at(7), '{"path": "bed"}')
    assert cut["observed_ns"] == 3 * SECOND
    text = render_report(show(write(tmp_path / "b.pftrace", capture)))
    assert "\nUnfinished\n       since  09:00:07  edit" in text


def test_a_terminal_gets_lines_that_it_has_room_for(tmp_path: Path) -> None:
    """Lists are cut and say so, what is said of a session is folded; names obey nobody."""
    tools = [Tool("bash\x1b[2J", "1", at(1), at(3), args={"command": "x" * 500}, has_args=True)]
    prompt = Prompt(at(0.5), at(4), text="mend the\nfence " * 40)
    report = show(write(tmp_path / "a\nb.pftrace", make_capture("s\x07", prompts=[prompt], tools=tools)))
    lines = render_report(report, 60).splitlines()
    assert max(map(len, lines)) <= 60
    assert sum(line.endswith("...") for line in lines) == 2
    assert "\x1b" not in "".join(lines)
    assert "  asked     mend the fence mend the fence mend the fence" in lines


def test_tokens_of_a_cache_are_said_and_added_to_nothing(tmp_path: Path) -> None:
    """Providers count them inside their input or beside it: they are figures of their own."""
    responses = [Response(at(1), at(2), usage=Usage(10, 5, 500, 30)), Response(at(3), at(4), usage=Usage(20, 5, 700))]
    report = show(write(tmp_path / "a.pftrace", make_capture(responses=responses)))
    (row,) = report["groups"]
    assert (row["input_tokens"], row["cache_read_tokens"], row["cache_write_tokens"]) == (30, 1200, 30)
    assert "cache     read 1200 tokens, written 30 tokens" in render_report(report)


def test_a_response_has_the_times_that_were_recorded_of_it(tmp_path: Path) -> None:
    """Its first content is from its own start; what a provider is said to have taken is a field of its own."""
    timings = ("request-including-retries", "mod-request-including-retries", None)
    responses = [
        Response(at(1 + 2 * place), at(2 + 2 * place + place / 10), model="m", usage=Usage(1, 9), timing=timing)
        for place, timing in enumerate(timings)
    ]
    responses[1].ttft_ms, responses[2].first_content_ns = 120.5, SECOND // 2
    report = show(write(tmp_path / "a.pftrace", make_capture(responses=responses)))
    assert [row["timing"] for row in report["responses"]] == list(timings)
    assert [(row["ttft_ms"], row["first_content_ns"]) for row in report["responses"]] == [
        (None, None),
        (120.5, None),
        (None, SECOND // 2),
    ]
    text = render_report(report)
    assert "     1.200 s  09:00:05  m  9 output tokens, its first content after 0.500 s\n     1.100 s" in text
    assert "ttft" not in text


def test_a_later_version_of_the_contract_is_said(tmp_path: Path) -> None:
    """Its names may mean something else."""
    report = show(write(tmp_path / "a.pftrace", make_capture(fields={"schema_version": 2})))
    assert "s1: follows version 2 of the contract, and is read as version 1" in render_report(report)
    assert "version" not in render_report(show(write(tmp_path / "b.pftrace", make_capture())))


def test_labels_are_shown_as_given_once_and_of_the_session_alone(tmp_path: Path) -> None:
    """Those of a configuration count, those of a subagent are its own."""
    parent = make_capture(
        configuration=Configuration("m", session_labels=("code mode", "B")),
        changes=[(at(2), Configuration("n", session_labels=("B", "c")))],
    )
    child = make_capture("kid", 1, 2, parent_session="s1", configuration=Configuration(session_labels=("kid's",)))
    report = show(write(tmp_path / "a.pftrace", parent, child))
    assert report["groups"][0]["session_labels"] == ["code mode", "B", "c"]
    assert "s1 (pi) [code mode] [B] [c]\n" in render_report(report)


@pytest.mark.parametrize("harness", list(Harness), ids=lambda harness: harness.value)
def test_as_many_rows_are_read_as_were_written(tmp_path: Path, harness: Harness) -> None:
    """Every harness's categories are an agent's; code that shares nothing with the writer counts the same."""
    parent = make_parent()
    path = write(tmp_path / "a.pftrace", parent, harness=harness)
    (row,) = show(path)["groups"]
    counted = {name: row[name] for name in ("prompts", "turns", "responses", "tools", "scripts", "compactions")}
    assert counted == {"prompts": 1, "turns": 1, "responses": 4, "tools": 5, "scripts": 1, "compactions": 1}
    assert row["harnesses"] == [harness.value]
    trace = read_trace(path.read_bytes())
    named = {name: len(trace.named(name)) for name in ("prompt", "attempt", "turn", "response", "compact")}
    assert named == {"prompt": 1, "attempt": 1, "turn": 1, "response": 4, "compact": 1}
    assert sum(span.args.get("kind") == "tool-execution" for span in trace.slices) == 5
    assert sum(span.args.get("kind") == "script" for span in trace.slices) == 1
    # Of each counter: where it begins, what was reported, and the closing zero.
    lengths = {name.rpartition("|")[2]: len(values) for name, values in trace.counters.items()}
    assert lengths == {"Input tokens": 4, "Output tokens": 5, "Context size": 4, "Context window": 2,
                       "Dropped events": 2}  # fmt: skip


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
    """A child recorded in another file, on another boot or on none that is known, stands at its wall time."""
    paths = []
    rows = (("one", 5 * SECOND, "p", 0), ("two", 900 * SECOND, "kid", 2), (None, 70 * SECOND, "other", 4))
    for boot, monotonic, session, second in rows:
        snapshot = ClockSnapshot({Clock.MONOTONIC: monotonic, Clock.BOOTTIME: monotonic * 2, Clock.REALTIME: WALL})
        start_ns = monotonic + second * SECOND
        capture = Capture(
            session, f"c{session}", start_ns, start_ns + 4 * SECOND, parent_session=None if session == "p" else "p"
        )
        path = tmp_path / f"{boot}.pftrace"
        write(path, capture, clock=Clock.MONOTONIC, boot=boot, clock_snapshots=[snapshot])
        paths.append(path)
    report = show(*paths)
    (row,) = report["groups"]
    assert (row["captures"], row["start_ns"], row["window_ns"]) == (3, at(0), 8 * SECOND)
    assert [capture["start_ns"] for capture in report["captures"]] == [at(0), at(2), at(4)]
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


def test_a_file_of_more_than_memory_should_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many events of agents there are, in a sentence, before they are all held."""
    path = write(tmp_path / "a.pftrace", make_parent())
    monkeypatch.setattr("omn_agent.reading.events.MOST_EVENTS", 20)
    with pytest.raises(RequestError, match="holds more than 20 events of agents"):
        read_captures([path])


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
