"""What ends a run and what ends one request in it, and windows of a request's own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import attrs
import pytest
from run_diary import MS, SYSTEM, Diary, calls, launch, mine, observed, run_all
from run_subjects import events, make_registry, make_session, resolve

from omn_core.api import (
    BoundTarget,
    Moment,
    ProcessHandle,
    RunEvent,
    Target,
)
from omn_core.model.catalog import TargetCaveat
from omn_core.model.request import RequestWindow
from omn_core.run import linux
from omn_core.run.runner import run


@pytest.fixture(autouse=True)
def _empty_diary() -> None:
    Diary.calls.clear()


def test_a_snapshot_ends_the_run_with_its_reading() -> None:
    """One reading, nothing awaited; with a duration it is made at the close."""
    target = Target("pid", (os.getpid(),))
    assert len(events(run_all(resolve("Threads", target, mode="snapshot")))) == 1
    document = run_all(resolve("Threads", target, mode="snapshot"), duration_ns=60 * MS)
    (only,) = events(document)
    assert only["ts"] - document.window.opened_ns >= 60 * MS


@pytest.mark.spec("REQ-6")
def test_a_snapshot_whose_window_starts_is_taken_there_however_long_the_run_may_be() -> None:
    """The duration bounds the run; the window says when its snapshot is asked for."""
    late = attrs.evolve(mine("Interval", SYSTEM, window=RequestWindow(start_ns=40 * MS)), mode="snapshot")
    document = run_all(mine("Diary", SYSTEM), attrs.evolve(late, interval_ns=None), duration_ns=400 * MS)
    (taken,) = events(document, 1)
    closing = [at_ns for source, call, at_ns in Diary.calls if (source, call) == ("test.diary", "sample")][-1]
    assert document.window.opened_ns + 40 * MS <= taken["ts"] < closing


def test_a_snapshot_that_its_target_did_not_live_to_says_so() -> None:
    """No figure, and the reason: the program ended before the duration that the snapshot waits for."""
    gone = attrs.evolve(mine("Gone", launch("true")), mode="snapshot", interval_ns=None)
    document = run_all(gone, duration_ns=10_000 * MS)
    (missed,) = document.results
    assert (missed.events_seen, missed.facts) == (0, ("its target ended before its snapshot was taken",))


@pytest.mark.spec("REQ-10")
def test_attached_runs_end_with_their_processes_and_signal_none(tmp_path: Path) -> None:
    """The run ends when the last of them has; one that went first ends its own request there."""
    stdin = {"stdin": subprocess.PIPE}
    with subprocess.Popen(["cat"], **stdin) as first, subprocess.Popen(["cat"], **stdin) as second:  # type: ignore[call-overload]
        ended: list[int] = []

        def omn_run_event(event: RunEvent) -> None:
            if event.moment is not Moment.TICK:
                return
            indices = {index for index, _ in event.batches}
            if not ended and indices == {0, 1}:
                first.communicate()
                ended.append(event.ts_ns)
            elif ended and indices == {1} and second.returncode is None:
                second.communicate()

        requests = [resolve("Threads", Target("pid", (one.pid,))) for one in (first, second)]
        document = run(make_session(*requests), observed(omn_run_event))
        assert (first.returncode, second.returncode) == (0, 0)
    gone, stayed = document.results
    assert gone.stopped_because == "its target ended"
    assert ended[0] <= gone.window.closed_ns < document.window.closed_ns
    assert stayed.stopped_because is None
    assert stayed.window.closed_ns == document.window.closed_ns
    assert gone.losses.is_empty
    assert document.program is None


@pytest.mark.spec("REQ-10")
def test_a_duration_is_a_ceiling_and_leaves_the_target_running() -> None:
    """The run ends at the duration, and the process it was attached to was not touched."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        document = run_all(resolve("Threads", Target("pid", (child.pid,))), duration_ns=50 * MS)
        assert document.window.length_ns >= 50 * MS
        stat = linux.find_stat(child.pid)
        assert stat is not None
        assert stat.state == "S"
        assert child.communicate() == (None, None)
        assert child.returncode == 0


@pytest.mark.spec("RUN-7")
def test_a_target_that_is_gone_ends_its_request_and_the_others_go_on() -> None:
    """Its window closes where it said so; with nothing else to wait for the run ends with it."""
    document = run_all(mine("GoneAfterTwo", SYSTEM), mine("Interval", SYSTEM), duration_ns=150 * MS)
    gone, stayed = document.results
    assert gone.stopped_because == "its target ended"
    assert gone.events_seen == 2
    assert gone.window.closed_ns < stayed.window.closed_ns == document.window.closed_ns
    assert gone.failure is None
    assert calls("test.goneaftertwo")[-1] == "stop"
    alone = run_all(mine("GoneAfterTwo", SYSTEM), duration_ns=3_600_000 * MS)
    assert alone.results[0].events_seen == 2


@pytest.mark.spec("RUN-5")
def test_a_duration_ends_the_program_and_all_it_started(tmp_path: Path) -> None:
    """The program is ended with the window, and the document says who ended it."""
    path = tmp_path / "pids"
    document = run(
        make_session(
            resolve("Threads", launch("sh", "-c", "sleep 1000 & echo $! $$; wait")),
            duration_ns=300 * MS,
            program_stdout=str(path),
        ),
        make_registry(),
    )
    assert document.program is not None
    assert document.program.exit == {"signal": "SIGKILL"}
    assert any("omn ended it" in note for note in document.notes)
    for pid in map(int, path.read_text().split()):
        stat = linux.find_stat(pid)
        assert stat is None or stat.is_zombie


def test_a_program_may_be_the_window_of_the_machine() -> None:
    """Its end ends the run, the scope stays the machine's, and the result says so."""
    document = run_all(mine("Interval", SYSTEM), launch=("sh", "-c", "exit 3"))
    assert document.program is not None
    assert document.program.exit == {"code": 3}
    (result,) = document.results
    assert result.scope == "system"
    assert any("window of this figure, not its scope" in caveat for caveat in result.caveats)
    assert document.cost.target_ns is None


def test_a_result_carries_the_caveats_of_its_target() -> None:
    """What is true of another kind of target is not in the way of a reader of this one."""
    resolved = mine("Interval", SYSTEM)
    caveats = ("of all", TargetCaveat("of the machine", ("system",)), TargetCaveat("of a process", ("launch", "pid")))
    resolved = attrs.evolve(resolved, entry=attrs.evolve(resolved.entry, caveats=caveats))
    (result,) = run_all(resolved, duration_ns=20 * MS).results
    assert result.caveats == ("of all", "of the machine")


@pytest.mark.spec("REQ-6")
def test_a_request_has_its_own_window_inside_the_run() -> None:
    """Attached at its start, detached at its stop, once, and stamped; the others have the run's."""
    window = RequestWindow(start_ns=60 * MS, stop_ns=140 * MS)
    document = run_all(mine("Diary", SYSTEM, window=window), mine("Interval", SYSTEM), duration_ns=200 * MS)
    own, whole = document.results
    opened_ns = document.window.opened_ns
    assert calls("test.diary").count("attach") == calls("test.diary").count("stop") == 1
    assert own.attached_ns is not None
    assert own.detached_ns is not None
    assert own.attached_ns - opened_ns >= 60 * MS
    assert own.attached_ns <= own.window.opened_ns
    assert own.window.closed_ns - opened_ns >= 140 * MS
    assert own.window.closed_ns <= own.detached_ns <= document.window.closed_ns
    assert own.stopped_because == "its window ended"
    assert (whole.attached_ns, whole.detached_ns) == (None, None)
    stamps = [one["ts"] for one in events(document, 0)]
    assert stamps
    assert own.window.opened_ns <= min(stamps) <= max(stamps) <= own.window.closed_ns


@pytest.mark.spec("REQ-6")
def test_a_window_that_never_opened_says_so() -> None:
    """The program ended first: nothing was watched, which is no failure and no zero-length answer by accident."""
    window = RequestWindow(start_ns=3_600_000 * MS)
    document = run_all(mine("Diary", launch("true"), window=window), mine("Interval", launch("true")))
    result = document.results[0]
    assert result.stopped_because == "the run ended before its window opened"
    assert (result.window.length_ns, result.events_seen, result.failure) == (0, 0, None)
    assert (result.series, result.raw) == ((), None)
    assert calls("test.diary") == ["prepare", "stop"]
    assert "test.diary" not in document.cost.in_target_unknown


@pytest.mark.spec("REQ-6")
def test_a_target_that_ended_before_its_window_opened_is_no_failure() -> None:
    """Nothing is attached to it; the request's result says so and is empty, and the others are served."""
    with subprocess.Popen(["true"]) as child:
        window = RequestWindow(start_ns=60 * MS)
        target = Target("pid", (child.pid,))
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        bound = BoundTarget(target, "process", (ProcessHandle(child.pid, os.pidfd_open(child.pid), 0),))
        early = attrs.evolve(mine("Diary", target, window=window), bound=bound)
        document = run_all(early, mine("Interval", Target("pid", (os.getpid(),))), duration_ns=120 * MS)
    ended, served = document.results
    assert ended.stopped_because == "its target ended before its window opened"
    assert (ended.window.length_ns, ended.series, ended.failure, ended.attached_ns) == (0, (), None, None)
    assert calls("test.diary") == ["prepare", "stop"]
    assert served.events_seen >= 1


@pytest.mark.spec("REQ-6")
def test_a_run_whose_every_window_stops_ends_by_itself() -> None:
    """With the last of them, whatever the machine goes on doing; a snapshot is taken as its window stops."""
    windows = [RequestWindow(stop_ns=60 * MS), RequestWindow(start_ns=40 * MS, stop_ns=120 * MS)]
    first, second = (mine("Diary", SYSTEM, window=window) for window in windows)
    snapshot = attrs.evolve(mine("Interval", SYSTEM, window=windows[0]), mode="snapshot", interval_ns=None)
    document = run_all(first, second, snapshot)
    opened_ns = document.window.opened_ns
    assert [result.stopped_because for result in document.results] == ["its window ended"] * 3
    assert document.window.closed_ns - opened_ns >= 120 * MS
    taken = document.results[2]
    assert taken.events_seen == 1
    assert [one["ts"] >= opened_ns + 60 * MS for one in events(document, 2)] == [True]


@pytest.mark.spec("REQ-6", "RUN-9")
def test_an_attach_refused_inside_the_run_fails_that_request() -> None:
    """The others' results stand, and the run fails once they are written."""
    window = RequestWindow(start_ns=20 * MS)
    document = run_all(mine("RefusesAttach", SYSTEM, window=window), mine("Interval", SYSTEM), duration_ns=80 * MS)
    failed, served = document.results
    assert "could not attach inside the run: it will not have this target" in (failed.failure or "")
    assert served.failure is None
    assert served.events_seen >= 1
