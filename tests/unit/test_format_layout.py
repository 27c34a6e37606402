"""How a run is laid out for a person: the greatest first, what is shared said once, courses over time."""

from __future__ import annotations

import io
import re
from typing import Any

import attrs
import pytest
from shapes import SECOND, WINDOW, make_batch, make_document, make_result

from omn_core.format.as_text import TEXT
from omn_core.format.order import order_series
from omn_core.format.sentences import render_program
from omn_core.format.sparklines import render_sparklines
from omn_core.model.losses import Losses
from omn_core.model.request import Composition, RequestWindow
from omn_core.model.result import Document, ProgramResult
from omn_core.model.style import TextStyle
from omn_core.model.watched import Window
from omn_core.names import compute_width

pytestmark = pytest.mark.spec("FMT-3")


def render(document: Document, style: TextStyle | None = None) -> str:
    stream = io.BytesIO()
    TEXT.write(document, stream, style or TextStyle())
    return stream.getvalue().decode()


def order(*rows: tuple[Any, dict[str, Any]]) -> list[Any]:
    return [key["name"] for key, _ in order_series([({"name": name}, answer) for name, answer in rows])]


@pytest.mark.parametrize(
    "answers",
    [
        ({"count": 1, "total": 5, "mean": 9}, {"count": 7, "total": 4, "mean": 99}, {"count": 0, "total": None}),
        ({"last": 5, "mean": 1, "count": 1}, {"last": 4, "mean": 9, "count": 9}, {"count": 12, "mean": None}),
        ({"mean": 5}, {"mean": 0}, {"mean": None}),
        ({"count": 3, "events": 9}, {"count": 5, "events": 8}),
        ({"buckets": [{"count": 1}, {"count": 3}]}, {"buckets": [{"count": 3}]}),
        ({"points": [[0, 1], [1, 9]]}, {"points": [[0, 8], [1, 8]]}, {"points": [[0, None]]}),
        ({"rows": [{"value": 3}, {"value": None}, {"value": 2}]}, {"rows": [{"value": 4}]}),
    ],
)
def test_the_greatest_series_comes_first(answers: tuple[dict[str, Any], ...]) -> None:
    """By what adds up, else the last reading, else the mean; what is not known comes last, whatever was counted."""
    right = ["c", "b", "a"][-len(answers) :][::-1]
    named = list(zip(right, answers, strict=True))
    assert order(*named) == right
    assert order(*named[::-1]) == right


def test_a_key_that_counts_through_keeps_its_order() -> None:
    """Cpus stand by number, and processes by what they use."""
    rows = [({"cpu": cpu}, {"mean": cpu % 3}) for cpu in range(8)]
    assert order_series(rows) == rows
    tasks = [({"task": 4711 + place}, {"mean": place}) for place in range(8)]
    assert order_series(tasks) == tasks[::-1]
    assert order_series([]) == []


def test_several_requests_say_once_what_they_share() -> None:
    """The window, the program, an empty account of losses and a caveat of all stand once, what is one's with it."""
    caveats = ("of all", "of one")
    document = make_document(
        make_result(make_batch([1, 2]), caveats=caveats), make_result(make_batch([3]), caveats=caveats[:1])
    )
    text = render(document)
    assert text.startswith("2 requests over 2 s, of prog 'a b'\n\nmem.test: summary;")
    assert text.count("  window  ") == 0
    assert text.count("  events     2\n") == 1
    for once in ("lost       nothing, in any of 2 requests", "degraded   nothing, in any of 2 requests", "of all"):
        assert text.count(once) == 1, once
    assert text.count("lost  ") == text.count("degraded  ") == text.count("of one") == 1
    places = [text.index(part) for part in ("of one", "lost  ", "degraded  ", "of all", "program  ", "cost  ")]
    assert places == sorted(places)


def test_what_a_family_composed_leaves_the_catalogs_caveats_to_its_help() -> None:
    """A caveat of the run stands; those of the sources are where one line says, and each request still degrades."""
    result = make_result(make_batch([1]), caveats=("of the run", "of the catalog"))
    entry = attrs.evolve(result.resolved.entry, caveats=("of the catalog",))
    result = attrs.evolve(result, resolved=attrs.evolve(result.resolved, entry=entry))
    asked = make_document(result)
    assert "caveat     of the catalog" in render(asked)
    session = attrs.evolve(asked.session.session, composition=Composition("mem", "low"))
    text = render(attrs.evolve(asked, session=attrs.evolve(asked.session, session=session)))
    assert "caveat     of the run" in text
    assert "of the catalog" not in text
    assert "caveat     what these figures hold and leave out: omn help mem.test" in text


def test_the_cpu_of_what_a_program_started_is_named_apart() -> None:
    """Where it is a twentieth of the whole or more, and only where the program's own is known."""
    own = ProgramResult(("make",), 7, {"code": 0}, 2 * 10**9, 10**9, 10**9)
    assert "started" not in render_program(own)
    assert "started" not in render_program(attrs.evolve(own, own_cpu_ns=None))
    assert "started" not in render_program(attrs.evolve(own, own_cpu_ns=96 * 10**7))
    told = render_program(attrs.evolve(own, own_cpu_ns=10**8))
    assert told.endswith("having used 1 s of cpu, 900 ms of it in processes that it started")


def test_what_one_of_several_lost_stands_with_it_and_is_summed_up() -> None:
    """The request that lost something says what, the footer says which it was; a window of its own is said too."""
    lost = make_result(make_batch([1, 2]), losses=Losses(dropped=3, reasons=("the ring was full",)))
    own = make_result(make_batch([1]), degraded=("half of it",))
    own = attrs.evolve(own, window=Window(WINDOW.opened_ns, WINDOW.closed_ns - 1_500_000_000))
    text = render(make_document(lost, own), TextStyle(80, colour=True))
    assert "\x1b[33m  lost       3 events dropped; the ring was full;" in text
    assert "  lost       mem.test: 1 of 2 requests, said with each" in text
    assert "  degraded   half of it" in text
    assert "  degraded   mem.test: 1 of 2 requests, said with each" in text
    assert "  window     500 ms, 1 event\n" in text


def test_why_there_is_no_series_is_said() -> None:
    """Nothing happened is something else than nobody could be told apart."""
    silent = make_result(make_batch([]), keys=["task"])
    assert "no series: there was no event" in render(make_document(silent))
    assert "no series: no event carried a key" in render(make_document(attrs.evolve(silent, events_seen=2)))


def test_timelines_of_several_series_are_courses_below_each_other() -> None:
    """A line a series over one stretch of time: its own greatest is full height, a cell without a point is blank."""
    opened = WINDOW.opened_ns
    rising = [[opened + place, place] for place in range(10)]
    holed = [[opened + place, 8] for place in (0, 9)]
    zero = [[opened + place, 0 if place else None] for place in range(10)]
    rows = [({"cpu": name}, {"points": points}) for name, points in (("a", rising), ("b", holed), ("c", zero))]
    lines = render_sparklines(rows, "count", TextStyle(60), ("cpu",))
    assert lines[0].split() == ["cpu", "min", "max", "last"]
    assert lines[1].endswith("  ▁▁▂▃▄▅▆▇██") or lines[1].endswith("  ▁▁▂▃▄▅▆▇▇█"), lines[1]
    assert lines[2].endswith("  █        █")
    assert lines[3].split() == ["c", "0", "0", "0", "▁" * 9]
    assert lines[4] == "(each course is over 9 ns, up from zero)"
    assert len(render_sparklines(rows, "count", TextStyle(60, rows=2), ("cpu",))) == 5


def test_a_course_of_uneven_events_is_over_time() -> None:
    """Silence between two bursts is as long as it was, and a spike among thousands of points is seen."""
    opened = WINDOW.opened_ns
    bursts = [[opened + when, 1] for when in (0, 1, 2, 99)]
    (line,) = render_sparklines([({}, {"points": bursts})], "count", TextStyle(60), ())[1:-1]
    assert re.search("█ {20,}█$", line)
    assert line.count("█") == 2
    spike = [[opened + when, 1000 if when == 777 else 1] for when in range(5000)]
    (line,) = render_sparklines([({}, {"points": spike})], "count", TextStyle(60), ())[1:-1]
    assert line.count("█") == 1


def test_a_terminal_is_shown_the_greatest_and_told_how_many_there_are() -> None:
    """Where rows are bounded a long table and many drawings are cut with what is left said; else all are there."""
    keys = {"task": list(range(1000, 1090))}
    result = make_result(make_batch(range(90), keys=keys), ["summary", "hist", "timeline"], keys=["task"])
    document = make_document(result)
    whole, cut = render(document), render(document, TextStyle(rows=30))
    assert "more; a pipe" not in whole
    assert all(f"\n  {task}" in whole for task in keys["task"])
    assert cut.count("... 60 more; a pipe, a file and every other format have all") == 2
    assert cut.count("... 80 more; a pipe, a file and every other format have all") == 1
    assert "\n  1089" in cut
    assert "\n  1000" not in cut
    assert all(compute_width(line) <= 80 for line in whole.splitlines())


@pytest.mark.spec("EMT-1", "FMT-3")
@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_ranking_of_series_is_one_table(width: int) -> None:
    """The greatest first, whatever its number, each share of the whole; a series past the last asked has no line."""
    batch = make_batch([1, 6, 3], keys={"cpu": [0, 1, 2]})
    text = render(make_document(make_result(batch, ["topk:2"], keys=["cpu"], mode="trace")), TextStyle(width))
    lines = [line.split()[:5] for line in text.splitlines() if line.endswith("#") or line.split()[:1] == ["cpu"]]
    assert lines[0] == ["cpu", "value", "share"]
    assert [line[:5] for line in lines[1:]] == [["1", "6", "B", "60.0", "%"], ["2", "3", "B", "30.0", "%"]]


@pytest.mark.spec("EMT-1", "FMT-3")
def test_a_division_by_an_attribute_is_headed_by_its_name() -> None:
    """A table's column and a histogram's title say what the values are values of."""
    batch = make_batch([1, 6], comm=["a", "b"])
    text = render(make_document(make_result(batch, ["summary@comm", "hist@comm"], mode="trace")))
    assert "attr" not in text
    assert re.search(r"^  comm +value", text, re.MULTILINE)
    assert "  comm a: 1 counted" in text


@pytest.mark.spec("EMT-1", "FMT-3")
@pytest.mark.parametrize("emit", ["summary@comm", "hist@comm"])
def test_a_division_of_nothing_says_so(emit: str) -> None:
    """A head without rows, or no line at all, would leave a reader to wonder."""
    text = render(make_document(make_result(make_batch([]), [emit], mode="trace")))
    assert "  nothing was measured\n" in text


@pytest.mark.spec("EVT-1", "FMT-3")
def test_raw_events_spell_a_float_as_a_person_reads_it() -> None:
    """Six digits, and every whole one where there are more; what is exact stays so."""
    batch = make_batch([1234567], util=[0.1234567891], big=[12345678.9], small=[1.25])
    text = render(make_document(make_result(batch, ["raw"], mode="trace")))
    assert "value=1234567 util=0.123457 big=12345679 small=1.25" in text


@pytest.mark.spec("REQ-6", "FMT-3")
@pytest.mark.parametrize(
    ("window", "asked"),
    [
        (RequestWindow(SECOND, 3 * SECOND), "of pid 7, from 1 s to 3 s of the run"),
        (RequestWindow(SECOND), "of pid 7, from 1 s of the run on"),
        (RequestWindow(None, 3 * SECOND), "of pid 7, from 0 ns to 3 s of the run"),
    ],
)
def test_a_window_of_a_requests_own_is_said_as_it_was_asked_and_as_it_was(window: RequestWindow, asked: str) -> None:
    """Two requests of one source are told apart by nothing else."""
    result = make_result(make_batch([1]), ["summary"])
    request = attrs.evolve(result.resolved.request, window=window)
    run = Window(WINDOW.opened_ns - SECOND, WINDOW.closed_ns + SECOND)
    own = attrs.evolve(result, resolved=attrs.evolve(result.resolved, request=request))
    text = render(attrs.evolve(make_document(own), window=run))
    assert asked in text.splitlines()[0]
    assert "window     2 s from 1 s on, 1 event" in text
