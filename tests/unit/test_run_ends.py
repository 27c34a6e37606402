"""How a run ends when somebody ends it: at a terminal, by a signal, by SIGKILL."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import run_subjects

from omn_core.run import linux
from omn_core.run.interrupts import Aborted, Interrupts

_SUBJECTS = run_subjects.__file__
_WAIT_S = 60


class Omn:
    """A run in a process of its own, its answer in a file, its stdin and stdout a pipe or a terminal."""

    def __init__(self, folder: Path, asked: dict[str, Any], terminal: int | None = None) -> None:
        self.answer = folder / "answer.json"
        asked = {"requests": [{"collector": "Threads"}], "answer": str(self.answer), **asked}
        command = [sys.executable, _SUBJECTS, json.dumps(asked)]
        stream = subprocess.PIPE if terminal is None else terminal
        self.process = subprocess.Popen(
            command, stdin=stream, stdout=stream, stderr=stream, start_new_session=terminal is not None
        )

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    def wait(self) -> dict[str, Any]:
        """Wait for the end of a run that was served, and return what it wrote."""
        assert self.process.wait(_WAIT_S) == 0
        return json.loads(self.answer.read_text())  # type: ignore[no-any-return]


@contextlib.contextmanager
def _omn(folder: Path, asked: dict[str, Any], terminal: int | None = None) -> Iterator[Omn]:
    omn = Omn(folder, asked, terminal)
    try:
        yield omn
    finally:
        if omn.process.poll() is None:
            omn.process.kill()
        omn.process.wait()
        for stream in (omn.process.stdin, omn.process.stdout, omn.process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Return a terminal: the side a person types at, and the side programs have."""
    person, program = os.openpty()
    yield person, program
    os.close(person)
    os.close(program)


def _read_until(descriptor: int, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        ready, _, _ = select.select([descriptor], [], [], _WAIT_S)
        assert ready, f"the terminal showed {seen!r} and never {text!r}"
        seen += os.read(descriptor, 4096)
    return seen


def _is_alive(pid: int) -> bool:
    stat = linux.find_stat(pid)
    return stat is not None and not stat.is_zombie


def _has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    try:
        return bool(poll.poll(_WAIT_S * 1000))
    finally:
        os.close(pidfd)


@pytest.mark.spec("RUN-3")
def test_the_program_reads_the_terminal(tmp_path: Path, terminal: tuple[int, int]) -> None:
    """`omn SOURCE -- cat` copies what is typed, and ends at its end of file."""
    person, program = terminal
    with _omn(tmp_path, {"launch": ["cat"], "tty": True}, program) as omn:
        os.write(person, b"hello\n")
        _read_until(person, b"hello\r\nhello\r\n")
        os.write(person, b"\x04")
        assert omn.wait()["exit"] == {"code": 0}


@pytest.mark.spec("RUN-5")
def test_control_c_writes_whole_results(tmp_path: Path, terminal: tuple[int, int]) -> None:
    """The key reaches the program as it would without omn, and omn ends as served, its events written."""
    person, program = terminal
    script = "trap 'echo trapped; exit 9' INT; echo ready; while :; do sleep 1000 & wait; done"
    before = termios.tcgetattr(program)
    with _omn(tmp_path, {"launch": ["sh", "-c", script], "tty": True}, program) as omn:
        _read_until(person, b"ready")
        os.write(person, b"\x03")
        told = omn.wait()
    assert told["notes"][0] == "SIGINT ended the window"
    assert told["events"][0]
    # The program either answered the key itself or was ended by omn: both had it at the same moment.
    assert told["exit"] in ({"code": 9}, {"signal": "SIGKILL"})
    assert not _is_alive(told["pid"])
    assert termios.tcgetattr(program) == before


@pytest.mark.spec("RUN-5")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_window_and_the_tree(tmp_path: Path, number: signal.Signals) -> None:
    """Results are written, the exit is 0, and neither the program nor what it started survives."""
    script = "sleep 1000 & echo $!; exec sleep 1000"
    with _omn(tmp_path, {"launch": ["sh", "-c", script]}) as omn:
        child = int(omn.read_line())
        omn.process.send_signal(number)
        told = omn.wait()
    assert told["exit"] == {"signal": "SIGKILL"}
    assert told["notes"] == [
        f"{number.name} ended the window",
        "the window ended before the program did, and omn ended it with all it had started",
    ]
    assert len(told["events"][0]) >= 2
    assert not _is_alive(child)
    assert not _is_alive(told["pid"])


@pytest.mark.spec("RUN-5", "SEC-1")
def test_a_signal_leaves_an_attached_target_as_it_was(tmp_path: Path) -> None:
    """A process that omn only watched is neither signalled nor ended."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as target:
        with _omn(tmp_path, {"pid": [target.pid], "requests": [{"collector": "Announces"}]}) as omn:
            assert omn.read_line() == "reading"
            omn.process.terminate()
            assert omn.wait()["notes"] == ["SIGTERM ended the window"]
        stat = linux.find_stat(target.pid)
        assert stat is not None
        assert stat.state == "S"
        target.communicate()
        assert target.returncode == 0


@pytest.mark.spec("RUN-5")
def test_a_second_signal_aborts(tmp_path: Path) -> None:
    """It breaks into whatever is under way; no answer is written, and nothing is left running."""
    with _omn(tmp_path, {"launch": ["sleep", "1000"], "requests": [{"collector": "StopsForEver"}]}) as omn:
        assert omn.read_line() == "reading"
        (child,) = linux.read_children(omn.process.pid)
        pidfd = os.pidfd_open(child)
        omn.process.terminate()
        assert omn.read_line() == "stopping"
        omn.process.send_signal(signal.SIGINT)
        assert omn.process.wait(_WAIT_S) == 1
        assert omn.process.stderr is not None
        assert "SIGINT came a second time and aborted the run" in omn.process.stderr.read().decode()
    assert not omn.answer.exists()
    assert _has_ended(pidfd)


@pytest.mark.spec("RUN-5")
def test_one_signal_that_arrives_twice_is_no_second() -> None:
    """timeout(1) signals its child, then its group: the run that it ends is answered. Another signal aborts it."""
    with Interrupts() as interrupts:
        interrupts.open_window()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert interrupts.first == "SIGTERM"
        with pytest.raises(Aborted):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.spec("RUN-5")
def test_a_signal_before_the_window_ends_the_held_program(tmp_path: Path) -> None:
    """There is nothing to write yet: the run fails, and the program never ran."""
    mark = tmp_path / "ran"
    asked = {"launch": ["touch", str(mark)], "requests": [{"collector": "HoldsTheProgram"}]}
    with _omn(tmp_path, asked) as omn:
        pidfd = os.pidfd_open(int(omn.read_line()))
        omn.process.send_signal(signal.SIGINT)
        assert omn.process.wait(_WAIT_S) == 1
        assert omn.process.stderr is not None
        assert "SIGINT came before the window opened" in omn.process.stderr.read().decode()
    assert _has_ended(pidfd)
    assert not mark.exists()


@pytest.mark.spec("RUN-5")
def test_sigkill_of_omn_leaves_no_held_program(tmp_path: Path) -> None:
    """A program that waits for its exec ends by itself when omn is gone."""
    mark = tmp_path / "ran"
    asked = {"launch": ["touch", str(mark)], "requests": [{"collector": "HoldsTheProgram"}]}
    with _omn(tmp_path, asked) as omn:
        pidfd = os.pidfd_open(int(omn.read_line()))
        omn.process.kill()
        omn.process.wait()
    assert _has_ended(pidfd)
    assert not mark.exists()


@pytest.mark.spec("RUN-5")
def test_sigkill_of_omn_leaves_a_running_program_running_and_not_stopped(tmp_path: Path) -> None:
    """A program that runs goes on without omn as if nobody had watched."""
    with _omn(tmp_path, {"launch": ["sh", "-c", "echo $$; read line; exit 3"]}) as omn:
        child = int(omn.read_line())
        pidfd = os.pidfd_open(child)
        omn.process.kill()
        assert omn.process.wait() == -signal.SIGKILL
        stat = linux.find_stat(child)
        assert stat is not None
        assert stat.state not in "TtZ"
        assert omn.process.stdin is not None
        omn.process.stdin.write(b"go on\n")
        omn.process.stdin.flush()
        assert _has_ended(pidfd)


@pytest.mark.spec("RUN-5")
def test_a_terminal_left_raw_by_an_ended_program_is_put_back(tmp_path: Path, terminal: tuple[int, int]) -> None:
    """Modes and foreground group are what they were; a program that ends by itself keeps what it set."""
    person, program = terminal
    before = termios.tcgetattr(program)
    script = "stty raw -echo; echo ready; exec sleep 1000"
    with _omn(tmp_path, {"launch": ["sh", "-c", script], "tty": True}, program) as omn:
        _read_until(person, b"ready")
        assert termios.tcgetattr(program) != before
        omn.process.terminate()
        assert omn.wait()["exit"] == {"signal": "SIGKILL"}
    assert termios.tcgetattr(program) == before


@pytest.mark.spec("RUN-3")
def test_a_terminal_that_the_program_set_stays_set(tmp_path: Path, terminal: tuple[int, int]) -> None:
    """As without omn: what the program leaves behind by its own will is its own."""
    _, program = terminal
    with _omn(tmp_path, {"launch": ["stty", "-echo"], "tty": True}, program) as omn:
        assert omn.wait()["exit"] == {"code": 0}
    assert not termios.tcgetattr(program)[3] & termios.ECHO


@pytest.mark.spec("RUN-5")
def test_a_program_that_took_the_terminal_gives_it_back(tmp_path: Path, terminal: tuple[int, int]) -> None:
    """A program that made another group the foreground one leaves it omn's when omn ends it."""
    person, program = terminal
    code = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTTOU, signal.SIG_IGN)\n"
        "os.setpgid(0, 0)\n"
        "os.tcsetpgrp(0, os.getpid())\n"
        "print('ready', flush=True)\n"
        "time.sleep(1000)\n"
    )
    with _omn(tmp_path, {"launch": [sys.executable, "-c", code], "tty": True}, program) as omn:
        _read_until(person, b"ready")
        assert os.tcgetpgrp(person) != os.getpgid(omn.process.pid)
        omn.process.terminate()
        told = omn.wait()
    assert told["is_foreground"] is True


@pytest.mark.spec("RUN-5")
def test_a_daemon_is_ended_and_counted(tmp_path: Path) -> None:
    """A program that forks, detaches and ends leaves nothing behind, and the document counts it."""
    script = "(setsid sleep 1000 >/dev/null 2>&1 & echo $!); exit 4"
    with _omn(tmp_path, {"launch": ["sh", "-c", script]}) as omn:
        daemon = int(omn.read_line())
        told = omn.wait()
    assert told["exit"] == {"code": 4}
    assert [(pid, ended) for pid, _, ended in told["adopted"]] == [(daemon, True)]
    assert not _is_alive(daemon)
