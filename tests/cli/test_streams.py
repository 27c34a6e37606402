"""The command with its standard streams closed, full, or of an encoding that lacks a character."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from omn_core.cli import entry

FAILED = "omn: the run failed before any result was written"
pytestmark = pytest.mark.spec("REQ-9")


def run_in_shell(omn: Any, redirection: str, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run the command under a shell that redirects it."""
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *omn.argv, *arguments],
        capture_output=True,
        env=omn.environment(**changes),
        text=True,
        check=False,
        timeout=60,
    )


COMMANDS: list[tuple[str, ...]] = [
    ("--version",),
    ("--help",),
    ("list",),
    ("help", "mem.rss"),
    ("plugins",),
    ("catalog", "mem.rss"),
    ("validate", "mem.rss", "--pid", "1"),
    ("mem.rss", "--no-resolve", "--dump-request", "--pid", "1"),
    ("mem.rss", "--no-resolve", "--dump-session", "--pid", "1"),
    ("mem.rss", "--", "true"),
]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_every_command_says_that_its_answer_could_not_be_written(omn: Any, arguments: tuple[str, ...]) -> None:
    """A full device and a closed standard output end each command with one sentence and the fixed last line."""
    full = run_in_shell(omn, ">/dev/full", *arguments)
    assert (full.returncode, full.stderr.splitlines()) == (
        1,
        ["omn: the answer could not be written: No space left on device", FAILED],
    )
    closed = run_in_shell(omn, ">&-", *arguments)
    assert (closed.returncode, closed.stderr.splitlines()) == (
        1,
        ["omn: the answer could not be written: Bad file descriptor", FAILED],
    )


@pytest.mark.parametrize("arguments", [(), ("list",), ("help", "mem.rss"), ("plugins",), ("catalog",)], ids=" ".join)
def test_a_reader_that_has_read_enough_fails_no_command_that_only_tells(omn: Any, arguments: tuple[str, ...]) -> None:
    """`omn list | head -1`: nothing is said of a run that there was not."""
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(
        [*omn.argv, *arguments], stdout=writer, stderr=subprocess.PIPE, env=omn.environment(), check=False
    )
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_a_closed_standard_error_takes_nothing_else_with_it(omn: Any) -> None:
    """What is said on a closed standard error does not land in the answer, and the code is the refusal's."""
    ran = run_in_shell(omn, "2>&-", "nope")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert run_in_shell(omn, "2>/dev/full", "nope").returncode == 2
    ran = run_in_shell(
        omn, "<&- 2>&-", "mem.rss", "--format", "json", "--", "sh", "-c", "echo lost >&2; ls /proc/self/fd"
    )
    # `ls` reads its folder through the number that standard input left free.
    assert (ran.returncode, ran.stdout.split("{")[0].split()) == (0, ["0", "1"])


def test_a_session_on_a_closed_standard_input_is_refused(omn: Any) -> None:
    """`-f -` with nothing behind it is the request's error, in one sentence."""
    ran = run_in_shell(omn, "<&-", "-f", "-")
    assert ran.returncode == 2
    assert ran.stderr == "omn: standard input: this session cannot be read: Bad file descriptor\n"


def test_output_files_of_the_program_do_not_meet_descriptors_of_omn(omn: Any, tmp_path: Path) -> None:
    """With all three streams closed the program's own output still goes where it was asked to."""
    out, err = tmp_path / "out", tmp_path / "err"
    files = ("--program-stdout", str(out), "--program-stderr", str(err), "-o", str(tmp_path / "run"))
    ran = run_in_shell(omn, "<&- >&- 2>&-", "mem.rss", *files, "--", "sh", "-c", "echo one; echo two >&2")
    assert ran.returncode == 1
    assert (out.read_text(), err.read_text()) == ("one\n", "two\n")
    assert (tmp_path / "run" / "results.json").exists()


def test_a_character_that_the_encoding_lacks_is_escaped(omn: Any) -> None:
    """A listing in an ASCII locale says what it has to."""
    ran = omn("validate", "mem.rss", "--", "true", "\u00e9", PYTHONIOENCODING="ascii")
    assert (ran.code, ran.stdout.decode().rstrip()) == (
        0,
        "valid: mem.rss, mode poll, emits summary, target -- true '\\xe9'",
    )


@pytest.mark.spec("FMT-2")
def test_no_sentence_carries_control_bytes_to_a_terminal(omn: Any, tmp_path: Path) -> None:
    """Names with escape sequences and newlines are escaped wherever a sentence or a listing repeats them."""
    evil = "\x1b[31m\nomn: x"
    shown = "\\x1b[31m\\nomn: x"
    assert shown in omn("mem.rss", "--cgroup", evil).stderr
    assert shown in omn("mem.rss", "--iface", evil).stderr
    assert shown in omn("validate", "-f", str(tmp_path / f"{evil}.yaml")).stderr
    assert shown in omn("validate", "mem.rss", "--", "true", evil).stdout.decode()
    ran = omn("mem.rss", "--filter", "value > \x1b[31m", "--", "true")
    assert "filter, column 9" in ran.stderr
    assert "\x1b" not in ran.stderr
    mark = ran.stderr.splitlines()[2]
    assert mark.index("^") == len("  value > ")


def test_a_file_that_holds_the_programs_words_and_an_answer_is_told_of(omn: Any, tmp_path: Path) -> None:
    """Where a format is to be read by a program; not where a person reads it, nor where the words went elsewhere."""
    asked = ("mem.rss", "--format", "json", "--", "echo", "words")
    answer = tmp_path / "answer"
    mixed = run_in_shell(omn, f">{answer}", *asked)
    assert mixed.returncode == 0
    assert answer.read_text().startswith("words\n{")
    assert mixed.stderr.splitlines() == [
        "omn: 6 bytes of the program's stand before the json on standard output",
        "     send them elsewhere with --program-stdout FILE",
    ]
    assert run_in_shell(omn, f">>{answer}", *asked).stderr == mixed.stderr
    for quiet in (
        ("mem.rss", "--", "echo", "words"),
        ("mem.rss", "--format", "json", "--", "true"),
        (*asked[:3], "--program-stdout", str(tmp_path / "words"), *asked[3:]),
    ):
        assert run_in_shell(omn, f">{answer}", *quiet).stderr == ""


def test_a_process_without_descriptors_left_is_told_apart_from_a_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under a limit too low for a run, the sentence names the limit."""

    def open_too_many(_arguments: list[str]) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(entry, "_run", open_too_many)
    monkeypatch.setattr(entry, "drop_stream", lambda _stream: None)
    assert entry.main([]) == 1
    said = ["omn: omn may open no more files: Too many open files", "     raise the limit (`ulimit -n`)", FAILED]
    assert capsys.readouterr().err.splitlines() == said


def test_an_interrupt_before_the_run_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while omn still imports ends as an aborted run does."""

    def interrupt(_arguments: list[str]) -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    monkeypatch.setattr(entry, "_run", interrupt)
    monkeypatch.setattr(entry, "drop_stream", lambda _stream: None)
    assert entry.main([]) == 1
    assert capsys.readouterr().err.splitlines() == ["omn: SIGINT came and aborted the run", FAILED]


def test_a_fault_of_omn_ends_with_the_fixed_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What nobody foresaw is shown whole, named omn's own, and a script still finds the last line it matches."""

    def break_down(_arguments: list[str]) -> int:
        raise ZeroDivisionError("nobody foresaw this")

    monkeypatch.setattr(entry, "_run", break_down)
    monkeypatch.setattr(entry, "drop_stream", lambda _stream: None)
    assert entry.main([]) == 1
    said = capsys.readouterr().err.splitlines()
    assert "ZeroDivisionError: nobody foresaw this" in said
    assert said[-2].startswith("omn: this is a fault of omn's own")
    assert said[-1] == FAILED
