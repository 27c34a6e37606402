"""Recordings in the contract's terms, encoded, and read back through the protocol buffers by code of its own."""

from __future__ import annotations

import io
from typing import Any

import attrs
import pytest
from omn_agent.content import count_lines, describe_input
from omn_agent.context import ContextItem, ContextSnapshot, compute_categories, compute_changes, compute_estimate
from omn_agent.encoding.write import write_recording
from omn_agent.flows import compute_delegation_flow
from omn_agent.harness import Area, Harness
from omn_agent.lanes import assign_lanes
from omn_agent.recording import (
    Attempt,
    Capture,
    Compaction,
    Configuration,
    Delegation,
    ModelCall,
    Process,
    Prompt,
    Recording,
    Request,
    Response,
    Samples,
    Script,
    Tool,
    Turn,
    Usage,
    Workflow,
)
from omn_export.perfetto.identity import compute_machine_id
from omn_export.perfetto.tracks import Clock, ClockSnapshot
from perfetto_reading import ReadTrace, read_trace

CHILD = "00000000-0000-4000-8000-000000000001"
ROOT = "agentprof.capture"


def make_capture(**changes: Any) -> Capture:
    """Return a capture from 1,000 to 9,000."""
    fields = {"session_id": "s1", "capture_id": "c1", "start_ns": 1_000, "end_ns": 9_000, "stop_reason": "manual"}
    return Capture(**{**fields, **changes})


def encode(*captures: Capture, harness: Harness = Harness.PI, **changes: Any) -> ReadTrace:
    """Return what a recording's file holds."""
    stream = io.BytesIO()
    write_recording(stream, Recording(harness, list(captures), **{"clock": Clock.MONOTONIC, **changes}))
    return read_trace(stream.getvalue())


@pytest.mark.spec("AGT-4")
def test_what_nobody_saw_begin_is_named_by_how_it_was_seen_to_end() -> None:
    """A request's headers, a tool's result, and a result on its way back: moments, and no length is made up."""
    tools = [
        Tool("read", "both", None, 2_000, middleware_ns=1_900, middleware_is_error=True, is_error=False),
        Tool("read", "back", None, 3_000, middleware_ns=3_000, middleware_is_error=False),
        Tool("read", "whole", 4_000, 4_500, middleware_ns=4_400, middleware_is_error=True),
    ]
    trace = encode(make_capture(tools=tools, requests=[Request(None, 1_500, status_code=200)]))
    request, result = trace.one("request"), trace.one("tool-result")
    both, back = sorted(trace.named("tool-middleware"), key=lambda row: row.start)
    moments = (request, result, both, back)
    assert [row.start for row in moments] == [1_500, 2_000, 1_900, 3_000]
    assert all(row.is_instant and row.args["start_not_recorded"] is True for row in moments)
    assert (request.args["status_code"], request.args["phase"]) == (200, "response-headers")
    assert [row.args["call_id"] for row in (result, both, back)] == ["both", "both", "back"]
    assert [row.args["middleware_is_error"] for row in (both, back, trace.one("read"))] == [True, False, True]


@pytest.mark.spec("AGT-5")
def test_counters_have_the_contracts_values() -> None:
    """Input 0 100 280 0, output 0 20 65 0, context 100 260 400 0 120 0 and a peak of 450 read back as written."""
    capture = make_capture(
        responses=[
            Response(1_100, 2_000, usage=Usage(100, 20, cache_read_tokens=7_000)),
            Response(3_000, 4_000, usage=Usage(180, 45)),
            Response(4_500, 4_600, usage=Usage(None, None)),
        ],
        compactions=[Compaction(5_000, 6_000, outcome="success", tokens_before=450)],
        samples=Samples(context_tokens=[(1_050, 100), (2_900, 260), (4_400, 400), (7_000, 120)]),
    )
    trace = encode(capture)
    assert trace.counters[f"{ROOT}|Input tokens"] == [0, 100, 280, 0]
    assert trace.counters[f"{ROOT}|Output tokens"] == [0, 20, 65, 0]
    assert trace.counters[f"{ROOT}|Context size"] == [100, 260, 400, 0, 120, 0]
    assert trace.one("profile (1)").args["peak_context_tokens"] == 450
    assert trace.points[f"{ROOT}|Input tokens"][-1] == (9_000, 0)
    assert len(trace.counters) == 3


@pytest.mark.spec("AGT-5")
def test_diagnostics_stand_one_nanosecond_before_the_closing_zeros() -> None:
    """65 tools at once fill 64 lanes; the one that found none is counted, and the count outlives the last zero."""
    tools = [Tool(f"t{index}", f"id{index}", 2_000, 3_000) for index in range(65)]
    trace = encode(make_capture(tools=tools, samples=Samples(resident_bytes=[(1_500, 4096)], cpu_us=[(1_500, 20)])))
    assert trace.points[f"{ROOT}|Tracing|Lane overflows"] == [(8_999, 1), (9_000, 0)]
    assert trace.counters[f"{ROOT}|Runtime|Resident memory"] == [4096, 0]
    assert trace.counters[f"{ROOT}|Runtime|CPU time (interval)"] == [20, 0]
    executed = [row for row in trace.slices if row.track == f"{ROOT}|Tools"]
    assert len(executed) == 64
    assert len({row.uuid for row in executed}) == 64
    assert {trace.descriptors[row.uuid].sibling_merge_behavior for row in executed} == {1}


@pytest.mark.spec("AGT-5")
def test_an_abrupt_end_has_no_zeros_and_leaves_its_spans_open() -> None:
    """Nobody saw the capture end: its span and the work under way stay open, and counters keep their last value."""
    capture = make_capture(
        end_ns=None,
        stop_reason=None,
        tools=[Tool("read", "t1", 2_000, None)],
        responses=[Response(1_100, 1_900, usage=Usage(5, 1))],
        prompts=[Prompt(1_010, None, length=3)],
    )
    trace = encode(capture)
    assert trace.one("profile (1)").end is None
    assert trace.one("read").end is None
    assert trace.one("prompt").end is None
    assert trace.counters[f"{ROOT}|Input tokens"] == [0, 5]


@pytest.mark.spec("AGT-1", "AGT-2")
def test_the_capture_span_says_what_was_recorded() -> None:
    """It carries its identity and configuration with every category off, its root merges with nothing."""
    capture = make_capture(
        areas=frozenset(),
        has_content=False,
        label="code-mode",
        configuration=Configuration("m", "p", "high", 200_000, ("codemode", "", "codemode", "x" * 120)),
        process=Process(42, 42, 7, ("session s1",)),
        prompts=[Prompt(1_500, 2_000, text="secret")],
        tools=[Tool("read", "t", 2_000, 3_000)],
        changes=[(3_000, Configuration("m2", "p")), (4_000, Configuration("m3", "p"))],
    )
    trace = encode(capture, boot="boot", clock_uncertainty_ns=50)
    profile = trace.one("profile (1)")
    expected = {
        "kind": "capture",
        "schema_version": 1,
        "harness": "pi",
        "capture_contents": False,
        "capture_id": "c1",
        "session_id": "s1",
        "label": "code-mode",
        "machine_id": compute_machine_id("boot"),
        "clock": "MONOTONIC",
        "clock_uncertainty_ns": 50,
        "model": "m",
        "provider": "p",
        "effort": "high",
        "context_window_tokens": 200_000,
        "session_labels": ["codemode", "x" * 100],
        "stop_reason": "manual",
    }
    assert expected.items() <= profile.args.items()
    assert profile.categories == ["pi.metadata"]
    assert "incomplete" not in profile.args
    assert "native_session_id" not in profile.args
    assert (profile.start, profile.end, profile.track) == (1_000, 9_000, "pi")
    changes = trace.named("run-configuration")
    assert [(row.args["model"], row.start, row.end) for row in changes] == [("m2", 3_000, 4_000), ("m3", 4_000, 9_000)]
    assert {row.track for row in changes} == {f"pi|{ROOT}|Tracing"}
    assert {row.name for row in trace.slices} == {"profile (1)", "run-configuration"}
    (root,) = [row for row in trace.descriptors.values() if row.name == ROOT]
    assert root.sibling_merge_behavior == 2
    (process,) = [row.process for row in trace.descriptors.values() if row.HasField("process")]
    assert (process.pid, list(process.process_labels)) == (42, ["session s1"])
    assert {packet.machine_id for packet in trace.packets} == {compute_machine_id("boot")}


@pytest.mark.spec("AGT-2")
def test_prompts_attempts_and_turns_nest_on_the_main_thread() -> None:
    """Each stands inside the one above; what crosses is kept within; an input carries its source alone."""
    prompt = Prompt(
        1_500, 4_000, text="a\U0001f600", source="interactive",
        attempts=[Attempt(1_600, 5_000, [Turn(0, 1_700, 2_000), Turn(1, 1_900, None)])],
    )  # fmt: skip
    trace = encode(make_capture(prompts=[prompt, Prompt(3_000, 4_500, length=9)]))
    (first, second), (one, two) = trace.named("prompt"), trace.named("turn")
    assert (first.start, first.end, second.start, second.end) == (1_500, 4_000, 4_000, 4_500)
    assert (trace.one("attempt").start, trace.one("attempt").end) == (1_600, 4_000)
    assert (one.start, one.end, two.start, two.end) == (1_700, 2_000, 2_000, 4_000)
    assert one.args == {"kind": "turn", "index": 0}
    assert two.args["incomplete"] is True
    assert first.args == {"length": 3, "text": "a\U0001f600"}
    assert first.categories == ["pi.session", "pi.prompt-data"]
    assert second.args == {"length": 9}
    assert second.categories == ["pi.session"]
    taken, _ = trace.named("prompt-input")
    assert taken.args == {"source": "interactive"}
    assert taken.flows == first.flows
    assert {row.track for row in (first, taken)} == {f"{ROOT}|Session"}


@pytest.mark.spec("AGT-2")
def test_captures_that_overlap_on_one_thread_close_cleanly() -> None:
    """The second draws on a track of its own; one after it shares the thread's again, and its uuid is the same."""
    process = Process(42, 42, 7)
    captures = [
        make_capture(process=process),
        make_capture(capture_id="c2", start_ns=5_000, end_ns=12_000, process=process),
        make_capture(capture_id="c3", start_ns=9_000, end_ns=13_000, process=process),
    ]
    trace = encode(*captures)
    spans = [trace.one(f"profile ({index})") for index in (1, 2, 3)]
    assert [(row.start, row.end) for row in spans] == [(1_000, 9_000), (5_000, 12_000), (9_000, 13_000)]
    assert [row.track for row in spans] == ["pi", f"pi|{ROOT}|Session", "pi"]
    assert spans[0].uuid == spans[2].uuid
    assert [row.args["capture_id"] for row in spans] == ["c1", "c2", "c3"]
    assert len([row for row in trace.descriptors.values() if row.name == ROOT]) == 3


@pytest.mark.spec("AGT-4")
def test_a_launch_leads_to_its_childs_first_input() -> None:
    """The flow has the contract's id, once at each end, although the launch's result was seen twice."""
    assert compute_delegation_flow(CHILD) == 10930410510516263498
    assert compute_delegation_flow(CHILD.upper()) == compute_delegation_flow(CHILD)
    launch = Delegation({"subagent_type": "reviewer"}, CHILD)
    parent = make_capture(
        tools=[
            Tool("subagent", "t1", 2_000, 6_000, delegation=launch),
            Tool("subagent", "t2", 6_500, 6_600, delegation=launch),
            Tool("subagent", "t3", 7_000, None, delegation=Delegation({"subagent_type": "x"}, "other")),
        ]
    )
    child = make_capture(
        session_id=CHILD, capture_id="c2", parent_session="s1", start_ns=2_500, end_ns=5_000,
        prompts=[Prompt(2_600, 3_000, length=4), Prompt(3_100, 3_200, length=4)],
    )  # fmt: skip
    again = attrs.evolve(child, capture_id="c3", is_fresh=False)
    trace = encode(parent, child, again)
    linked = [row for row in trace.slices if 10930410510516263498 in row.flows]
    assert [(row.name, row.start) for row in linked] == [("subagent", 2_000), ("prompt-input", 2_600)]
    first, _, third = trace.named("subagent")
    assert first.args["delegation"] is True
    assert (first.args["child_session"], first.args["subagent_type"]) == (CHILD, "reviewer")
    assert (third.end, third.args["incomplete"], third.flows) == (9_000, True, [])
    assert trace.one("profile (2)").args["parent_session"] == "s1"
    assert trace.one("profile (2)").args["child_session"] == CHILD


@pytest.mark.spec("AGT-4")
def test_a_delegation_is_kept_with_the_tools_off() -> None:
    """The workflow's switch alone keeps launches, and other tools are left out."""
    tools = [Tool("read", "t1", 2_000, 3_000), Tool("task", "t2", 2_000, 3_000, delegation=Delegation({}, CHILD))]
    trace = encode(make_capture(tools=tools, areas=frozenset({Area.WORKFLOW})))
    assert [row.name for row in trace.slices if row.name in ("read", "task")] == ["task"]
    assert trace.one("task").categories == ["pi.workflow"]


@pytest.mark.spec("AGT-4")
def test_a_script_leads_to_its_calls_and_an_announcement_to_its_execution() -> None:
    """The script's flows reach the announcement, the execution and the model call; lines count in content alone."""
    script = Script("javascript", "a\n\nb\n", model_calls=[ModelCall("classify", 2_400, 2_600, model="small"),
                                                          ModelCall("classify", None, 2_700)])  # fmt: skip
    tools = [
        Tool("run", "s", 2_000, 3_000, args={"code": "a"}, has_args=True, script=script),
        Tool("read", "t", 2_200, 2_300, args={"path": "x"}, has_args=True, parent_call_id="s", preflight_ns=2_150),
        Tool("edit", "u", None, 2_900, args={"path": "y"}, has_args=True, preflight_ns=2_800),
    ]
    trace = encode(make_capture(tools=tools))
    run, read = trace.one("run"), trace.one("read")
    early, late = trace.named("tool-preflight")
    assert (run.args["kind"], run.args["language"], run.args["line_count"]) == ("script", "javascript", 3)
    assert (early.start, early.args) == (2_199, {"name": "read", "call_id": "t", "bytes": 12, "keys": ["path"]})
    assert len(set(early.flows) & set(read.flows)) == 2
    assert len(set(run.flows) & set(read.flows) & set(early.flows)) == 1
    assert (late.start, late.args["args"], late.flows) == (2_800, {"path": "y"}, [])
    assert read.args["args"] == {"path": "x"}
    call = trace.one("classify")
    assert call.args["kind"] == "model-call"
    assert call.args["timing"] == "codemode-lifecycle"
    assert set(call.flows) < set(run.flows)
    results = trace.named("tool-result")
    assert all(row.is_instant and row.args["start_not_recorded"] for row in results)
    assert len(results) == 2


@pytest.mark.spec("AGT-3", "AGT-8")
def test_without_content_nothing_that_was_written_is_in_the_file() -> None:
    """No prompt word, no argument, no size or key of one; lengths, names, ids and tokens are there."""
    capture = make_capture(
        has_content=False,
        prompts=[Prompt(1_500, 2_000, text="PROMPTWORD")],
        tools=[
            Tool("read", "t", 2_000, 3_000, args={"KEYWORD": "VALUEWORD"}, has_args=True, result_bytes=70,
                 preflight_ns=1_900, script=Script("python", "SOURCEWORD"), intent="INTENTWORD"),
        ],
        responses=[Response(1_600, 1_900, usage=Usage(10, 2))],
    )  # fmt: skip
    stream = io.BytesIO()
    write_recording(stream, Recording(Harness.CLAUDE, [capture]))
    content = stream.getvalue()
    assert not any(word in content for word in (b"PROMPTWORD", b"KEYWORD", b"VALUEWORD", b"SOURCEWORD", b"INTENTWORD"))
    trace = read_trace(content)
    assert trace.one("prompt").args == {"length": 10}
    read = trace.one("read").args
    assert (read["bytes"], read["bytes_unavailable"], read["language"]) == (0, True, "python")
    assert not {"args", "keys", "line_count"} & read.keys()
    assert trace.one("tool-preflight").args == {"name": "read", "call_id": "t"}
    assert trace.one("response").args["input_tokens"] == 10


@pytest.mark.spec("AGT-3")
def test_input_is_bounded_and_says_so() -> None:
    """A null, a ninth level, a 129th value and a lone surrogate behave as written, and so does what is no JSON."""
    nine: Any = {"leaf": 1}
    for _ in range(8):
        nine = {"in": nine}
    inputs = [{"a": [1, None, 2]}, {"v": list(range(129))}, nine, {"x": "\ud800"}, {"y": {1}}, {}, None, "text"]
    tools = [Tool("t", f"c{index}", 2_000, 3_000, args=args, has_args=True) for index, args in enumerate(inputs)]
    rows = {row.args["call_id"]: row.args for row in encode(make_capture(tools=tools)).named("t")}
    assert rows["c0"]["args"] == {"a": [1]}
    assert rows["c0"]["args_truncated"] is True
    assert rows["c0"]["bytes"] == len('{"a":[1,null,2]}')
    assert rows["c1"]["args"] == {"v": list(range(128))}
    assert rows["c1"]["args_truncated"] is True
    assert "args" not in rows["c2"]
    assert rows["c3"]["args"] == {"x": "\ufffd"}
    assert "args_truncated" not in rows["c3"]
    assert rows["c3"]["bytes"] == len('{"x":"\\ud800"}')
    assert rows["c4"]["serializable"] is False
    assert "bytes" not in rows["c4"]
    assert rows["c5"]["args_truncated"] is True
    assert (rows["c7"]["args"], rows["c7"]["bytes"]) == ("text", 6)
    assert describe_input({"k": "é"}) == {"bytes": 10, "keys": ["k"]}
    assert [count_lines(text) for text in ("", "a", "a\n", "a\n\n", "\n")] == [0, 1, 1, 2, 1]


@pytest.mark.spec("AGT-3")
def test_a_long_prompt_is_cut_between_characters() -> None:
    """At the 65,536th unit a surrogate pair stays whole; the length is the whole prompt's."""
    trace = encode(make_capture(prompts=[Prompt(1_500, 2_000, text="x" * 65_535 + "\U0001f600y")]))
    prompt = trace.one("prompt")
    assert prompt.args == {"length": 65_538, "text": "x" * 65_535, "truncated": True}


@pytest.mark.spec("AGT-2", "AGT-7")
def test_what_was_not_seen_whole_is_not_made_up() -> None:
    """A response without its start is an instant, one without its end is incomplete and has no tokens."""
    capture = make_capture(
        responses=[
            Response(None, 2_000, usage=Usage(10, 2), first_content_ns=5, timing="transcript-observed"),
            Response(3_000, None, usage=Usage(99, 99)),
            Response(1_000, 1_900, first_content_ns=300, stop_reason="stop"),
        ],
        requests=[Request(1_000, 1_200, status_code=200, context_messages=4)],
    )
    trace = encode(capture)
    first, second, third = sorted(trace.named("response"), key=lambda row: row.start)
    assert (first.args["duration_ns"], first.args["first_content_ns"]) == (900, 300)
    assert second.is_instant
    assert second.args["start_not_recorded"] is True
    assert not {"duration_ns", "first_content_ns"} & second.args.keys()
    assert (third.end, third.args["incomplete"]) == (9_000, True)
    assert "input_tokens" not in third.args
    assert trace.counters[f"{ROOT}|Input tokens"] == [0, 10, 0]
    request = trace.one("request")
    assert request.args["phase"] == "response-headers"
    assert (request.args["status_code"], request.args["context_messages"]) == (200, 4)
    assert "headers" in trace.descriptors[request.uuid].description


@pytest.mark.spec("AGT-5")
def test_a_limit_that_is_no_longer_known_ends_its_plateau() -> None:
    """The window starts at the model's limit, is 0 where a model's is unknown, and shares the context's axis."""
    capture = make_capture(
        configuration=Configuration("a", context_window_tokens=200),
        changes=[(2_000, Configuration("b")), (3_000, Configuration("c", context_window_tokens=400))],
        samples=Samples(context_tokens=[(1_500, 90)]),
        compactions=[Compaction(1_600, 1_700, outcome="failure"), Compaction(1_800, 1_900, tokens_after=40),
                     Compaction(1_950, 1_960, resets_context=False)],
    )  # fmt: skip
    trace = encode(capture)
    assert trace.counters[f"{ROOT}|Context window"] == [200, 0, 400, 0]
    assert trace.counters[f"{ROOT}|Context size"] == [90, 40, 0]
    keys = {
        row.name: row.counter.y_axis_share_key for row in trace.descriptors.values() if row.name.startswith("Context")
    }
    assert keys["Context size"] == keys["Context window"] != ""


@pytest.mark.spec("AGT-13")
def test_a_contexts_composition_is_an_annotation_and_counters() -> None:
    """Categories that vanish go to 0, changes are signed and the largest first, 64 at most with the rest counted."""
    before = [ContextItem(f"m{index}", "messages", 10) for index in range(70)]
    after = [ContextItem("m0", "messages", 5), ContextItem("sys", "system", 50)]
    changes, omitted = compute_changes(before, after)
    assert (len(changes), omitted) == (64, 7)
    assert (changes[0].item.id, changes[0].delta_tokens, changes[0].change) == ("sys", 50, "added")
    assert changes[1].delta_tokens == -10
    assert compute_categories(after) == {"messages": 5, "system": 50}
    with pytest.raises(ValueError, match="no category"):
        compute_categories([ContextItem("x", "nonsense", 1)])
    assert [compute_estimate(count) for count in (0, 1, 4, 5)] == [0, 1, 1, 2]
    first = ContextSnapshot("capture-start", "chars/4", "partial", {"messages": 700}, 700, baseline=True)
    second = ContextSnapshot(
        "request-input", "chars/4", "complete", compute_categories(after), 55, changes=changes[:1], omitted_changes=70
    )
    request = Request(3_000, 3_100, context=second)
    trace = encode(make_capture(snapshots=[(2_000, first), (3_000, second)], requests=[request]))
    assert trace.counters[f"{ROOT}|Context|Messages"] == [700, 5, 0]
    assert trace.counters[f"{ROOT}|Context|System"] == [50, 0]
    context = trace.one("request").args["context"]
    assert (context["version"], context["stage"], context["coverage"]) == (1, "request-input", "complete")
    assert context["categories"] == {"messages": 5, "system": 50}
    assert context["changes"] == [
        {"id": "sys", "category": "system", "tokens": 50, "delta_tokens": 50, "change": "added"}
    ]
    assert "reported_tokens" not in context


@pytest.mark.spec("AGT-6")
def test_files_of_unrelated_boots_align_by_realtime() -> None:
    """Two boots' files place the same instant of the wall clock at the same trace time, whatever BOOTTIME says."""
    places = []
    for boot, monotonic, boottime in (("one", 5_000, 7_000), ("two", 900_000, 990_000)):
        wall = 1_700_000_000_000_000_000
        snapshot = ClockSnapshot({Clock.MONOTONIC: monotonic, Clock.BOOTTIME: boottime, Clock.REALTIME: wall})
        capture = make_capture(start_ns=monotonic + 10, end_ns=monotonic + 90)
        trace = encode(capture, boot=boot, clock_snapshots=[snapshot])
        assert trace.packets[0].clock_snapshot.primary_trace_clock == 1
        (clocks,) = trace.clocks
        places.append(trace.one("profile (1)").start - clocks[3] + clocks[1])
        assert {packet.machine_id for packet in trace.packets} == {compute_machine_id(boot)}
    assert places[0] == places[1]


def test_workflows_stand_beside_the_tools() -> None:
    """Orchestration outside the tools has its tracks; children that overlap have lanes."""
    rows = [
        Workflow("child", 2_000, 4_000, is_child=True, fields={"task_id": "a"}),
        Workflow("child", 3_000, 5_000, is_child=True),
        Workflow("phase", 2_000, 2_500),
        Workflow("note", 2_100, None, is_instant=True),
    ]
    trace = encode(make_capture(workflows=rows), harness=Harness.CODEX)
    children = trace.named("child")
    assert {row.track for row in children} == {f"{ROOT}|Child workflows"}
    assert len({row.uuid for row in children}) == 2
    assert trace.one("phase").track == f"{ROOT}|Workflow"
    assert trace.one("note").is_instant
    assert children[0].categories == ["codex.activity"]


def test_lanes_are_taken_lowest_first_and_freed_at_the_end() -> None:
    """An interval that begins where another ends takes its lane."""
    rows = [Turn(0, 0, 10), Turn(1, 5, 20), Turn(2, 10, 12), Turn(3, 30, None), Turn(4, 40, 50)]
    placed, lost = assign_lanes(rows)
    assert [(lane, row.index) for lane, row in placed] == [(0, 0), (1, 1), (0, 2), (0, 3), (1, 4)]
    assert lost == 0
