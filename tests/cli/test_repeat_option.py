"""`-r N` from the command line: what can be repeated, what is written, and what is said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.spec("REQ-15", "RUN-12")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mem.rss", "-e", "timeline", "-r", "2", "--", "true"), "mem.rss: a spread over runs is of one figure a run"),
        (("mem.rss", "-e", "summary@comm", "-r", "2", "--", "true"), "and summary@comm gives none"),
        (("mem.rss", "-e", "summary", "-e", "raw", "-r", "2", "--", "true"), "raw events are kept of a single run"),
        (("cpu.util", "--system", "-r", "2"), "nothing ends a run, so that none could follow it"),
        (("mem.rss", "-r", "0", "--", "true"), "a run is made at least once, not 0 times"),
    ],
)
def test_what_cannot_be_repeated_is_refused(omn: Any, arguments: tuple[str, ...], said: str) -> None:
    """Without one figure a run, with raw events, without an end: exit 2, and nothing ran."""
    ran = omn(*arguments)
    assert (ran.code, ran.stdout) == (2, b"")
    assert said in ran.stderr
    assert omn("validate", *arguments).code == 2


@pytest.mark.spec("RUN-11", "RUN-12", "RUN-8")
def test_every_run_is_kept_in_the_folder_and_in_files_of_its_own(omn: Any, tmp_path: Path) -> None:
    """Three runs: three files of the program's stderr, three documents in results.json, a session that asks again."""
    ran = omn(
        *("cpu.util", "--interval", "20ms", "-r", "3", "-o", "kept", "--program-stderr", "err", "--format", "json"),
        *("--", "sh", "-c", "echo ran >&2; sleep 0.05"),
    )
    assert (ran.code, ran.stderr) == (0, "")
    assert [(tmp_path / f"err.{number}").read_text() for number in (1, 2, 3)] == ["ran\n"] * 3
    kept = json.loads((tmp_path / "kept" / "results.json").read_text())
    assert kept == json.loads(ran.stdout)
    assert [run["program"]["exit"] for run in kept["repeats"]] == [{"code": 0}] * 3
    repeat = kept["results"][0]["repeat"]
    assert (repeat["runs"], repeat["emit"], repeat["figure"]) == (3, "summary", "mean")
    means = [run["results"][0]["series"][0]["emits"]["summary"]["mean"] for run in kept["repeats"]]
    assert repeat["series"][0]["values"] == means
    assert (repeat["series"][0]["min"], repeat["series"][0]["max"]) == (min(means), max(means))
    assert "repeat: 3\n" in (tmp_path / "kept" / "session.yaml").read_text()


@pytest.mark.spec("RUN-12")
def test_the_machine_is_repeated_by_the_duration(omn: Any) -> None:
    """Without a program each run takes the whole duration."""
    ran = omn("cpu.util", "--system", "-d", "60ms", "--interval", "20ms", "-r", "2", "--format", "json")
    document = json.loads(ran.stdout)
    assert [run["ended_by"] for run in document["repeats"]] == ["duration"] * 2
    assert all(run["window"]["closed_ns"] - run["window"]["opened_ns"] >= 60_000_000 for run in document["repeats"])


@pytest.mark.spec("RUN-12", "RUN-5")
def test_control_c_in_a_later_run_writes_what_was_finished(omn: Any, tmp_path: Path) -> None:
    """The second run says that it runs; Ctrl-C then: exit 0, a spread over the first, and a note of what was cut."""
    script = "echo up; test -e second && sleep 600; touch second"
    argv = [*omn.argv, "mem.rss", "-r", "5", "-o", "kept", "--", "sh", "-c", script]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=tmp_path, env=omn.environment()) as child:
        assert child.stdout is not None
        assert [child.stdout.readline(), child.stdout.readline()] == [b"up\n", b"up\n"]
        os.kill(child.pid, signal.SIGINT)
        rest = child.stdout.read().decode()
    assert child.returncode == 0
    assert "SIGINT cut run 2 of 5 short" in rest
    kept = json.loads((tmp_path / "kept" / "results.json").read_text())
    assert [run["ended_by"] for run in kept["repeats"]] == ["program", "SIGINT"]
    assert kept["results"][0]["repeat"]["runs"] == 1


@pytest.mark.spec("RUN-12", "REQ-9")
def test_a_later_run_that_is_refused_is_written_then_fails(omn: Any, tmp_path: Path) -> None:
    """The program is gone at its second run: the first is printed, then exit 1 with the sentence for that."""
    program = tmp_path / "once"
    program.write_text("#!/bin/sh\nrm once\n")
    program.chmod(0o755)
    ran = omn("mem.rss", "-r", "2", "--format", "json", "--", "./once")
    assert ran.code == 1
    assert len(json.loads(ran.stdout)["repeats"]) == 1
    assert ran.stderr.splitlines()[-1] == "omn: the run failed after its results were written"
    assert "there is no program './once'" in ran.stderr
