"""A session run several times: what each run is, what they come to, and how they end."""

from __future__ import annotations

import os
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest
from run_diary import SYSTEM, Diary, launch
from run_subjects import make_registry, make_session, resolve

from omn_core.api import Batch, BoundTarget, CollectorBase, Document, MachineRefused, TargetGone
from omn_core.model.request import EmitSpec
from omn_core.model.rows import EmitRow
from omn_core.run.repeat import Repeated, number_outputs, run_repeatedly

COUNTS_UP = "n=$(cat n); echo $((n + 1)) > n"
"""A program whose n-th run leaves n in a file."""


class FileNumber(CollectorBase):
    """A closing figure: the number that the program left in the file `n`."""

    def attach(self, target: BoundTarget) -> None:
        """Nothing is attached: the file is read at the close."""

    def sample(self, now_ns: int) -> Batch:
        value = int(Path("n").read_text())
        return Batch.of_reading((now_ns, self.context.clock()), self.context.names, {}, {"value": [value]})


class FailsTheThird(FileNumber):
    def failure(self) -> str | None:
        return "the third is broken" if Path("n").read_text().strip() == "3" else None


class LosesInTheSecond(FileNumber):
    def sample(self, now_ns: int) -> Batch:
        if Path("n").read_text().strip() == "2":
            raise TargetGone
        return super().sample(now_ns)


class AbortsTheSecond(FileNumber):
    def sample(self, now_ns: int) -> Batch:
        if Path("n").read_text().strip() == "2":
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
        return super().sample(now_ns)


class StopsBeforeTheSecond(FileNumber):
    def prepare(self, resolved: Any, context: Any) -> None:
        super().prepare(resolved, context)
        if Path("n").read_text().strip() == "1":
            signal.raise_signal(signal.SIGINT)


class InterruptedAtItsStop(FileNumber):
    def stop(self) -> Batch:
        signal.raise_signal(signal.SIGINT)
        return super().stop()


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("n").write_text("0")
    Diary.calls.clear()


def repeat(collector: str, times: int, *program: str, **more: Any) -> Repeated:
    """Run a collector of this module several times over a program."""
    resolved = resolve(collector, launch(*program), module=__name__, mode="count")
    resolved = attrs.evolve(resolved, emits=(EmitSpec("count"),))
    registry = make_registry()
    registry.emits["count"] = EmitRow("count", "omn_core.emit.count:COUNT")
    return run_repeatedly(make_session(resolved, repeat=times, **more), registry, times)


def values(document: Document) -> tuple[Any, ...]:
    """Return the single series' figure of each run."""
    found = document.results[0].repeat
    assert found is not None
    return found.series[0].values


@pytest.mark.spec("RUN-12")
def test_each_run_launches_the_program_anew_and_its_results_are_kept() -> None:
    """Three runs of a program that counts its own runs read 1, 2 and 3: mean 2, deviation 1, error 1/sqrt(3)/2."""
    document = repeat("FileNumber", 3, "sh", "-c", COUNTS_UP).document
    found = document.results[0].repeat
    assert found is not None
    assert attrs.astuple(found.series[0])[1:7] == (3, 2.0, 1.0, 1, 3, pytest.approx(1 / 3**0.5 / 2))
    assert [run.results[0].series[0].emits["count"]["value"] for run in document.repeats] == [1, 2, 3]
    programs = [run.program for run in document.repeats if run.program is not None]
    assert len({program.pid for program in programs}) == 3
    assert document.window == document.repeats[-1].window
    windows = [run.window for run in document.repeats]
    assert all(first.closed_ns <= then.opened_ns for first, then in pairwise(windows))


@pytest.mark.spec("RUN-11")
def test_the_programs_output_goes_to_a_file_for_each_run() -> None:
    """FILE.<n>; what is no regular file serves every run as it is."""
    repeat("FileNumber", 2, "sh", "-c", f"{COUNTS_UP}; cat n; cat n >&2", program_stderr="err", program_stdout="out")
    assert [Path(name).read_text() for name in ("out.1", "out.2", "err.1", "err.2")] == ["1\n", "2\n"] * 2
    assert not Path("out").exists()
    named = make_session(resolve("Threads", SYSTEM), program_stdout=os.devnull, program_stderr="err")
    session = number_outputs(named, 7).session
    assert (session.program_stdout, session.program_stderr) == (os.devnull, "err.7")


@pytest.mark.spec("RUN-12", "RUN-5")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_the_run_it_finds_and_no_other_begins(name: str) -> None:
    """The run that a signal cut short is kept and in no spread; what was finished before it is the answer."""
    stop = f"{COUNTS_UP}; test $n -lt 2 || {{ kill -{name[3:]} $PPID; sleep 600; }}"
    repeated = repeat("FileNumber", 9, "sh", "-c", stop)
    document = repeated.document
    assert repeated.failure is None
    assert [run.ended_by for run in document.repeats] == ["program", "program", name]
    assert values(document) == (1, 2)
    assert document.ended_by == "program"
    assert f"{name} cut run 3 of 9 short: no spread counts it" in document.notes
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.spec("RUN-12", "RUN-5")
def test_a_signal_in_the_only_run_leaves_its_document_without_a_spread() -> None:
    """There is nothing to spread, and the run that was cut short is the answer."""
    document = repeat("FileNumber", 3, "sh", "-c", "kill -INT $PPID; sleep 600").document
    assert (document.ended_by, document.results[0].repeat, len(document.repeats)) == ("SIGINT", None, 1)


@pytest.mark.spec("RUN-12", "RUN-9")
def test_a_run_that_fails_is_the_last_and_in_no_spread() -> None:
    """A collector that fails in the third run of five: three documents, a spread over two."""
    document = repeat("FailsTheThird", 5, "sh", "-c", COUNTS_UP).document
    assert [run.results[0].failure for run in document.repeats] == [None, None, "the third is broken"]
    assert values(document) == (1, 2)
    assert "run 3 of 5 failed, and none was made after it" in document.notes


@pytest.mark.spec("RUN-12")
def test_a_later_run_that_cannot_begin_leaves_what_was_finished() -> None:
    """A program that removes itself runs once; the refusal of the second comes with the first's results."""
    Path("prog").write_text(f"#!/bin/sh\n{COUNTS_UP}; rm prog\n")
    Path("prog").chmod(0o755)
    repeated = repeat("FileNumber", 3, "./prog")
    assert isinstance(repeated.failure, MachineRefused)
    assert len(repeated.document.repeats) == 1
    assert "run 2 of 3 could not be finished, and none was made after it" in repeated.document.notes
    with pytest.raises(MachineRefused):
        repeat("FileNumber", 3, "./prog")


@pytest.mark.spec("RUN-12")
def test_a_program_that_ends_differently_is_said() -> None:
    """Runs of a program that failed once are no equals."""
    document = repeat("FileNumber", 3, "sh", "-c", f"{COUNTS_UP}; test $n != 1").document
    assert document.notes == ("the program did not end alike in every run: code 0 in run 1, 3; code 1 in run 2",)


@pytest.mark.spec("RUN-12")
def test_a_run_without_the_figure_is_left_out_of_its_mean() -> None:
    """What one run did not measure is unknown there, and never zero."""
    document = repeat("LosesInTheSecond", 3, "sh", "-c", COUNTS_UP).document
    found = document.results[0].repeat
    assert found is not None
    assert (found.series[0].values, found.series[0].runs, found.series[0].mean) == ((1, None, 3), 2, 2.0)


@pytest.mark.spec("RUN-12", "RUN-5")
def test_a_second_signal_aborts_with_what_was_finished() -> None:
    """Two signals in the second run: the first run is the answer, and the failure says what came."""
    repeated = repeat("AbortsTheSecond", 3, "sh", "-c", COUNTS_UP)
    assert values(repeated.document) == (1,)
    assert str(repeated.failure) == "SIGTERM came a second time and aborted the run"


@pytest.mark.spec("RUN-12", "RUN-5")
def test_a_signal_before_a_later_run_has_begun_is_a_plain_end() -> None:
    """Nothing of the second run had been measured: what was finished is served."""
    repeated = repeat("StopsBeforeTheSecond", 3, "sh", "-c", COUNTS_UP)
    assert (values(repeated.document), repeated.failure) == ((1,), None)
    assert repeated.document.notes == ("SIGINT came before run 2 of 3 had begun, and none was made after it",)


@pytest.mark.spec("RUN-12", "RUN-5")
def test_a_signal_while_a_run_is_put_away_ends_the_repetition() -> None:
    """A signal that comes after the window has closed cuts nothing short, and no other run begins."""
    document = repeat("InterruptedAtItsStop", 3, "sh", "-c", COUNTS_UP).document
    assert values(document) == (1,)
    assert document.notes == ("SIGINT came after run 1 of 3, and none was made after it",)
