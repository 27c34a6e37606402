"""Two sides of runs: which are compared, which questions are the same, and every refusal by name."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stored_runs import ENVIRONMENT, Plain, make_plain_result, make_plain_run, make_profile, name, write_plain_run

from omn_core.diff.compare import compare_runs
from omn_core.diff.model import Comparison, Row
from omn_core.diff.plain import compute_plain_comparison
from omn_core.diff.text import render_comparison
from omn_core.errors import RequestError
from omn_core.model.style import TextStyle

ALPHA = name("alpha")


def compare(tmp_path: Path, a: Plain, b: Plain) -> Comparison:
    """Store two runs and compare them."""
    return compare_runs([write_plain_run(tmp_path / "a", a)], [write_plain_run(tmp_path / "b", b)])


def make_figures(emit: str, answer: Plain, **changes: Any) -> Plain:
    """Make a run of one emit that is no stack."""
    given = {"source": "mem.faults", "mode": "count", "unit": "count", "value": "faults", **changes}
    return make_plain_run(make_plain_result({emit: {"lower_bound": False, **answer}}, **given))


def find_row(comparison: Comparison, place: int = 0) -> Row:
    return comparison.answers[0].tables[place].rows[0]


def repeat(*runs: Plain) -> Plain:
    """Make the document of a repeated run."""
    return {**runs[-1], "repeats": list(runs)}


@pytest.mark.spec("DIF-1", "RUN-12")
def test_repeats_are_as_many_runs(tmp_path: Path) -> None:
    """Three repeats a side: Welch's test between runs, and every run's own figure kept."""
    sides = [
        repeat(*(make_profile({(ALPHA,): samples}) for samples in counts))
        for counts in ((1000, 1010, 990), (1200, 1190, 1210))
    ]
    comparison = compare(tmp_path, *sides)
    table = comparison.answers[0].tables[0]
    assert (table.confidence, [ran.repeat for ran in comparison.a]) == ("between runs", [1, 2, 3])
    (row,) = (row for row in table.rows if row.name)
    assert (row.a.values, row.verdict) == ((1000e6, 1010e6, 990e6), "more")
    assert row.error is not None
    assert row.error >= (3200 / 9 + 3600 / 9) ** 0.5 * 1e6 * 0.9  # what counting makes, whatever the runs agree on


@pytest.mark.spec("DIF-1")
def test_several_runs_of_a_side_may_stand_in_several_places(tmp_path: Path) -> None:
    """A folder each, or the results file itself."""
    for number, samples in enumerate((1000, 1010, 1200, 1210)):
        write_plain_run(tmp_path / str(number), make_profile({(ALPHA,): samples}))
    comparison = compare_runs([tmp_path / "0", tmp_path / "1" / "results.json"], [tmp_path / "2", tmp_path / "3"])
    assert comparison.answers[0].tables[0].confidence == "between runs"
    assert [Path(ran.place).name for ran in comparison.a] == ["0", "results.json"]


@pytest.mark.spec("DIF-1")
def test_a_run_that_a_signal_cut_short_is_left_out_and_said(tmp_path: Path) -> None:
    """It is no equal of the others; a side of nothing else is refused."""
    whole, cut = make_profile({(ALPHA,): 100}), {**make_profile({(ALPHA,): 5}), "ended_by": "SIGINT"}
    comparison = compare(tmp_path, repeat(whole, cut), whole)
    assert len(comparison.a) == 1
    assert comparison.notes == (f"A: run 2 of {tmp_path / 'a'} was cut short by SIGINT, and is left out",)
    with pytest.raises(RequestError, match="holds no run that was not cut short"):
        compare(tmp_path, whole, cut)


@pytest.mark.spec("DIF-1")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"unit": "bytes"}, "the unit is ns in A and bytes in B"),
        ({"value": "wall_ns"}, "the value is oncpu_ns in A and wall_ns in B"),
        ({"mode": "trace"}, "the mode is sample in A and trace in B"),
        ({"filter": "pid == 7"}, "the filter is none in A and pid == 7 in B"),
        ({"scope": "system"}, "the scope is process in A and system in B"),
        ({"keys": ["comm"]}, "the keys is none in A and comm in B"),
        ({"failure": "it fell over"}, "B did not answer it"),
        ({"source": "cpu.cycles"}, "B did not answer it"),
    ],
)
def test_another_question_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    """Another source, unit, mode, value, filter, scope: nothing is compared, and the sentence says what differs."""
    run = make_profile({(ALPHA,): 100})
    other = make_plain_run(make_plain_result(run["results"][0]["series"][0]["emits"], **changes))
    with pytest.raises(RequestError, match=r"nothing of A and B can be compared: cpu\.profile: ") as caught:
        compare(tmp_path, run, other)
    assert reason in caught.value.reason


@pytest.mark.spec("DIF-1")
def test_what_has_no_figure_is_refused_beside_what_has(tmp_path: Path) -> None:
    """A histogram, a timeline and raw events are named with what to ask instead; the count beside them is compared."""
    emits = {
        "count": {"lower_bound": False, "events": 3, "value": 3},
        "hist": {"lower_bound": False, "scale": "log2", "buckets": [], "sum": 0},
        "timeline": {"lower_bound": False, "points": []},
        "raw": {"lower_bound": False, "events": 3},
        "mystery": {"lower_bound": False, "answer": 42},
    }
    run = make_plain_run(make_plain_result(emits))
    comparison = compare(tmp_path, run, run)
    assert [answer.emit for answer in comparison.answers] == ["count"]
    assert {one.what: one.reason for one in comparison.refused} == {
        "cpu.profile's hist": "a distribution has no one figure: ask a summary beside it",
        "cpu.profile's timeline": "a course over time has no one figure: ask a summary beside it",
        "cpu.profile's raw": "events have no counterpart in another run: ask a count or a summary beside them",
        "cpu.profile's mystery": "what it answers is not known to be figures",
    }


@pytest.mark.spec("DIF-1")
def test_what_one_side_alone_asked_is_named(tmp_path: Path) -> None:
    """A second request, a second emit: compared is what both have."""
    run = make_profile({(ALPHA,): 100})
    count = {"lower_bound": False, "events": 1, "value": 1}
    more = make_plain_result({**run["results"][0]["series"][0]["emits"], "count": count})
    comparison = compare(tmp_path, run, make_plain_run(more, make_plain_result({"count": count}, source="mem.faults")))
    assert [answer.emit for answer in comparison.answers] == ["stack"]
    assert [(one.what, one.reason) for one in comparison.refused] == [
        ("mem.faults", "A did not answer it"),
        ("cpu.profile's count", "A did not ask it"),
    ]


@pytest.mark.spec("DIF-1")
def test_counts_of_occurrences_are_judged_by_their_own_noise(tmp_path: Path) -> None:
    """A thousand faults against twelve hundred is certain, against a thousand and thirty is not; nanoseconds never."""
    one = make_figures("count", {"events": 1000, "value": 1000})
    for value, verdict in ((1200, "more"), (1030, None)):
        comparison = compare(tmp_path, one, make_figures("count", {"events": value, "value": value}))
        assert (find_row(comparison).verdict, comparison.answers[0].tables[0].confidence) == (verdict, "within one run")
    elapsed = [make_figures("count", {"events": 3, "value": value}, unit="ns") for value in (1e6, 9e6)]
    comparison = compare(tmp_path, *elapsed)
    assert (find_row(comparison).p, comparison.answers[0].tables[0].confidence) == (None, "nothing")


@pytest.mark.spec("DIF-1")
def test_a_summary_is_compared_figure_by_figure_between_runs(tmp_path: Path) -> None:
    """One run a side shows the differences alone; several have verdicts."""

    def make(mean: float) -> Plain:
        answer = {"count": 9, "min": 1, "max": mean * 2, "mean": mean, "p50": mean, "p90": mean, "p99": mean}
        return make_figures("summary", answer, unit="bytes", adds_up=False)

    single = compare(tmp_path, make(100), make(150))
    assert [table.figure for table in single.answers[0].tables] == ["mean", "p50", "p90", "p99", "max"]
    assert (find_row(single).difference, find_row(single).relative, find_row(single).verdict) == (50, 0.5, None)
    several = compare(tmp_path, repeat(*map(make, (100, 101, 99))), repeat(*map(make, (150, 151, 149))))
    assert find_row(several).verdict == "more"


@pytest.mark.spec("DIF-1")
def test_a_ranking_compares_what_both_ranked(tmp_path: Path) -> None:
    """A name that one ranking alone has may be below the other's end: no zero, no verdict; and a pid names nothing."""

    def make(attribute: str, **values: int) -> Plain:
        total = sum(values.values())
        rows = [{"key": {attribute: key}, "value": value, "share": value / total} for key, value in values.items()]
        return make_figures("topk:3@comm", {"rows": rows})

    comparison = compare(tmp_path, make("comm", sh=1000, cat=50), make("comm", sh=1500, dd=40))
    table = comparison.answers[0].tables[0]
    assert [(dict(row.name), row.verdict) for row in table.rows] == [({"comm": "sh"}, "more")]
    assert [(one.lacks, one.a, one.b) for one in table.apart] == [
        ("a figure in B", 50, None),
        ("a figure in A", None, 40),
    ]
    numbers = compare(tmp_path, make("pid", x=1000), make("pid", x=1500)).answers[0].tables[0]
    assert (numbers.rows, [one.lacks for one in numbers.apart]) == ((), ["a name outside its own run (pid)"])


@pytest.mark.spec("DIF-1")
def test_a_ranking_of_functions_compares_those_with_names(tmp_path: Path) -> None:
    """An address and unnamed memory mean nothing in another run; stacks by `within` do not add up."""
    rows = [{"key": {"func": key}, "value": 1000, "share": 0.25} for key in ("f(int)", "prog+0x11", "[anon]", "g")]
    run = make_figures("topk:3@func", {"rows": rows})
    (table,) = compare(tmp_path, run, run).answers[0].tables
    assert sorted(row.name["func"] for row in table.rows) == ["f(int)", "g"]
    assert [(one.lacks, one.rows) for one in table.apart] == [("a name: an address is no function of another run", 2)]
    profile = make_profile({(ALPHA,): 100})
    profile["results"][0]["request"]["keys"] = ["within"]
    with pytest.raises(RequestError, match="the key within puts an event in several series"):
        compare(tmp_path, profile, profile)


@pytest.mark.spec("DIF-1", "RES-6")
def test_what_differs_between_the_machines_is_named(tmp_path: Path) -> None:
    """Another kernel, another setting, another plugin's version, a capability less: each with both sides' values."""
    base = {
        **ENVIRONMENT,
        "transparent_hugepages": "madvise",
        "privileges": {"uid": 0, "capabilities": ["bpf", "kill"]},
    }
    other = {**base, "kernel": "6.12.0", "privileges": {"uid": 0, "capabilities": ["kill"]}, "boot_id": "two"}
    a, b = (make_profile({(ALPHA,): 100}) | {"environment": environment} for environment in (base, other))
    b["omn"] = {**b["omn"], "plugins": {"omn": "0.2.0"}}
    found = {one.field: (one.a, one.b) for one in compare(tmp_path, a, b).machines}
    assert found == {
        "kernel": (("6.18.0",), ("6.12.0",)),
        "privileges.capabilities": ((["bpf", "kill"],), (["kill"],)),
        "plugins.omn": (("0.1.0",), ("0.2.0",)),
    }


@pytest.mark.spec("DIF-1")
def test_another_way_of_measuring_is_said(tmp_path: Path) -> None:
    """Another rate, another walk, a degradation and losses of one side stand beside the figures."""
    answer = {"stack": make_profile({(ALPHA,): 100})["results"][0]["series"][0]["emits"]["stack"]}
    cut = "a stack deeper than what is copied is cut"
    a = make_plain_result(answer, degraded=[cut], stacks={"walk": "fp"})
    b = make_plain_result(
        answer, hz=99, degraded=["user mode alone", cut], losses={"dropped": 7}, stacks={"walk": "dwarf"}
    )
    (compared,) = compare(tmp_path, make_plain_run(a), make_plain_run(b)).answers
    assert compared.facts == (
        "the rate asked for is the default in A and 99 in B",
        "the walk of stacks is fp in A and dwarf in B",
        "B lost 7 dropped: its figures are lower bounds",
        f"A and B: {cut}",
        "B: user mode alone",
        "callers were found in several ways, so that no inclusive figures are compared",
    )
    assert [table.figure for table in compared.tables] == ["self"]


@pytest.mark.spec("DIF-1")
@pytest.mark.parametrize("damage", ["rows", "frames", "weight", "lower_bound"])
def test_an_answer_that_omn_did_not_write_is_one_sentence(tmp_path: Path, damage: str) -> None:
    """A field that is missing or of another kind deep inside: the request's fault, named, and no traceback."""
    run, broken = make_profile({(ALPHA,): 100}), make_profile({(ALPHA,): 100})
    answer = broken["results"][0]["series"][0]["emits"]["stack"]
    if damage in answer:
        del answer[damage]
    else:
        answer["rows"][0][damage] = {"frames": 5, "weight": "heavy"}[damage]
    with pytest.raises(RequestError, match=r"cpu\.profile's stack is not an answer that omn wrote"):
        compare(tmp_path, run, broken)


MISSING = object()


def iter_places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where every part of plain values stands."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, part in inner:
        yield (*place, step)
        yield from iter_places(part, (*place, step))


@pytest.mark.spec("DIF-1")
def test_whatever_stands_in_a_stored_run_is_compared_or_refused(tmp_path: Path) -> None:
    """Every part of a run taken away or made another kind, one after another: an answer or a refusal, and no third."""
    run = make_profile({(ALPHA,): 100, (name("prog+0x1", by=None),): 50, (): 3}, {"/usr/bin/prog": ["aa"]})
    result = run["results"][0]
    result["request"]["emits"] += ["count", "summary", "topk@comm"]
    result["series"][0]["emits"] |= {
        "count": {"lower_bound": False, "events": 3, "value": 3},
        "summary": {"lower_bound": False, "count": 9, "min": 1, "max": 60, "mean": 30},
        "topk@comm": {"lower_bound": False, "rows": [{"key": {"comm": "x"}, "value": 5, "share": 0.5}]},
    }
    whole = write_plain_run(tmp_path / "a", repeat(run))
    outcomes = {"compared": 0, "refused": 0}
    for *above, last in iter_places(run):
        for value in (MISSING, None, 1e308, "x", [None]):
            changed = copy.deepcopy(run)
            holder: Any = changed
            for part in above:
                holder = holder[part]
            if value is MISSING:
                del holder[last]
            else:
                holder[last] = value
            try:
                comparison = compare_runs([whole], [write_plain_run(tmp_path / "b", changed)])
            except RequestError:
                outcomes["refused"] += 1
            else:
                assert render_comparison(comparison, TextStyle())
                assert json.dumps(compute_plain_comparison(comparison), allow_nan=False)
                outcomes["compared"] += 1
    assert min(outcomes.values()) > 100, outcomes
