"""What a stranger types by mistake, each with the code and the sentence that says what to do."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

FAILED_AFTER = "omn: the run failed after its results were written"
REFUSED = "omn: this machine refused the request; nothing ran"
pytestmark = pytest.mark.spec("REQ-9")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("mem.rss", "--pid", "999999999999"), 1, "there is no process 999999999999"),
        (("mem.rss", "--pid", "9999999999999999999"), 1, "there is no process 9999999999999999999"),
        (("cpu.util", "--tid", "9" * 30, "-d", "1s"), 1, f"there is no thread {'9' * 30}"),
        (("cpu.util", "--tid", "0", "-d", "1s"), 2, "target tid is a positive number, not 0"),
        (("-f", "-", "--tid", "0"), 2, "--tid belongs to a request"),
        (("mem.rss", "--"), 2, "no program is named"),
        (("mem.rss", "-o", "", "--", "true"), 2, "an empty name is no folder"),
        (("mem.rss", "--catalog", "", "--", "true"), 2, "an empty name is no folder"),
        (("mem.rss", "-o", "run", "--dump-session", "--pid", "1"), 2, "-o means nothing beside a dump"),
        (("mem.rss", "-r", "0", "--", "true"), 2, "a run is made at least once, not 0 times"),
        (("mem.rss", "--budget", "nan", "--", "true"), 2, "above zero, not nan"),
        (("mem.rss", "--budget", "-1", "--", "true"), 2, "above zero, not -1.0"),
        (("mem.rss", "--cost", "cheap", "--", "true"), 2, "the bands are low, med, high"),
        (("mem.rss", "--program-stderr", "", "--", "true"), 1, "stderr cannot go to ''"),
        (("list", "--", "nothing.such"), 2, "no source is called 'nothing.such'"),
    ],
)
def test_a_mistake_is_refused_in_one_sentence(omn: Any, arguments: tuple[str, ...], code: int, said: str) -> None:
    """Nothing is silently ignored, nothing ends in a traceback, and no valid word is claimed of a wrong value."""
    ran = omn(*arguments, stdin=b"")
    assert (ran.code, said in ran.stderr) == (code, True), ran.stderr
    assert "Traceback" not in ran.stderr
    assert "2 things" not in ran.stderr


@pytest.mark.spec("REQ-3")
@pytest.mark.parametrize(
    ("written", "text", "said"),
    [
        ("json", '{"requests": [{"source": "\\ud800"}]}', "half a surrogate pair"),
        ("json", '{"\\udfff": 1}', "half a surrogate pair"),
        ("yaml", 'requests:\n- source: "\\ud800"\n', "input:2: '\\ud800' holds half a surrogate pair"),
        ("json", f'{{"duration": {"1" * 5000}}}', "a number here has more digits"),
        ("yaml", f"duration: {'1' * 5000}\n", "input:1: a number here has more digits"),
        ("toml", f"duration = {'1' * 5000}\n", "a number here has more digits"),
        ("json", '{"joins": ' + "[" * 60 + "]" * 60 + "}", "values nest deeper than 40"),
        ("json", '{"joins": [' + "1," * 100_000 + "1]}", "at most 100000 values"),
        ("toml", "joins = [" + "1," * 100_000 + "1]\n", "at most 100000 values"),
        ("yaml", "requests: &a []\njoins: &a []\n", "requests: a session asks at least one thing"),
    ],
)
def test_a_file_that_python_reads_and_omn_does_not(omn: Any, written: str, text: str, said: str) -> None:
    """The limits hold in every format, in omn's own words and nothing else's."""
    ran = omn("validate", "-f", "-", "--input-format", written, stdin=text.encode())
    assert (ran.code, said in ran.stderr) == (2, True), ran.stderr
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.spec("PLG-7", "PLG-4")
def test_a_source_whose_plugin_did_not_load_says_why(omn: Any, tmp_path: Path) -> None:
    """Nobody is told to install what is installed."""
    ran = omn("mem.rss", "--", "true", OMN_DISABLE_PLUGINS="mem")
    assert ran.code == 3
    assert "'mem.rss' belongs to omn-mem, which is installed: named in OMN_DISABLE_PLUGINS" in ran.stderr
    ran = omn("mem.rss", "--", "true", OMN_DISABLE_PLUGINS="kernel")
    assert (ran.code, "its catalog does not load" in ran.stderr) == (3, True)
    ran = omn("mem.rss", "--catalog", str(tmp_path), "--", "true")
    assert (ran.code, "its catalog is not among those that were read" in ran.stderr) == (3, True)


@pytest.mark.spec("REQ-2", "FMT-2")
def test_a_session_that_no_file_can_spell_is_not_dumped(omn: Any, tmp_path: Path) -> None:
    """An argument that is not UTF-8 refuses the dump; beside a run's results it is said in the session itself."""
    argument = os.fsdecode(b"\xff")
    ran = omn("mem.rss", "--dump-session", "--", "true", argument)
    assert (ran.code, "a session file is UTF-8" in ran.stderr) == (2, True)
    assert omn("mem.rss", "-o", str(tmp_path / "run"), "--", "true", argument).code == 0
    assert (tmp_path / "run" / "session.yaml").read_text().startswith("# This does not ask the same again: ")


@pytest.mark.spec("RUN-8")
def test_a_folder_that_cannot_be_written_takes_no_answer_with_it(omn: Any, tmp_path: Path) -> None:
    """The program replaced the folder by a file: the answer is printed all the same, and the run fails by its name."""
    folder = tmp_path / "run"
    script = f"rm -r '{folder}'; : >'{folder}'"
    ran = omn("mem.rss", "--format", "json", "-o", str(folder), "--", "sh", "-c", script)
    assert (ran.code, ran.stderr.splitlines()) == (1, [f"omn: {str(folder)!r} is not a folder", FAILED_AFTER])
    assert ran.document["program"]["exit"] == {"code": 0}


@pytest.mark.spec("RUN-11")
def test_one_file_for_both_outputs_keeps_every_line(omn: Any, tmp_path: Path) -> None:
    """The program's two outputs may share a file, in the order they were written."""
    both = str(tmp_path / "both")
    files = ("--program-stdout", both, "--program-stderr", both)
    script = "echo one; echo two >&2; echo three; echo four >&2"
    assert omn("mem.rss", *files, "--", "sh", "-c", script).code == 0
    assert Path(both).read_text().split() == ["one", "two", "three", "four"]


@pytest.mark.spec("RUN-11")
def test_the_variable_for_the_programs_errors_asks_nothing_by_itself(omn: Any, sleeper: Any, tmp_path: Path) -> None:
    """OMN_PROGRAM_STDERR is of no matter where nothing is launched, and empty it is not set."""
    arguments = ("mem.rss", "-d", "50ms", "--pid", str(sleeper.pid))
    assert omn(*arguments, OMN_PROGRAM_STDERR=str(tmp_path / "error")).code == 0
    assert omn("mem.rss", "--", "true", OMN_PROGRAM_STDERR="").code == 0


@pytest.mark.spec("RUN-5")
def test_a_terminal_that_hangs_up_ends_the_window(omn: Any) -> None:
    """SIGHUP writes whole results and ends the program; where it was ignored it stays ignored."""
    script = "kill -HUP $PPID; exec sleep 60"
    ran = omn("mem.rss", "--format", "json", "--", "sh", "-c", script)
    assert ran.code == 0
    assert "SIGHUP ended the window" in ran.document["notes"]
    assert ran.document["program"]["exit"] == {"signal": "SIGKILL"}
    program = ("sh", "-c", "kill -HUP $PPID; sleep 0.1; exit 7")
    done = subprocess.run(
        ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *omn.argv, "mem.rss", "--format", "json", "--", *program],
        capture_output=True,
        env=omn.environment(),
        check=True,
    )
    assert json.loads(done.stdout)["program"]["exit"] == {"code": 7}


@pytest.mark.spec("REQ-10")
@pytest.mark.parametrize("target", [("--", "true"), ("--pid", "1")])
def test_the_proc_of_another_pid_namespace_is_refused(omn: Any, target: tuple[str, ...]) -> None:
    """Where a number in /proc is another process's, nothing is measured under it."""
    inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no pid namespace can be made here")
    ran = subprocess.run(
        [*inside, *omn.argv, "mem.rss", "-d", "50ms", *target],
        capture_output=True,
        env=omn.environment(),
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (1, REFUSED)
    assert "/proc is not that of omn's own pid namespace" in ran.stderr
