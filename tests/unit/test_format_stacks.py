"""The formats of stacks, read back by parsers that share nothing with their encoders."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapes import WINDOW, make_batch, make_document, make_result
from stack_runs import NASTY_LABELS, make_nasty_stacks, make_row, make_stack_result, make_tree

from omn_core.builtin import omn_formats
from omn_core.cli.answer import say_reservations
from omn_core.errors import RequestError
from omn_core.format.as_chrome import CHROME
from omn_core.format.as_folded import FOLDED, fold_label
from omn_core.format.as_json import JSON
from omn_core.format.as_ndjson import NDJSON
from omn_core.format.as_speedscope import SPEEDSCOPE
from omn_core.format.as_text import TEXT
from omn_core.format.reservations import iter_reservations
from omn_core.format.stacks import compute_tree, iter_stack_series
from omn_core.format.trace_events import StackFrames
from omn_core.model.losses import Losses
from omn_core.model.result import Document, RawEvents
from omn_core.model.stacks import Frame, Stacks
from omn_core.model.style import TextStyle
from omn_core.names import escape_bytes

STYLE = TextStyle()
FLAMEGRAPH = Path("/usr/share/perl5/Devel/NYTProf/flamegraph.pl")
"""The flame graph script as Debian's libdevel-nytprof-perl installs it."""

pytestmark = pytest.mark.spec("FMT-1", "FMT-2")


def write(encoder: Any, document: Document) -> str:
    """Return what an encoder writes."""
    stream = io.BytesIO()
    encoder.write(document, stream, STYLE)
    return stream.getvalue().decode()


def read_folded(text: str) -> Counter[tuple[str, ...]]:
    """Return the stacks of folded text as flamegraph.pl reads a line, a second weight refused."""
    found: Counter[tuple[str, ...]] = Counter()
    for line in text.split("\n")[:-1]:
        matched = re.fullmatch(r"(.*)\s+?(\d+(?:\.\d*)?)", line)
        assert matched, line[:100]
        stack, weight = matched.groups()
        assert not re.fullmatch(r"(.*)\s+?(\d+(?:\.\d*)?)", stack), "it reads as two weights"
        found[tuple(stack.split(";"))] += float(weight)
    return found


def expect_folded(document: Document) -> Counter[tuple[str, ...]]:
    """Return the stacks that a document holds, their labels as the folded format spells them."""
    found: Counter[tuple[str, ...]] = Counter()
    for result in document.results:
        for series in result.series:
            for row in series.emits["stack"]["rows"]:
                found[tuple(map(fold_label, reversed(row["frames"])))] += row["weight"]
    return found


def test_folded_lines_are_read_as_flame_graph_scripts_do() -> None:
    """Every stack comes back with its frames in order and its weight, whatever the names hold."""
    document = make_nasty_stacks()
    text = write(FOLDED, document)
    assert read_folded(text) == expect_folded(document)
    assert len(text.splitlines()) == text.count("\n")
    assert len({fold_label(name) for name in NASTY_LABELS}) == len(NASTY_LABELS)


@given(st.text())
def test_a_folded_label_never_reads_as_the_formats_own(label: str) -> None:
    """Any text is one frame of one line, before and after another frame."""
    document = make_document(make_stack_result({None: [make_row([label, "main"], 5), make_row(["leaf", label], 2.5)]}))
    found = read_folded(write(FOLDED, document))
    assert found == {("main", fold_label(label)): 5, (fold_label(label), "leaf"): 2.5}


def test_folded_spells_what_the_format_cannot() -> None:
    r"""`;` and a space before a last number are written as `\xNN`, weights without an exponent, no stack as itself.

    A stack that weighs nothing has no line.
    """
    assert fold_label("a;b c 7") == r"a\x3bb c\x207"
    assert fold_label("a 7 b") == "a 7 b"
    assert fold_label("") == "[unnamed]"
    rows = [make_row(["f"], 10**22), make_row(["f"], 0.25), make_row([], 4), make_row(["gave way"], 0)]
    lines = write(FOLDED, make_document(make_stack_result({None: rows}))).splitlines()
    assert lines == [f"f {10**22}", "f 0.25", "[no stack] 4"]


def test_series_stand_under_what_tells_them_apart() -> None:
    """One series has no root of its own; keys give each its tower, and several requests their source."""
    one = make_stack_result({None: [make_row(["work", "main"], 1)]})
    other = make_stack_result({"7": [make_row(["wait", "main"], 2)]}, source="sched.offcpu")
    assert write(FOLDED, make_document(one)) == "main;work 1\n"
    assert write(FOLDED, make_document(other)) == "task 7;main;wait 2\n"
    assert write(FOLDED, make_document(one, other)) == "cpu.profile;main;work 1\nsched.offcpu;task 7;main;wait 2\n"


def test_a_key_is_called_what_its_label_says() -> None:
    """The label stands before the value, in towers and in the names of profiles and threads."""
    result = make_stack_result({"7": [make_row(["work"], 2)]})
    (series,) = result.series
    named = make_document(attrs.evolve(result, series=(attrs.evolve(series, labels={"task": "worker;1"}),)))
    assert write(FOLDED, named) == "task worker\\x3b1 (7);work 2\n"
    ((profile, _, _),) = read_speedscope(write(SPEEDSCOPE, named))
    assert profile == "cpu.profile task worker;1 (7)"
    _, events = read_chrome(named)
    (thread,) = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert thread.endswith("(ns) task worker;1 (7)")


def test_the_flame_graph_script_draws_every_folded_stack(tmp_path: Path) -> None:
    """flamegraph.pl reads each line, ignores none, and names each frame in its picture."""
    if not FLAMEGRAPH.exists() or shutil.which("perl") is None:
        pytest.skip("flamegraph.pl is not installed here")
    document = make_nasty_stacks()
    folded = tmp_path / "stacks.folded"
    folded.write_text(write(FOLDED, document))
    command = ["perl", str(FLAMEGRAPH), "--minwidth=0", str(folded)]
    ran = subprocess.run(command, capture_output=True, check=False)
    picture = ran.stdout.decode(errors="replace")  # it cuts what it writes into boxes by bytes
    assert (ran.returncode, ran.stderr) == (0, b"")
    titles = re.findall(r"<title>(.*?) \(([\d,]+) samples, ", picture, re.DOTALL)
    total = sum(row["weight"] for row in document.results[0].series[0].emits["stack"]["rows"])
    assert ("all", f"{total:,}") in titles
    assert ("main", f"{sum(3 + place for place in range(len(NASTY_LABELS))):,}") in titles
    named = {title for title, _ in titles}
    for label in map(fold_label, NASTY_LABELS):
        drawn = (
            label.replace("<", "(").replace(">", ")").replace("&", "&amp;").replace('"', "&quot;")
        )  # its own spelling
        assert drawn in named, label[:60]


def read_speedscope(text: str) -> list[tuple[str, str, Counter[tuple[tuple[str, str | None], ...]]]]:
    """Return each profile's name, its unit and its stacks from the outermost frame, with their weights."""
    whole = json.loads(text)
    frames = [(frame["name"], frame.get("file")) for frame in whole["shared"]["frames"]]
    profiles = []
    for profile in whole["profiles"]:
        assert profile["type"] == "sampled"
        found: Counter[tuple[tuple[str, str | None], ...]] = Counter()
        for sample, weight in zip(profile["samples"], profile["weights"], strict=True):
            found[tuple(frames[index] for index in sample)] += weight
        assert profile["startValue"] == 0
        assert profile["endValue"] == sum(profile["weights"])
        profiles.append((profile["name"], profile["unit"], found))
    return profiles


def test_speedscope_is_read_back_by_its_schema() -> None:
    """Each stack is a sample of shared frames, a frame once for each name and file."""
    document = make_nasty_stacks()
    text = write(SPEEDSCOPE, document)
    assert text.isascii()
    ((name, unit, found),) = read_speedscope(text)
    assert (name, unit) == ("cpu.profile", "nanoseconds")
    expected: Counter[tuple[tuple[str, str | None], ...]] = Counter()
    for row in document.results[0].series[0].emits["stack"]["rows"]:
        holders = [None if holder is None else escape_bytes(holder) for holder in row["objects"]]
        expected[tuple(reversed(list(zip(map(escape_bytes, row["frames"]), holders, strict=True))))] += row["weight"]
    assert found == expected


def test_speedscope_has_a_profile_for_each_series() -> None:
    """By thread when keyed by task, with the unit where speedscope has it, and lower bounds said."""
    counted = make_stack_result({None: [make_row(["f"], 2)]}, source="mem.faults", unit="count")
    profiles = read_speedscope(write(SPEEDSCOPE, make_document(*make_tree().results, counted)))
    assert [(name, unit) for name, unit, _ in profiles] == [
        ("cpu.profile task 7 (lower bounds)", "nanoseconds"),
        ("cpu.profile task 8 (lower bounds)", "nanoseconds"),
        ("mem.faults", "none"),
    ]
    assert max(len(stack) for stack in profiles[1][2]) == 5001


def read_chrome(document: Document) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a written trace and its events, each held to the fields that its phase must have."""
    whole = json.loads(write(CHROME, document))
    assert set(whole) == {"traceEvents", "displayTimeUnit", "stackFrames", "otherData"}
    needed = {"M": {"args"}, "C": {"ts", "args"}, "i": {"ts", "s", "args"}, "B": {"ts", "cat"}, "E": {"ts", "cat"}}
    for event in whole["traceEvents"]:
        assert {"ph", "name", "pid", "tid"} | needed[event["ph"]] <= set(event)
        assert isinstance(event["name"], str)
        assert isinstance(event.get("ts", 0), int | float)
        assert "sf" not in event or event["sf"] in whole["stackFrames"]
    for frame in whole["stackFrames"].values():
        assert "parent" not in frame or frame["parent"] in whole["stackFrames"]
    return whole, whole["traceEvents"]


def read_towers(events: list[dict[str, Any]]) -> Counter[tuple[str, ...]]:
    """Return what each path of open slices lasted, less what lasted inside it, in nanoseconds."""
    found: Counter[tuple[str, ...]] = Counter()
    open_slices: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in events:
        if event["ph"] not in "BE":
            continue
        path = open_slices.setdefault((event["pid"], event["tid"]), [])
        if event["ph"] == "B":
            assert not path or path[-1]["ts"] <= event["ts"]
            path.append(event)
            continue
        begun = path.pop()
        assert begun["name"] == event["name"]
        lasted = round((event["ts"] - begun["ts"]) * 1000)
        names = tuple(one["name"] for one in path[1:])
        found[(*names, event["name"]) if path else ()] += lasted
        if path:
            found[names] -= lasted
    assert not any(open_slices.values())
    return found


def test_chrome_draws_stacks_as_wide_as_they_weigh() -> None:
    """Slices nest as the stacks do, and what a slice has to itself is the weight of the stacks that end there."""
    document = make_nasty_stacks()
    _, events = read_chrome(document)
    expected: Counter[tuple[str, ...]] = Counter()
    for row in document.results[0].series[0].emits["stack"]["rows"]:
        expected[tuple(escape_bytes(label) for label in reversed(row["frames"]))] += row["weight"]
    assert not any("args" in event for event in events if event["ph"] in "BE"), "speedscope takes them for the name"
    found = read_towers(events)
    assert +found == expected
    assert (*["main"], "x" * 65_536) in found


def test_chrome_draws_a_thread_for_each_series_and_deep_stacks() -> None:
    """Each series has a thread that says its widths are no times; 5000 frames nest."""
    whole, events = read_chrome(make_tree())
    names = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    heading = "stacks by weight, not by time (ns)"
    assert names == [f"{heading} task 7", f"{heading} task 8"]
    assert sum(event["ph"] == "B" for event in events) == sum(event["ph"] == "E" for event in events) == 3 + 1 + 5002
    assert whole["otherData"]["reservations"] == ["cpu.profile: lost: 3 events dropped; the ring was full"]


def test_chrome_places_what_happened_at_its_time() -> None:
    """A timeline is a counter, a raw event an instant with its fields, another answer one at the close."""
    batch = make_batch([5, 6, None], keys={"task": [1, 1, 2]}, comm=NASTY_LABELS[:3], weight=[2, 2, 2])
    _, events = read_chrome(make_document(make_result(batch, ["timeline", "raw", "summary"], mode="trace")))
    counters = [(event["ts"], event["args"]) for event in events if event["ph"] == "C"]
    opened = WINDOW.opened_ns
    assert counters == [((opened + place) / 1000, {"bytes": value}) for place, value in enumerate((10, 12))]
    raw = [event for event in events if event["ph"] == "i" and event["name"] == "mem.test"]
    assert [event["ts"] for event in raw] == [(opened + place) / 1000 for place in range(3)]
    assert raw[0]["args"] == {"key": {"task": 1}, "attrs": {"value": 5, "comm": NASTY_LABELS[0]}, "weight": 2}
    assert raw[2]["args"]["attrs"] == {"comm": NASTY_LABELS[2]}
    (summary,) = [event for event in events if event["name"] == "summary"]
    assert summary["ts"] == WINDOW.closed_ns / 1000
    assert (summary["args"]["count"], summary["args"]["total"]) == (4, 22)


def test_stacks_of_raw_events_share_their_callers() -> None:
    """A frame below one caller is one row, whichever stack brings it; no frame at all has no id."""
    frames = StackFrames()
    assert [frames.add(labels) for labels in (["leaf", "main"], ["other", "main"], ["main"], [])] == [
        "1",
        "2",
        "0",
        None,
    ]
    assert frames.rows == {
        "0": {"name": "main", "category": "stack"},
        "1": {"name": "leaf", "category": "stack", "parent": "0"},
        "2": {"name": "other", "category": "stack", "parent": "0"},
    }


@pytest.mark.spec("FMT-1", "EVT-1")
def test_raw_events_have_their_stacks_in_every_format() -> None:
    """Labels from the innermost: a list in JSON and lines of it, a chain in text, stackFrames in Chrome's."""
    stacks = Stacks()
    leaf, main = (stacks.intern_frame(Frame(label)) for label in ("a;b c 7", "main"))
    batch = attrs.evolve(make_batch([5, 6]), stack=np.array([stacks.intern([leaf, main]), -1]))
    made = make_result(batch, ["raw"], mode="trace")
    document = make_document(attrs.evolve(made, raw=RawEvents(batch, stacks)))
    kept = json.loads(write(JSON, document))["results"][0]["raw"]
    assert (kept[0]["stack"], "stack" in kept[1]) == (["a;b c 7", "main"], False)
    lines = [json.loads(line) for line in write(NDJSON, document).splitlines()]
    assert lines[0]["stack"] == ["a;b c 7", "main"]
    assert "stack=a;b c 7 < main" in write(TEXT, document)
    whole, events = read_chrome(document)
    first, second = (event for event in events if event["ph"] == "i" and event["name"] == "mem.test")
    rows = whole["stackFrames"]
    assert (rows[first["sf"]]["name"], rows[rows[first["sf"]]["parent"]]["name"]) == ("a;b c 7", "main")
    assert "sf" not in second


def test_an_empty_run_is_a_file_all_the_same() -> None:
    """Without a stack there are no lines, no profiles of frames and no slices but the source's own."""
    document = make_document(make_stack_result({None: []}))
    assert write(FOLDED, document) == ""
    assert read_speedscope(write(SPEEDSCOPE, document)) == [("cpu.profile", "nanoseconds", Counter())]
    _, events = read_chrome(document)
    assert [event["name"] for event in events if event["ph"] in "BE"] == ["cpu.profile", "cpu.profile"]


def test_frames_alike_are_one_object_and_weightless_stacks_no_part_of_a_tree() -> None:
    """A frame in several stacks is one of a document, and a stack of weight 0 adds no box."""
    rows = [make_row(["work", "main"], 2), make_row(["rest", "main"], 3), make_row(["idle", "main"], 0)]
    (series,) = iter_stack_series(make_document(make_stack_result({None: rows})))
    assert len({frame for stack in series.stacks for frame in stack.frames}) == 4
    tree = compute_tree(series.stacks, Frame("all"))
    (main,) = tree.children.values()
    assert (tree.weight, main.weight, main.own, main.count) == (5, 5, 0, 2)
    assert {child.frame.label: (child.weight, child.own) for child in main.children.values()} == {
        "work": (2, 2),
        "rest": (3, 3),
    }


def test_reservations_name_their_source() -> None:
    """What was lost, degraded, unverified or failed is a sentence each."""
    result = make_stack_result({None: []}, losses=Losses(throttled=2, reasons=("the kernel was busy",)))
    result = attrs.evolve(result, degraded=("user code alone",), unverified=("cap:x",), failure="it ended")
    assert list(iter_reservations(make_document(result))) == [
        "cpu.profile: lost: 2 periods throttled, holding an unknown number of events; the kernel was busy",
        "cpu.profile: degraded: user code alone",
        "cpu.profile: not verified: cap:x",
        "cpu.profile: failed: it ended",
    ]
    assert list(iter_reservations(make_document(make_stack_result({None: []})))) == []


def test_what_a_format_cannot_tell_is_said_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The rows of folded and speedscope say that they tell no losses, and the command line then does, a line each."""
    rows = {row.name: row for row in omn_formats()}
    assert [name for name, row in rows.items() if not row.tells_losses] == ["folded", "speedscope"]
    assert all(row.emits == ("stack",) for row in rows.values() if not row.tells_losses)
    say_reservations(make_tree())
    assert capsys.readouterr() == ("", "omn: cpu.profile: lost: 3 events dropped; the ring was full\n")


@pytest.mark.parametrize("encoder", [FOLDED, SPEEDSCOPE, CHROME])
def test_formats_of_runs_hold_no_listing(encoder: Any) -> None:
    """A listing is refused as the row says."""
    with pytest.raises(RequestError, match="holds runs alone"):
        encoder.write_plain({}, io.BytesIO(), STYLE)
