"""A run from its resolved session to its document."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import attrs
import pytest
from run_subjects import Elapsed, Threads, events, make_registry, make_session, resolve

from omn_core.api import (
    Batch,
    BoundTarget,
    CollectorBase,
    Document,
    InTargetCost,
    Losses,
    MachineRefused,
    Moment,
    NotCollected,
    RequestError,
    RunEvent,
    RunFailed,
    Target,
    TargetGone,
    hookimpl,
)
from omn_core.model.request import RequestWindow
from omn_core.plugins import PluginRecord, Registry
from omn_core.run import linux
from omn_core.run.runner import RunOptions, run

_MS = 1_000_000
_SYSTEM = Target("system")


def _launch(*arguments: str) -> Target:
    return Target("launch", arguments)


def _mine(collector: str, target: Target, **more: Any) -> Any:
    return resolve(collector, target, module=__name__, **more)


class Diary(CollectorBase):
    """Notes every call it gets, all instances in one list."""

    calls: ClassVar[list[tuple[str, str, int]]] = []
    reads_at_open = True
    is_answering = True

    def _note(self, call: str) -> None:
        source = self.resolved.request.source
        self.calls.append((source, call, time.monotonic_ns()))

    def prepare(self, resolved: Any, context: Any) -> None:
        super().prepare(resolved, context)
        self._note("prepare")

    def attach(self, target: BoundTarget) -> None:
        self.target = target
        self._note("attach")

    def sample(self, now_ns: int) -> Batch:
        self._note("sample")
        return Batch.of_reading((now_ns, self.context.clock()), self.context.names, {}, {"value": [1]})

    def stop(self) -> Batch:
        self._note("stop")
        return Batch.empty()


class Interval(Diary):
    """The same, reading intervals."""

    reads_at_open = False


class RefusesAttach(Diary):
    def attach(self, target: BoundTarget) -> None:
        super().attach(target)
        raise MachineRefused("it will not have this target")


class RaisesInAttach(Diary):
    def attach(self, target: BoundTarget) -> None:
        raise OSError(5, "broken")


class RefusesPrepare(Diary):
    def prepare(self, resolved: Any, context: Any) -> None:
        super().prepare(resolved, context)
        raise MachineRefused("it is not here")


class RaisesInSample(Diary):
    def sample(self, now_ns: int) -> Batch:
        raise ValueError("a bad byte")


class ReturnsNoBatch(Diary):
    def sample(self, now_ns: int) -> Batch:
        return None  # type: ignore[return-value]  # what a plugin may get wrong


class RaisesInEverythingElse(Diary):
    def losses(self) -> Losses:
        raise KeyError("losses")

    def in_target_cost(self) -> InTargetCost:
        raise KeyError("cost")


class GoneAfterTwo(Diary):
    reads = 0

    def sample(self, now_ns: int) -> Batch:
        self.reads += 1
        if self.reads > 2:
            raise TargetGone
        return super().sample(now_ns)


class Overruns(Diary):
    """Its second reading lasts over three and a half intervals of 20 ms, on purpose."""

    reads_at_open = False
    reads = 0

    def sample(self, now_ns: int) -> Batch:
        self.reads += 1
        if self.reads == 2:
            time.sleep(0.07)
        return super().sample(now_ns)


class Large(Diary):
    """Each reading is a thousand events."""

    def sample(self, now_ns: int) -> Batch:
        return Batch.of_reading((now_ns, now_ns + 1), self.context.names, {}, {"value": list(range(1000))})


class Fails(Diary):
    def failure(self) -> str:
        return "the program died of the library it was given"

    def facts(self) -> tuple[str, ...]:
        return ("a fact",)

    def fields(self) -> dict[str, int]:
        return {"births": 3}

    def degradations(self) -> tuple[str, ...]:
        return ("a degradation",)

    def losses(self) -> Losses:
        return Losses(failed_reads=2, reasons=("two readings gave nothing",))

    def in_target_cost(self) -> InTargetCost:
        return InTargetCost(1000)


class Stream(Diary):
    """Buffers one event before its window, one inside, one after the close."""

    def attach(self, target: BoundTarget) -> None:
        super().attach(target)
        self.attached_ns = self.context.clock()

    def stop(self) -> Batch:
        super().stop()
        stamps = [self.attached_ns, self.last_ns, self.context.clock()]
        batch = Batch.of_reading((0, 1), self.context.names, {}, {"value": [0, 1, 2]})
        return attrs.evolve(batch, ts=batch.ts * 0 + stamps, ts_err=None)

    def sample(self, now_ns: int) -> Batch:
        self.last_ns = now_ns
        return Batch.empty()


class Drained(Stream):
    def row_stamp(self) -> str:
        return "drain"


@pytest.fixture(autouse=True)
def _empty_diary() -> None:
    Diary.calls.clear()


def _calls(source: str | None = None) -> list[str]:
    return [call for found, call, _ in Diary.calls if source is None or found == source]


def _observed(function: Callable[[RunEvent], None]) -> Registry:
    registry = make_registry()
    plugin = ModuleType("watcher")
    plugin.omn_run_event = hookimpl(function)  # type: ignore[attr-defined]
    registry.manager.register(plugin, "watcher")
    registry.records.append(PluginRecord("watcher", "omn-watcher", "1", module=plugin))
    return registry


def _run(*requests: Any, **more: Any) -> Document:
    return run(make_session(*requests, **more), make_registry(), RunOptions(become_subreaper=True))


# order


@pytest.mark.spec("RUN-2")
def test_everything_is_prepared_before_the_program_exists_and_attached_before_it_runs(tmp_path: Path) -> None:
    """Prepare all, launch held, attach all, announce, and only then does the program do anything."""
    moments: list[tuple[str, bool, int | None]] = []
    mark = tmp_path / "ran"

    def omn_run_event(event: RunEvent) -> None:
        moments.append((event.moment.value, mark.exists(), event.pid))
        if event.moment is not Moment.TICK:
            Diary.calls.append(("event", event.moment.value, event.ts_ns))

    target = _launch("touch", str(mark))
    document = run(
        make_session(_mine("Diary", target), _mine("Interval", target)), _observed(omn_run_event), RunOptions()
    )
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
    target = _launch("sh", "-c", "sleep 0.05")
    document = _run(_mine("Diary", target), _mine("Interval", target, mode="count"), _mine("Stream", _SYSTEM))
    assert {(one.window.opened_ns, one.window.closed_ns) for one in document.results} == {
        (document.window.opened_ns, document.window.closed_ns)
    }
    for source in ("test.diary", "test.interval", "test.stream"):
        stamps = [(call, at) for found, call, at in Diary.calls if found == source]
        samples = [at for call, at in stamps if call == "sample"]
        assert all(at <= document.window.closed_ns for at in samples)
        assert stamps[-1][0] == "stop"
        assert stamps[-1][1] >= document.window.closed_ns
    assert _calls("test.interval") == ["prepare", "attach", "sample", "stop"]


@pytest.mark.spec("RUN-10", "RUN-15")
def test_a_counters_baseline_is_before_the_release_and_no_tiny_interval_opens_it() -> None:
    """A gauge is read at the opening, a counter is not; its first interval holds everything since the attach."""
    target = _launch("sh", "-c", "sleep 0.09")
    document = _run(resolve("Threads", target), resolve("Elapsed", target))
    gauge, counter = events(document, 0), events(document, 1)
    assert counter[0]["value"] >= 20 * _MS
    assert counter[0]["ts"] - document.window.opened_ns >= 20 * _MS
    assert sum(one["value"] for one in counter) >= counter[-1]["ts"] - document.window.opened_ns
    assert len(gauge) == len(counter) + 1
    assert gauge[0]["ts"] < counter[0]["ts"]


@pytest.mark.spec("RUN-3", "RUN-7")
def test_the_closing_round_reads_the_zombie() -> None:
    """The last reading finds the program ended and not yet reaped; after the run it is reaped."""
    document = _run(resolve("Threads", _launch("true"), mode="count"))
    (closing,) = events(document)
    assert closing["state"] == "Z"
    assert document.program is not None
    assert closing["task"] == document.program.pid
    assert document.results[0].stopped_because is None
    assert document.results[0].losses.is_empty
    assert linux.find_stat(document.program.pid) is None


def test_ticks_lie_on_the_grid_of_the_opening() -> None:
    """Each reading is on or after its own tick and before the next; nothing drifts."""
    document = _run(resolve("Elapsed", _SYSTEM), duration_ns=200 * _MS)
    offsets = [one["ts"] - document.window.opened_ns for one in events(document)]
    taken = [int(offset // (20 * _MS)) for offset in offsets[:-1]]
    assert taken == sorted(set(taken))
    assert document.results[0].losses.swallowed == 9 - len([tick for tick in taken if 1 <= tick <= 9])


@pytest.mark.spec("RUN-6")
def test_an_overrun_round_is_counted_with_its_reason() -> None:
    """Late once, the readings that fell into it apart, and said; the figure is no lower bound for it."""
    document = _run(_mine("Overruns", _SYSTEM), duration_ns=200 * _MS)
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
    document = run(make_session(_mine("Large", _SYSTEM), duration_ns=150 * _MS), make_registry(), options)
    result = document.results[0]
    assert result.events_seen == 2000
    assert result.losses.dropped >= 1000
    assert result.losses.dropped % 1000 == 0
    assert result.losses.is_lower_bound
    assert "60000 bytes" in result.losses.reasons[0]


@pytest.mark.spec("EVT-1")
def test_events_outside_the_window_are_none_of_it() -> None:
    """A stream's events before the opening and after the close are not in the answer; drained rows all are."""
    document = _run(
        _mine("Stream", _SYSTEM, mode="trace"), _mine("Drained", _SYSTEM, mode="trace"), duration_ns=30 * _MS
    )
    assert [one["value"] for one in events(document, 0)] == [1]
    assert [one["value"] for one in events(document, 1)] == [0, 1, 2]
    assert document.results[1].row_stamp == "drain"


# ends


def test_a_snapshot_ends_the_run_with_its_reading() -> None:
    """One reading, nothing awaited; with a duration it is made at the close."""
    target = Target("pid", (os.getpid(),))
    assert len(events(_run(resolve("Threads", target, mode="snapshot")))) == 1
    document = _run(resolve("Threads", target, mode="snapshot"), duration_ns=60 * _MS)
    (only,) = events(document)
    assert only["ts"] - document.window.opened_ns >= 60 * _MS


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
        document = run(make_session(*requests), _observed(omn_run_event))
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
        document = _run(resolve("Threads", Target("pid", (child.pid,))), duration_ns=50 * _MS)
        assert document.window.length_ns >= 50 * _MS
        stat = linux.find_stat(child.pid)
        assert stat is not None
        assert stat.state == "S"
        assert child.communicate() == (None, None)
        assert child.returncode == 0


@pytest.mark.spec("RUN-7")
def test_a_target_that_is_gone_ends_its_request_and_the_others_go_on() -> None:
    """Its window closes where it said so; with nothing else to wait for the run ends with it."""
    document = _run(_mine("GoneAfterTwo", _SYSTEM), _mine("Interval", _SYSTEM), duration_ns=150 * _MS)
    gone, stayed = document.results
    assert gone.stopped_because == "its target ended"
    assert gone.events_seen == 2
    assert gone.window.closed_ns < stayed.window.closed_ns == document.window.closed_ns
    assert gone.failure is None
    assert _calls("test.goneaftertwo")[-1] == "stop"
    alone = _run(_mine("GoneAfterTwo", _SYSTEM), duration_ns=3_600_000 * _MS)
    assert alone.results[0].events_seen == 2


@pytest.mark.spec("RUN-5")
def test_a_duration_ends_the_program_and_all_it_started(tmp_path: Path) -> None:
    """The program is ended with the window, and the document says who ended it."""
    path = tmp_path / "pids"
    document = run(
        make_session(
            resolve("Threads", _launch("sh", "-c", "sleep 1000 & echo $! $$; wait")),
            duration_ns=300 * _MS,
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
    document = _run(_mine("Interval", _SYSTEM), launch=("sh", "-c", "exit 3"))
    assert document.program is not None
    assert document.program.exit == {"code": 3}
    (result,) = document.results
    assert result.scope == "system"
    assert any("window of this figure, not its scope" in caveat for caveat in result.caveats)
    assert document.cost.target_ns is None


# windows of their own


@pytest.mark.spec("REQ-6")
def test_a_request_has_its_own_window_inside_the_run() -> None:
    """Attached at its start, detached at its stop, once, and stamped; the others have the run's."""
    window = RequestWindow(start_ns=60 * _MS, stop_ns=140 * _MS)
    document = _run(_mine("Diary", _SYSTEM, window=window), _mine("Interval", _SYSTEM), duration_ns=200 * _MS)
    own, whole = document.results
    opened_ns = document.window.opened_ns
    assert _calls("test.diary").count("attach") == _calls("test.diary").count("stop") == 1
    assert own.attached_ns is not None
    assert own.detached_ns is not None
    assert own.attached_ns - opened_ns >= 60 * _MS
    assert own.attached_ns <= own.window.opened_ns
    assert own.window.closed_ns - opened_ns >= 140 * _MS
    assert own.window.closed_ns <= own.detached_ns <= document.window.closed_ns
    assert own.stopped_because == "its window ended"
    assert (whole.attached_ns, whole.detached_ns) == (None, None)
    stamps = [one["ts"] for one in events(document, 0)]
    assert stamps
    assert own.window.opened_ns <= min(stamps) <= max(stamps) <= own.window.closed_ns


@pytest.mark.spec("REQ-6")
def test_a_window_that_never_opened_says_so() -> None:
    """The program ended first: nothing was watched, which is no failure and no zero-length answer by accident."""
    window = RequestWindow(start_ns=3_600_000 * _MS)
    document = _run(_mine("Diary", _launch("true"), window=window), _mine("Interval", _launch("true")))
    result = document.results[0]
    assert result.stopped_because == "the run ended before its window opened"
    assert (result.window.length_ns, result.events_seen, result.failure) == (0, 0, None)
    assert _calls("test.diary") == ["prepare", "stop"]


@pytest.mark.spec("REQ-6", "RUN-9")
def test_an_attach_refused_inside_the_run_fails_that_request() -> None:
    """The others' results stand, and the run fails once they are written."""
    window = RequestWindow(start_ns=20 * _MS)
    document = _run(_mine("RefusesAttach", _SYSTEM, window=window), _mine("Interval", _SYSTEM), duration_ns=80 * _MS)
    failed, served = document.results
    assert "could not attach inside the run: it will not have this target" in (failed.failure or "")
    assert served.failure is None
    assert served.events_seen >= 1


@pytest.mark.spec("REQ-6")
def test_a_window_on_a_layer_is_not_built() -> None:
    """Refused as the build's gap, before anything is prepared."""
    with pytest.raises(NotCollected, match="while a layer is on"):
        _run(_mine("Diary", _launch("true"), window=RequestWindow(on="request")))
    assert Diary.calls == []


# refusals and failures


def _children() -> tuple[int, ...]:
    return linux.read_children()


@pytest.mark.spec("RUN-2")
@pytest.mark.parametrize(
    ("collector", "raised", "sentence"),
    [
        ("RefusesPrepare", MachineRefused, "it is not here"),
        ("RefusesAttach", MachineRefused, "it will not have this target"),
        ("RaisesInAttach", RunFailed, "test.raisesinattach on test failed: its attach raised OSError"),
        ("Missing", NotCollected, "does not load: AttributeError"),
    ],
)
def test_a_refusal_before_the_release_leaves_nothing(
    tmp_path: Path, collector: str, raised: type[Exception], sentence: str
) -> None:
    """The program never ran, no child is left, no descriptor stays open, and the other collectors let go."""
    mark = tmp_path / "ran"
    target = _launch("touch", str(mark))
    before, descriptors = _children(), os.listdir("/proc/self/fd")
    with pytest.raises(raised, match=sentence):
        _run(_mine("Diary", target), _mine(collector, target))
    assert not mark.exists()
    assert _children() == before
    assert os.listdir("/proc/self/fd") == descriptors
    assert _calls("test.diary")[-1] == "stop"


@pytest.mark.spec("RUN-2")
def test_a_program_that_is_not_there_is_refused_before_anything_is_prepared() -> None:
    """The search comes first."""
    with pytest.raises(MachineRefused, match="in no folder of PATH"):
        _run(_mine("Diary", _launch("no-such-program-anywhere")))
    assert Diary.calls == []


def test_a_program_the_kernel_refuses_is_not_reported_as_run(tmp_path: Path) -> None:
    """The exec fails after the release: a refusal, not a document, and nothing is left."""
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    before = _children()
    with pytest.raises(MachineRefused, match="'/no/such/interpreter' does not exist"):
        _run(_mine("Diary", _launch(str(program))))
    assert _children() == before
    assert _calls() == ["prepare", "attach", "stop"]


@pytest.mark.spec("REQ-10")
def test_several_processes_are_refused_to_a_collector_of_one() -> None:
    """Exit 2, before anything is bound; a collector that follows several takes them."""
    target = Target("pid", (os.getpid(), os.getppid()))
    with pytest.raises(RequestError, match="follows one process"):
        _run(resolve("Threads", target, mode="snapshot"))
    document = _run(resolve("Threads", target, mode="snapshot", several=True))
    assert [one["task"] for one in events(document)] == [os.getpid(), os.getppid()]


def test_a_kind_of_target_that_nothing_finds_is_the_builds_gap() -> None:
    """Named, with what would mend it."""
    with pytest.raises(NotCollected, match="target of kind 'cgroup'"):
        _run(_mine("Diary", Target("cgroup", "/")))


@pytest.mark.spec("RUN-9")
@pytest.mark.parametrize(
    ("collector", "sentence"),
    [
        ("RaisesInSample", "its sample raised ValueError: a bad byte"),
        ("ReturnsNoBatch", "its sample raised TypeError"),
        ("RaisesInEverythingElse", "its losses raised KeyError"),
    ],
)
def test_a_collector_that_raises_fails_the_run_after_the_others_are_served(collector: str, sentence: str) -> None:
    """Its result names source and backend in its failure; the others' results are whole."""
    document = _run(_mine(collector, _SYSTEM), _mine("Interval", _SYSTEM), duration_ns=80 * _MS)
    failed, served = document.results
    assert failed.failure is not None
    assert failed.failure.startswith(f"test.{collector.lower()} on test failed: {sentence}")
    assert served.failure is None
    assert served.window.closed_ns == document.window.closed_ns
    assert served.events_seen >= 1


@pytest.mark.spec("RUN-9")
def test_a_collector_says_what_it_has_to_say() -> None:
    """Failure, fields, facts, degradations, losses and cost are in the result."""
    document = _run(_mine("Fails", _SYSTEM), duration_ns=30 * _MS)
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

    document = run(make_session(_mine("Diary", _launch("true"))), _observed(omn_run_event))
    assert told == [Moment.RESOLVED]
    assert document.notes == (
        "the observer of plugin 'watcher' raised RuntimeError: no; it was told nothing more of this run",
    )


@pytest.mark.spec("REQ-8")
def test_what_a_filter_removed_is_counted() -> None:
    """Kept and dropped add up to what was seen, and a field that no event carried is named."""
    target = _launch("sh", "-c", "sleep 0.07")
    document = _run(resolve("Threads", target, predicate="state != 'Z'"))
    (result,) = document.results
    assert result.filter is not None
    assert result.filter.kept + result.filter.dropped == result.events_seen
    assert result.filter.dropped >= 1
    assert {one["state"] for one in events(document)} <= set("RSD")
    absent = _run(_mine("Diary", _SYSTEM, predicate="comm == 'x'"), duration_ns=1)
    assert absent.results[0].filter is not None
    assert absent.results[0].filter.absent_fields == ("comm",)


# the rest of the document


@pytest.mark.spec("RUN-1")
def test_one_clock() -> None:
    """Window, events and attachments are CLOCK_MONOTONIC, and a reading's uncertainty is never zero."""
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    document = _run(resolve("Threads", _launch("true")))
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert before <= document.window.opened_ns <= document.window.closed_ns <= after
    assert all(document.window.opened_ns <= one["ts"] <= document.window.closed_ns for one in events(document))
    assert (document.results[0].ts_err_ns or 0) >= 1
    assert document.program is not None
    assert 0 < (document.program.lifetime_ns or 0) <= after - before


@pytest.mark.spec("RUN-11")
def test_the_programs_output_goes_where_it_was_asked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session's files, or the variable for stderr, which the program does not see."""
    monkeypatch.setenv("OMN_PROGRAM_STDERR", str(tmp_path / "error"))
    script = "echo out; echo error ${OMN_PROGRAM_STDERR-unset} >&2"
    _run(_mine("Diary", _launch("sh", "-c", script)), program_stdout=str(tmp_path / "out"))
    assert (tmp_path / "out").read_text() == "out\n"
    assert (tmp_path / "error").read_text() == "error unset\n"


@pytest.mark.spec("SEC-6")
def test_a_tree_of_files_in_place_of_the_machine_is_said(tmp_path: Path) -> None:
    """A run under a sysroot is never mistaken for one of this machine."""
    options = RunOptions(sysroot=str(tmp_path))
    document = run(make_session(_mine("Diary", _SYSTEM, mode="snapshot")), make_registry(), options)
    assert any(str(tmp_path) in note for note in document.notes)
    assert document.environment["sysroot"] == str(tmp_path)


def test_a_run_outside_the_main_thread_watches_no_signals() -> None:
    """A library's caller may run from any thread; signals stay the caller's."""
    handler = signal.getsignal(signal.SIGINT)
    documents: list[Document] = []
    session = make_session(resolve("Threads", _launch("sh", "-c", "exit 5")))
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
        session = make_session(resolve("Threads", _launch("sh", "-c", "exit 5"), mode="count"))
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
    _run(resolve("Threads", _launch("true")))
    descriptors, children = os.listdir("/proc/self/fd"), _children()
    _run(
        resolve("Threads", _launch("true")), resolve("Elapsed", Target("pid", (os.getpid(),))), _mine("Diary", _SYSTEM)
    )
    assert os.listdir("/proc/self/fd") == descriptors
    assert _children() == children
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)] == handlers
    assert signal.set_wakeup_fd(-1) == -1


def test_the_collectors_under_test_are_what_they_say() -> None:
    """The counter starts at its attach and the gauge at its opening: the test's own tools tell the two apart."""
    assert Threads.reads_at_open
    assert not Elapsed.reads_at_open
    assert CollectorBase.reads_at_open is False
    assert sys.modules[__name__].Diary is Diary
