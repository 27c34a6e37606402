"""Refusals before the program runs, failures after, and what is left behind: nothing."""

from __future__ import annotations

import os
from pathlib import Path

import attrs
import pytest
from run_diary import MS, SYSTEM, Diary, calls, launch, mine, observed, run_all
from run_subjects import events, make_registry, make_session, resolve

from omn_core.api import (
    EmitRow,
    EmitSpec,
    MachineRefused,
    Moment,
    NotCollected,
    Refused,
    RunEvent,
    RunFailed,
    Target,
)
from omn_core.run import linux
from omn_core.run.runner import run


@pytest.fixture(autouse=True)
def _empty_diary() -> None:
    Diary.calls.clear()


@pytest.mark.spec("RUN-2")
@pytest.mark.parametrize(
    ("collector", "raised", "sentence"),
    [
        ("RefusesPrepare", Refused, r"^test\.refusesprepare: it is not here"),
        ("RefusesAttach", Refused, r"^test\.refusesattach: it will not have this target"),
        ("RaisesInAttach", RunFailed, "test.raisesinattach on test failed: its attach raised OSError"),
        ("Missing", NotCollected, "does not load: AttributeError"),
    ],
)
def test_a_refusal_before_the_release_leaves_nothing(
    tmp_path: Path, collector: str, raised: type[Exception], sentence: str
) -> None:
    """The program never ran, no child is left, no descriptor stays open, and the other collectors let go.

    Of several requests the one that is refused is named.
    """
    mark = tmp_path / "ran"
    target = launch("touch", str(mark))
    before, descriptors = linux.read_children(), os.listdir("/proc/self/fd")
    with pytest.raises(raised, match=sentence):
        run_all(mine("Diary", target), mine(collector, target))
    assert not mark.exists()
    assert linux.read_children() == before
    assert os.listdir("/proc/self/fd") == descriptors
    assert calls("test.diary")[-1] == "stop"


@pytest.mark.spec("RUN-2")
def test_every_request_that_is_refused_is_named_at_once() -> None:
    """Whoever mends one thing after the other starts the run as often."""
    first = mine("RefusesPrepare", SYSTEM)
    second = attrs.evolve(first, request=attrs.evolve(first.request, id="second"))
    with pytest.raises(Refused) as caught:
        run_all(first, mine("Diary", SYSTEM), second)
    assert "test.refusesprepare: it is not here" in caught.value.reason
    assert "second: it is not here" in caught.value.reason
    assert calls("test.diary") == ["prepare", "stop"]


@pytest.mark.spec("RUN-2")
def test_a_program_that_is_not_there_is_refused_before_anything_is_prepared() -> None:
    """The search comes first."""
    with pytest.raises(MachineRefused, match="in no folder of PATH"):
        run_all(mine("Diary", launch("no-such-program-anywhere")))
    assert Diary.calls == []


def test_a_program_the_kernel_refuses_is_not_reported_as_run(tmp_path: Path) -> None:
    """The exec fails after the release: a refusal, not a document, and nothing is left."""
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    before = linux.read_children()
    with pytest.raises(MachineRefused, match="'/no/such/interpreter' does not exist"):
        run_all(mine("Diary", launch(str(program))))
    assert linux.read_children() == before
    assert calls() == ["prepare", "attach", "stop"]


@pytest.mark.spec("REQ-10")
def test_several_processes_are_read_by_a_collector_that_follows_several() -> None:
    """Each pid of the target is one of its processes."""
    target = Target("pid", (os.getpid(), os.getppid()))
    document = run_all(resolve("Threads", target, mode="snapshot", several=True))
    assert [one["task"] for one in events(document)] == [os.getpid(), os.getppid()]


def test_a_collector_that_does_not_say_when_it_reads_reads_intervals() -> None:
    """Its first reading comes one interval after the opening."""
    run_all(mine("SaysNoMoment", launch("true"), interval_ns=60_000 * MS))
    assert calls() == ["prepare", "attach", "sample", "stop"]


def test_a_kind_of_target_that_nothing_finds_is_the_builds_gap() -> None:
    """Named, with what would mend it."""
    with pytest.raises(NotCollected, match="target of kind 'cgroup'"):
        run_all(mine("Diary", Target("cgroup", "/")))


@pytest.mark.spec("RUN-9")
@pytest.mark.parametrize(
    ("collector", "sentence"),
    [
        ("RaisesInSample", "its sample raised ValueError: a bad byte"),
        ("ReturnsNoBatch", "its sample raised TypeError"),
        ("RaisesInEverythingElse", "its in_target_cost raised KeyError"),
        ("CannotSayItsCost", "its in_target_cost raised KeyError"),
        ("AnswersInOtherKinds", "its stop raised TypeError: it returned None"),
    ],
)
def test_a_collector_that_raises_fails_the_run_after_the_others_are_served(collector: str, sentence: str) -> None:
    """Its result names source and backend in its failure; the others' results are whole."""
    document = run_all(mine(collector, SYSTEM), mine("Interval", SYSTEM), duration_ns=80 * MS)
    failed, served = document.results
    assert failed.failure is not None
    assert failed.failure.startswith(f"test.{collector.lower()} on test failed: {sentence}")
    assert served.failure is None
    assert served.window.closed_ns == document.window.closed_ns
    assert served.events_seen >= 1


@pytest.mark.spec("RUN-9", "EMT-4")
def test_an_emit_that_raises_fails_its_request_alone() -> None:
    """Its result names the emit and holds no answer; the others' results are whole."""
    registry = make_registry()
    registry.emits["broken"] = EmitRow("broken", "strangers:BROKEN")
    asked = mine("Diary", SYSTEM)
    session = make_session(
        attrs.evolve(asked, emits=(EmitSpec("broken"),)), mine("Interval", SYSTEM), duration_ns=50 * MS
    )
    failed, served = run(session, registry).results
    assert failed.failure == "plugin 'broken' (no distribution): emit broken raised ValueError: no such thing"
    assert (failed.series, failed.raw) == ((), None)
    assert (served.failure, served.events_seen >= 1) == (None, True)


@pytest.mark.spec("RUN-9")
def test_a_collector_says_what_it_has_to_say() -> None:
    """Failure, fields, facts, degradations, losses and cost are in the result."""
    document = run_all(mine("Fails", SYSTEM), duration_ns=30 * MS)
    (result,) = document.results
    assert result.failure == "the program died of the library it was given"
    assert (result.fields, result.facts, result.degraded) == ({"births": 3}, ("a fact",), ("a degradation",))
    assert result.losses.failed_reads == 2
    assert document.cost.in_target_ns == 1000


def test_an_observer_that_raises_is_told_nothing_more() -> None:
    """It is named in a note, and the run is whole."""
    told: list[Moment] = []

    def omn_run_event(event: RunEvent) -> None:
        told.append(event.moment)
        raise RuntimeError("no")

    document = run(make_session(mine("Diary", launch("true"))), observed(omn_run_event))
    assert told == [Moment.RESOLVED]
    assert document.notes == (
        "the observer of plugin 'watcher' raised RuntimeError: no; it was told nothing more of this run",
    )


@pytest.mark.spec("REQ-8")
def test_what_a_filter_removed_is_counted() -> None:
    """Kept and dropped add up to what was seen, and a field that no event carried is named."""
    target = launch("sh", "-c", "sleep 0.07")
    document = run_all(resolve("Threads", target, predicate="state != 'Z'"))
    (result,) = document.results
    assert result.filter is not None
    assert result.filter.kept + result.filter.dropped == result.events_seen
    assert result.filter.dropped >= 1
    assert {one["state"] for one in events(document)} <= set("RSD")
    absent = run_all(mine("Diary", SYSTEM, predicate="comm == 'x'"), duration_ns=1)
    assert absent.results[0].filter is not None
    assert absent.results[0].filter.absent_fields == ("comm",)
