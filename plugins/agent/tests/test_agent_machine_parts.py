"""What the machine did beside a recording: kept, drawn, read back and given to tools, all of it made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from omn_agent.encoding.write import write_recording
from omn_agent.harness import Harness
from omn_agent.machine.lives import make_lives
from omn_agent.machine.model import Figure, Life, Machine, Track, make_machine
from omn_agent.reading.captures import read_captures
from omn_agent.reading.machine_text import render_figures
from omn_agent.reading.report import make_report
from omn_agent.reading.text import render_report
from omn_agent.recording import Capture, Delegation, Recording, Script, Tool
from omn_export.perfetto.tracks import Clock, ClockSnapshot
from perfetto_reading import read_trace

pytestmark = pytest.mark.spec("AGT-11")

SECOND = 1_000_000_000
SPAN = "aa" * 8


def at(second: float) -> int:
    """Return a time of the recording."""
    return round(second * SECOND)


def tool(name: str, call: str, begin: float, end: float | None, **fields: Any) -> Tool:
    """Return a tool."""
    return Tool(name, call, at(begin), None if end is None else at(end), **fields)


def life(pid: int, begin: float, end: float | None, parent: int = 1, **fields: Any) -> Life:
    """Return a process."""
    return Life(pid, parent, at(begin), None if end is None else at(end), **fields)


LIVES = [
    Life(1, None, None, at(9.9), name="claude"),
    life(14, 0.5, None, name="server"),
    life(18, 1, 1.01, is_recorder=True),
    life(12, 1.55, 1.6, name="either", figures=[Figure("cpu", "ns", 3)]),
    life(10, 1.6, 1.9, name="sh", span_id=SPAN, figures=[Figure("cpu", "ns", 5)]),
    life(11, 1.65, 1.7, parent=10, figures=[Figure("cpu", "ns", 7), Figure("rss", "bytes", 4096, is_peak=True)]),
    life(13, 5, 5.1),
    life(10, 7.05, 7.06),
    life(15, 7.1, 7.2, code=1),
    life(16, 9.15, 9.16, signal="SIGKILL"),
    life(17, 9.3, 9.31),
]
TOOLS = [
    tool("Bash", "a", 1, 2, trace_span=SPAN),
    tool("Bash", "b", 1.5, 2.5),
    tool("Read", "read", 4.9, 5.2),
    tool("Agent", "agent", 6, 9, delegation=Delegation({}, None)),
    tool("Bash", "inner", 7.08, 8, dispatch_ns=at(1)),
    tool("exec", "script", 9, 9.5, script=Script("js")),
    tool("sh", "nested", 9.1, 9.2, parent_call_id="script"),
    tool("Bash", "open", 9.6, None),
]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A recording with a machine beside it."""
    machine = Machine(0, at(10), ["mem.rss"], ["mem.rss: lost: one"], LIVES, [Track("mem.rss", "x", "bytes", [(5, 1)])])
    capture = Capture("s1", "c1", 0, at(10), tools=TOOLS)
    path = tmp_path / "made.pftrace"
    snapshots = [ClockSnapshot({Clock.MONOTONIC: 0, Clock.REALTIME: 1_772_355_600 * SECOND})]
    with path.open("wb") as stream:
        write_recording(
            stream,
            Recording(Harness.CLAUDE, [capture], Clock.MONOTONIC, clock_snapshots=snapshots, machine=machine),
        )
    return path


def test_each_process_is_given_to_the_tool_that_it_belongs_to(recording: Path) -> None:
    """By its span, by its maker, by when it began; a number that is used again is another process."""
    report = make_report(read_captures([recording]))
    found = report["machine"]
    tools = {row["call_id"]: row for row in found["tools"]}
    owned = {call: (row["processes"], row["evidence"], row["outliving"]) for call, row in tools.items()}
    assert owned == {
        "a": (2, ["identity"], 0), "b": (0, [], 0), "read": (0, [], 0), "agent": (0, [], 0),
        "inner": (2, ["temporal"], 0), "script": (1, ["temporal"], 0), "nested": (1, ["temporal"], 0),
        "open": (0, [], 0),
    }  # fmt: skip
    assert [(row["name"], row["tools"], row["figures"]["cpu"]["value"]) for row in found["disputed"]] == [
        ("either", ["a", "b"], 3)
    ]
    assert (tools["a"]["disputed_with"], tools["a"]["harness_ns"], tools["a"]["beside"]) == (["Bash"], None, 1)
    assert (tools["inner"]["in_processes_ns"], tools["inner"]["harness_ns"]) == (at(0.11), at(0.89))
    assert tools["a"]["figures"] == {
        "cpu": {"unit": "ns", "is_peak": False, "value": 12, "of": 2},
        "rss": {"unit": "bytes", "is_peak": True, "value": 4096, "of": 1},
    }
    assert [call for call, row in tools.items() if row["is_in_process"]] == ["read", "agent"]
    assert tools["open"]["is_incomplete"]
    assert report["groups"][0]["tools"] == 7  # a script apart: processes are no operations of the agent's
    text = render_report(report)
    assert "Bash: 2 processes (its span named them)" in text
    assert "Bash: no process began in it; 1 of before ran beside" in text
    assert "cpu 0.000 s, rss 4.0 KiB at most (of 1 of them)" in text
    assert "either 12: of a or b" in text
    assert "made.pftrace: mem.rss: lost: one" in text


def test_processes_and_values_stand_beside_the_captures(recording: Path) -> None:
    """A slice each, with what is known; the one that was there before, and the one that outlived it, say so."""
    trace = read_trace(recording.read_bytes())
    rows = {(row.args["pid"], row.start): row for row in trace.slices if row.args.get("kind") == "process"}
    assert len(rows) == len(LIVES)
    assert {row.track for row in rows.values()} == {"Machine|Processes"}
    assert {tuple(row.categories) for row in rows.values()} == {("omn.machine",)}
    root, server = rows[1, 0], rows[14, at(0.5)]
    assert (root.name, root.args["started_before_capture"], root.end) == ("claude", True, at(9.9))
    assert (server.args["incomplete"], server.end) == (True, at(10))
    assert (rows[15, at(7.1)].args["exit_code"], rows[16, at(9.15)].args["exit_signal"]) == (1, "SIGKILL")
    assert rows[17, at(9.3)].name == "process"
    assert rows[10, at(1.6)].args["figures"] == {"cpu": 5}
    assert trace.points["Machine|mem.rss x"] == [(5, 1)]


def test_a_recording_without_a_machine_says_nothing_of_one(tmp_path: Path) -> None:
    """As one of every other recorder does."""
    path = tmp_path / "none.pftrace"
    with path.open("wb") as stream:
        write_recording(stream, Recording(Harness.CLAUDE, [Capture("s1", "c1", 0, at(1), tools=TOOLS[:1])]))
    report = make_report(read_captures([path]))
    assert report["machine"] is None
    assert "Tools and the machine" not in render_report(report)


def test_what_was_kept_part_by_part_is_read_back() -> None:
    """Through a journal's lines; a machine that told of no process is told from one that had none."""
    machine = Machine(0, 9, ["a"], ["b"], LIVES, [Track("a", "", "ns", [(1, 2.5)])])
    for whole in (machine, Machine(0, 9, lives=[]), Machine(0, 9)):
        assert make_machine(json.loads(json.dumps(part)) for part in whole.iter_plain()) == whole
    assert make_machine([]) is None
    assert make_machine([{"life": {}}]) is None


def test_lives_are_put_together_from_what_was_told_of_them() -> None:
    """In any order of sources; a thread makes none, and an end that nobody saw begin is one all the same."""

    def row(source: str, ts_ns: int, **attributes: Any) -> dict[str, Any]:
        return {"source": f"proc.{source}", "ts_ns": ts_ns, "attrs": attributes}

    rows = [
        row("exit", 5, pid=7, ppid=1, code=0, comm="sh", cpu_ns=9),
        row("exit", 6, pid=3, ppid=1, signal="SIGTERM", comm="lost"),
        row("exec", 3, pid=7, ppid=1, comm="sh", parent_span=SPAN),
        row("exec", 4, pid=7, ppid=1, comm="sleep", parent_span="bb" * 8),
        row("fork", 2, pid=1, child=7, kind="process"),
        row("fork", 2, pid=1, child=8, kind="thread"),
        row("fork", 8, pid=1, child=7, kind="process"),
    ]
    first, second, lost, third = make_lives(rows, 1)
    assert (first.pid, first.start_ns, first.end_ns) == (1, None, None)
    assert (second.pid, second.start_ns, second.end_ns, second.name, second.span_id) == (7, 2, 5, "sleep", SPAN)
    assert (second.code, second.figures) == (0, [Figure("proc.exit cpu_ns", "ns", 9)])
    assert (lost.pid, lost.start_ns, lost.signal, lost.name) == (3, None, "SIGTERM", "lost")
    assert (third.pid, third.start_ns, third.end_ns) == (7, 8, None)


def test_figures_have_their_units() -> None:
    """Times in seconds, sizes in their order of magnitude, anything else as it is called."""
    row = {"is_peak": False, "of": 1}
    figures = {
        "a": {"unit": "ns", "value": 1_500_000_000, **row}, "b": {"unit": "bytes", "value": 3 << 20, **row},
        "c": {"unit": "bytes", "value": 12, **row}, "d": {"unit": "count", "value": 3, **row},
        "e": {"unit": None, "value": 0.5, **row},
    }  # fmt: skip
    assert render_figures(figures, 1) == "a 1.500 s, b 3.0 MiB, c 12 B, d 3 count, e 0.5"
