"""A run from its resolved session to its document: order, readings, and what the document says."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest
from run_diary import MS, SYSTEM, Diary, calls, launch, mine, observed, run_all
from run_subjects import events, make_registry, make_session, resolve

from omn_core.api import (
    Document,
    Moment,
    Names,
    RunContext,
    RunEvent,
    Target,
)
from omn_core.run import linux
from omn_core.run.runner import RunOptions, run

LIMITS = Path(__file__).parents[2] / "docs" / "limits.md"


@pytest.fixture(autouse=True)
def _empty_diary() -> None:
    Diary.calls.clear()


@pytest.mark.spec("RUN-2")
def test_everything_is_prepared_before_the_program_exists_and_attached_before_it_runs(tmp_path: Path) -> None:
    """Prepare all, launch held, attach all, announce, and only then does the program do anything."""
    moments: list[tuple[str, bool, int | None]] = []
    mark = tmp_path / "ran"

    def omn_run_event(event: RunEvent) -> None:
        moments.append((event.moment.value, mark.exists(), event.pid))
        if event.moment is not Moment.TICK:
            Diary.calls.append(("event", event.moment.value, event.ts_ns))

    target = launch("touch", str(mark))
    document = run(make_session(mine("Diary", target), mine("Interval", target)), observed(omn_run_event), RunOptions())
    order = [call for _, call, _ in Diary.calls]
    assert order[:2] == ["prepare", "prepare"]
    assert order[2:7] == ["resolved", "launched", "attach", "attach", "attached"]
    assert order[-3:] == ["closed", "stop", "stop"]
    assert document.program is not None
    pid = document.program.pid
    assert moments[:3] == [("resolved", False, None), ("launched", False, pid), ("attached", False, pid)]
    assert moments[-1] == ("closed", True, pid)
    assert mark.exists()


@pytest.mark.spec("RUN-4")
def test_windows_open_and_close_at_one_instant_and_the_closing_read_is_before_it() -> None:
    """Every request has the run's window to the nanosecond, its last sample before the close, its stop after it."""
    target = launch("sh", "-c", "sleep 0.05")
    document = run_all(mine("Diary", target), mine("Interval", target, mode="count"), mine("Stream", SYSTEM))
    assert {(one.window.opened_ns, one.window.closed_ns) for one in document.results} == {
        (document.window.opened_ns, document.window.closed_ns)
    }
    for source in ("test.diary", "test.interval", "test.stream"):
        stamps = [(call, at) for found, call, at in Diary.calls if found == source]
        samples = [at for call, at in stamps if call == "sample"]
        assert all(at <= document.window.closed_ns for at in samples)
        assert stamps[-1][0] == "stop"
        assert stamps[-1][1] >= document.window.closed_ns
    assert calls("test.interval") == ["prepare", "attach", "sample", "stop"]


@pytest.mark.spec("RUN-10", "RUN-15")
def test_a_counters_baseline_is_before_the_release_and_no_tiny_interval_opens_it() -> None:
    """A gauge is read at the opening, a counter is not; its first interval holds everything since the attach."""
    target = launch("sh", "-c", "sleep 0.09")
    document = run_all(resolve("Threads", target), resolve("Elapsed", target))
    gauge, counter = events(document, 0), events(document, 1)
    assert counter[0]["value"] >= 20 * MS
    assert counter[0]["ts"] - document.window.opened_ns >= 20 * MS
    assert sum(one["value"] for one in counter) >= counter[-1]["ts"] - document.window.opened_ns
    assert len(gauge) == len(counter) + 1
    assert gauge[0]["ts"] < counter[0]["ts"]


@pytest.mark.spec("RUN-3", "RUN-7")
def test_the_closing_round_reads_the_zombie() -> None:
    """The last reading finds the program ended and not yet reaped; after the run it is reaped."""
    document = run_all(resolve("Threads", launch("true"), mode="count"))
    (closing,) = events(document)
    assert closing["state"] == "Z"
    assert document.program is not None
    assert closing["task"] == document.program.pid
    assert document.results[0].stopped_because is None
    assert document.results[0].losses.is_empty
    assert linux.find_stat(document.program.pid) is None


def test_ticks_lie_on_the_grid_of_the_opening() -> None:
    """Each reading is on or after its own tick and before the next; nothing drifts, and the close reads the last."""
    document = run_all(resolve("Elapsed", SYSTEM), duration_ns=200 * MS)
    offsets = [one["ts"] - document.window.opened_ns for one in events(document)]
    taken = [int(offset // (20 * MS)) for offset in offsets[:-1]]
    assert taken == sorted(set(taken))
    closing = int(offsets[-1] // (20 * MS))
    assert document.results[0].losses.swallowed == closing - len({*taken, closing} - {0})


@pytest.mark.spec("RUN-6")
def test_an_overrun_round_is_counted_with_its_reason() -> None:
    """Late once, the readings that fell into it apart, and said; the figure is no lower bound for it."""
    document = run_all(mine("Overruns", SYSTEM), duration_ns=200 * MS)
    losses = document.results[0].losses
    assert losses.late_ticks >= 1
    assert losses.swallowed >= 3
    assert losses.swallowed >= losses.late_ticks
    assert losses.reasons == ("rounds overran the interval of 20 ms, and readings fell into them",)
    assert not losses.is_lower_bound


@pytest.mark.spec("RUN-14")
def test_events_past_the_memory_bound_are_dropped_and_counted() -> None:
    """What was held stays, what came after is counted with its reason, and the figure is a lower bound."""
    options = RunOptions(memory_bytes=60_000)
    document = run(make_session(mine("Large", SYSTEM), duration_ns=150 * MS), make_registry(), options)
    result = document.results[0]
    assert result.events_seen == 2000
    assert result.losses.dropped >= 1000
    assert result.losses.dropped % 1000 == 0
    assert result.losses.is_lower_bound
    assert "60000 bytes" in result.losses.reasons[0]


@pytest.mark.spec("RUN-14")
def test_what_a_stop_hands_over_is_within_the_bound_too() -> None:
    """A stream's buffer, emptied at its stop, is held or dropped and counted like what it read before."""
    session = make_session(mine("Stream", SYSTEM, mode="trace"), duration_ns=30 * MS)
    (result,) = run(session, make_registry(), RunOptions(memory_bytes=10)).results
    assert (result.events_seen, result.losses.dropped) == (0, 3)


@pytest.mark.spec("RUN-14")
def test_the_bound_that_nobody_sets_is_the_one_that_is_documented() -> None:
    """limits.md says what a collector is lent and a run takes when nothing else is said."""
    assert RunOptions().memory_bytes == RunContext(Names(), time.monotonic_ns).memory_bytes
    documented = re.search(r"\| events one request may hold \| (\d+) MiB of columns \|", LIMITS.read_text())
    assert documented is not None
    assert int(documented[1]) << 20 == RunOptions().memory_bytes


@pytest.mark.spec("EVT-1")
def test_events_outside_the_window_are_none_of_it() -> None:
    """A stream's events before the opening and after the close are not in the answer; drained rows all are."""
    document = run_all(mine("Stream", SYSTEM, mode="trace"), mine("Drained", SYSTEM, mode="trace"), duration_ns=30 * MS)
    assert [one["value"] for one in events(document, 0)] == [1]
    assert [one["value"] for one in events(document, 1)] == [0, 1, 2]
    assert document.results[1].row_stamp == "drain"


@pytest.mark.spec("RUN-1")
def test_one_clock() -> None:
    """Window, events and attachments are CLOCK_MONOTONIC, and a reading's uncertainty is never zero."""
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    document = run_all(resolve("Threads", launch("true")))
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert before <= document.window.opened_ns <= document.window.closed_ns <= after
    assert all(document.window.opened_ns <= one["ts"] <= document.window.closed_ns for one in events(document))
    assert (document.results[0].ts_err_ns or 0) >= 1
    assert document.program is not None
    assert 0 < (document.program.lifetime_ns or 0) <= after - before


@pytest.mark.spec("RUN-11")
def test_the_programs_output_goes_where_it_was_asked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session's files; the command line's variable for stderr is none of the program's."""
    monkeypatch.setenv("OMN_PROGRAM_STDERR", str(tmp_path / "elsewhere"))
    script = "echo out; echo error ${OMN_PROGRAM_STDERR-unset} >&2"
    files = {"program_stdout": str(tmp_path / "out"), "program_stderr": str(tmp_path / "error")}
    run_all(mine("Diary", launch("sh", "-c", script)), **files)
    assert (tmp_path / "out").read_text() == "out\n"
    assert (tmp_path / "error").read_text() == "error unset\n"


@pytest.mark.spec("RUN-2")
def test_a_program_is_started_with_what_collectors_make_of_its_environment(tmp_path: Path) -> None:
    """Each in turn, of what the one before it left, before the program exists; omn's own environment stays."""
    target = launch("sh", "-c", "echo $LENT")
    run_all(mine("Lends", target), mine("Lends", target), program_stdout=str(tmp_path / "out"))
    assert (tmp_path / "out").read_text() == "xx\n"
    assert [call for _, call, _ in Diary.calls][:5] == ["prepare", "prepare", *["change_environment"] * 2, "attach"]
    assert "LENT" not in os.environ


@pytest.mark.spec("SEC-6")
def test_a_tree_of_files_in_place_of_the_machine_is_said(tmp_path: Path) -> None:
    """A run under a sysroot is never mistaken for one of this machine."""
    options = RunOptions(sysroot=str(tmp_path))
    document = run(make_session(mine("Diary", SYSTEM, mode="snapshot")), make_registry(), options)
    assert any(str(tmp_path) in note for note in document.notes)
    assert document.environment["sysroot"] == str(tmp_path)


def test_a_run_outside_the_main_thread_watches_no_signals() -> None:
    """A library's caller may run from any thread; signals stay the caller's."""
    handler = signal.getsignal(signal.SIGINT)
    documents: list[Document] = []
    session = make_session(resolve("Threads", launch("sh", "-c", "exit 5")))
    thread = threading.Thread(target=lambda: documents.append(run(session, make_registry())))
    thread.start()
    thread.join()
    assert documents[0].program is not None
    assert documents[0].program.exit == {"code": 5}
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.spec("REQ-9")
def test_an_exit_that_nobody_can_read_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that ignores SIGCHLD lets the kernel reap by itself; outside the main thread omn cannot help it."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    documents: list[Document] = []
    try:
        session = make_session(resolve("Threads", launch("sh", "-c", "exit 5"), mode="count"))
        thread = threading.Thread(target=lambda: documents.append(run(session, make_registry())))
        thread.start()
        thread.join()
        (document,) = documents
        assert document.program is not None
        assert document.program.exit is None
        assert document.program.cpu_ns is None
        documents.clear()
        document = run(session, make_registry())
        assert document.program is not None
        assert document.program.exit == {"code": 5}
        assert signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_nothing_is_left_open_after_a_run() -> None:
    """Descriptors, children, handlers and the wakeup descriptor are as they were."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]
    run_all(resolve("Threads", launch("true")))
    descriptors, children = os.listdir("/proc/self/fd"), linux.read_children()
    run_all(
        resolve("Threads", launch("true")), resolve("Elapsed", Target("pid", (os.getpid(),))), mine("Diary", SYSTEM)
    )
    assert os.listdir("/proc/self/fd") == descriptors
    assert linux.read_children() == children
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)] == handlers
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.spec("RUN-10", "EVT-5")
def test_a_window_shorter_than_its_interval_says_how_little_was_read() -> None:
    """A gauge then has the window's ends alone, said; an interval's closing reading holds the whole window."""
    target = launch("sh", "-c", "sleep 0.05")
    interval = 10_000 * MS
    document = run_all(
        resolve("Threads", target, interval_ns=interval), resolve("Elapsed", target, interval_ns=interval)
    )
    gauge, counter = document.results
    assert gauge.events_seen >= 1
    (fact,) = gauge.facts
    assert "was shorter than the interval of 10000 ms, and only its ends were read" in fact
    assert (counter.events_seen, counter.facts) == (1, ())


@pytest.mark.spec("RUN-4")
def test_a_count_of_what_would_be_gone_at_the_close_is_read_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its collector says so; any other count is read at its ends alone."""
    monkeypatch.setattr("omn_core.run.measurement.READ_BETWEEN_NS", 5 * MS)
    target = launch("sleep", "60")
    session = make_session(resolve("Vanishing", target, mode="count"), resolve("Elapsed", target, mode="count"))
    document = run(session, make_registry(), RunOptions())
    assert len(events(document)) >= 3
    assert len(events(document, 1)) == 1
    assert document.results[0].losses.late_ticks == 0
