"""The launcher: held before the exec, run as if directly, gone when omn goes."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from omn_core.errors import MachineRefused, RunFailed
from omn_core.run import linux
from omn_core.run.launcher import Launched, LaunchPlan, launch
from omn_core.run.search import get_program

# Launches a program from a fresh process and waits for it: what a plain run by a shell is compared with.
_LAUNCH = """
import sys
from omn_core.run.interrupts import Interrupts
from omn_core.run.launcher import LaunchPlan, launch
from omn_core.run.search import get_program
with Interrupts() as interrupts:
    held = launch(LaunchPlan(get_program(sys.argv[1]), tuple(sys.argv[1:]), ignored=interrupts.ignored_before))
    held.release()
    held.wait()
    held.note_end()
    sys.exit(held.exit.get("code", 99))
"""


@contextlib.contextmanager
def _held(*arguments: str, **files: str) -> Iterator[Launched]:
    launched = launch(LaunchPlan(get_program(arguments[0]), arguments, **files))
    try:
        yield launched
    finally:
        linux.send_signal(launched.pidfd, signal.SIGKILL)
        launched.wait()
        linux.reap(launched.pid)
        launched.close()


def _run_out(launched: Launched) -> dict[str, object] | None:
    launched.release()
    launched.wait()
    launched.note_end()
    return launched.exit


def _output(command: list[str], **options: object) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout  # type: ignore[call-overload,no-any-return]


@pytest.mark.spec("RUN-2")
def test_the_program_is_held_before_its_exec() -> None:
    """Until its release the child exists, is this very program's copy, and has executed nothing."""
    with _held("true") as launched:
        assert os.readlink(f"/proc/{launched.pid}/exe") == os.readlink("/proc/self/exe")
        held = linux.find_stat(launched.pid)
        assert held is not None
        assert held.start_ticks == launched.start_ticks
        assert linux.find_exit(launched.pid) is None
        assert _run_out(launched) == {"code": 0}
        ended = linux.find_stat(launched.pid)
        assert ended is not None
        assert ended.is_zombie
        assert ended.comm == b"true"


@pytest.mark.spec("REQ-9", "RUN-3")
@pytest.mark.parametrize(
    ("script", "ended"),
    [
        ("exit 0", {"code": 0}),
        ("exit 1", {"code": 1}),
        ("exit 42", {"code": 42}),
        ("exit 255", {"code": 255}),
        ("kill -KILL $$", {"signal": "SIGKILL"}),
        ("kill -SEGV $$", {"signal": "SIGSEGV"}),
    ],
)
def test_how_it_ended_is_known(script: str, ended: dict[str, object]) -> None:
    """Its exit code, or the signal it died of."""
    with _held("sh", "-c", script) as launched:
        assert _run_out(launched) == ended


@pytest.mark.spec("RUN-3")
@pytest.mark.parametrize("prologue", ["", 'trap "" INT; ', 'trap "" CHLD TERM USR1; '])
def test_signals_are_as_if_run_directly(prologue: str) -> None:
    """Dispositions and mask equal those of the same program run by a shell, whatever was ignored when omn started."""
    shell = f'{prologue}exec "$@"'
    plain = _output(["sh", "-c", shell, "sh", "grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"])
    under = _output(
        ["sh", "-c", shell, "sh", sys.executable, "-c", _LAUNCH, "grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"]
    )
    assert under == plain


@pytest.mark.spec("RUN-3")
def test_no_descriptor_leaks_into_the_program(tmp_path: Path) -> None:
    """The program finds what the shell gave omn, one descriptor opened on purpose included, and nothing of omn's."""
    listing = ["python3", "-c", "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"]
    shell = f'exec 7>"{tmp_path}/seven"; exec "$@"'
    plain = _output(["sh", "-c", shell, "sh", *listing])
    assert "7" in plain
    assert _output(["sh", "-c", shell, "sh", sys.executable, "-c", _LAUNCH, *listing]) == plain


@pytest.mark.spec("RUN-3")
@pytest.mark.parametrize("environment", [{}, {"LC_CTYPE": "C.UTF-8"}, {"LANG": "C", "ODD": "a=b\udcff"}])
def test_the_environment_is_as_if_run_directly(environment: dict[str, str]) -> None:
    """Python's own locale setting does not reach the program, a variable of any bytes does, omn's own does not."""
    given = {"PATH": os.environ["PATH"], **environment}
    plain = subprocess.run(["env"], env=given, capture_output=True, check=True).stdout
    code = ["env", "OMN_PROGRAM_STDERR=/dev/null", sys.executable, "-c", _LAUNCH, "env"]
    under = subprocess.run(code, env=given, capture_output=True, check=True).stdout
    assert sorted(under.splitlines()) == sorted(plain.splitlines())


@pytest.mark.spec("RUN-3")
def test_group_and_session_are_omns_own() -> None:
    """The program is in omn's process group and session, so that the terminal treats the two alike."""
    with _held("sleep", "1000") as launched:
        launched.release()
        assert os.getpgid(launched.pid) == os.getpgrp()
        assert os.getsid(launched.pid) == os.getsid(0)


@pytest.mark.spec("RUN-3")
def test_the_child_execs_exactly_once(tmp_path: Path) -> None:
    """One execve in the program's process, the search of PATH included, as the kernel saw it."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed, and nothing else here counts another process's system calls")
    log = tmp_path / "log"
    traced = subprocess.run(
        ["strace", "-f", "-e", "trace=execve", "-o", log, sys.executable, "-c", _LAUNCH, "true"],
        env={"PATH": f"/nowhere:{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    if not log.exists() or "ptrace" in traced.stderr:
        pytest.skip(f"strace cannot trace here: {traced.stderr.strip()}")
    calls = re.findall(r"^(\d+) +execve\(\"([^\"]*)\"", log.read_text(), re.MULTILINE)
    own, program = calls[0][0], [path for pid, path in calls if pid != calls[0][0]]
    assert [path for pid, path in calls if pid == own] == [sys.executable]
    assert program == [shutil.which("true")]


@pytest.mark.spec("RUN-3")
def test_omns_own_faults_are_not_the_programs(tmp_path: Path) -> None:
    """From the release to a refused exec the child touches next to no page for the first time."""

    def faults(pid: int) -> int:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[7])

    program = tmp_path / "program"
    program.write_text("no program\n")
    program.chmod(0o755)
    with _held(str(program)) as launched:
        before = faults(launched.pid)
        with pytest.raises(MachineRefused):
            launched.release()
        launched.wait()
        assert faults(launched.pid) - before < 20


@pytest.mark.spec("RUN-11", "SEC-3")
def test_its_output_can_go_to_private_files(tmp_path: Path) -> None:
    """Each stream to its own file, readable by the user alone; what was in the file before is gone."""
    out, error = tmp_path / "out", tmp_path / "error"
    error.write_text("what an earlier run left, longer than this one's\n")
    with _held("sh", "-c", "echo to stdout; echo to stderr >&2", stdout=str(out), stderr=str(error)) as launched:
        assert _run_out(launched) == {"code": 0}
    assert out.read_text() == "to stdout\n"
    assert error.read_text() == "to stderr\n"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_an_output_file_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    """Before anything was started, naming the stream and the file."""
    before = linux.read_children()
    with pytest.raises(MachineRefused, match=r"the program's stderr cannot go to .*No such file"):
        launch(LaunchPlan("/bin/true", ("true",), stdout=str(tmp_path / "out"), stderr=str(tmp_path / "a" / "b")))
    assert linux.read_children() == before


@pytest.mark.parametrize(
    ("content", "sentence"),
    [("#!/no/such/thing\n", "'/no/such/thing' does not exist"), ("echo\n", "no '#!' line")],
)
def test_a_program_the_kernel_will_not_execute(tmp_path: Path, content: str, sentence: str) -> None:
    """The refusal comes out of the release, and the child has ended by itself."""
    program = tmp_path / "program"
    program.write_text(content)
    program.chmod(0o755)
    with _held(str(program)) as launched:
        with pytest.raises(MachineRefused, match=re.escape(sentence)):
            launched.release()
        launched.wait()
        launched.note_end()
        assert launched.exit == {"code": 127}


def test_a_child_killed_while_it_is_held_is_noticed() -> None:
    """Its release says that it never ran."""
    with _held("true") as launched:
        linux.send_signal(launched.pidfd, signal.SIGKILL)
        launched.wait()
        with pytest.raises(RunFailed, match="killed before it could run"):
            launched.release()


def test_an_abandoned_child_is_gone_and_reaped() -> None:
    """Nothing is left of a program that was given up before its release."""
    launched = launch(LaunchPlan("/bin/true", ("true",)))
    launched.abandon()
    launched.close()
    assert launched.pid not in linux.read_children()


@pytest.mark.spec("RUN-5")
def test_a_held_child_does_not_outlive_omn() -> None:
    """SIGKILL of omn while it holds a program ends the child by itself: nothing is left behind stopped."""
    code = (
        "import signal\n"
        "from omn_core.run.launcher import LaunchPlan, launch\n"
        "print(launch(LaunchPlan('/bin/true', ('true',))).pid, flush=True)\n"
        "signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as omn:
        assert omn.stdout is not None
        pidfd = os.pidfd_open(int(omn.stdout.readline()))
        omn.kill()
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    ended = poll.poll(30_000)
    os.close(pidfd)
    assert ended


_OUT_OF_DESCRIPTORS = """
import os, resource, sys
from omn_core.errors import MachineRefused
from omn_core.run.launcher import LaunchPlan, launch
before = os.listdir("/proc/self/fd")
resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6))
try:
    launch(LaunchPlan("/bin/true", ("true",), stdout=sys.argv[1]))
except MachineRefused as error:
    print(error.reason, os.listdir("/proc/self/fd") == before)
"""


@pytest.mark.spec("RUN-2")
def test_a_launch_without_descriptors_is_refused_and_leaves_none_open(tmp_path: Path) -> None:
    """The second pipe finds no descriptor: the first and the program's output file are let go."""
    code = [sys.executable, "-c", _OUT_OF_DESCRIPTORS, str(tmp_path / "out")]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    assert done.stdout == "no process could be made for the program: Too many open files True\n"


def test_a_program_may_be_given_an_environment_of_its_own(tmp_path: Path) -> None:
    """It has those variables and no other."""
    out = tmp_path / "out"
    launched = launch(LaunchPlan("/usr/bin/env", ("env",), stdout=str(out), environment={b"ONLY": b"this"}))
    try:
        assert _run_out(launched) == {"code": 0}
    finally:
        linux.reap(launched.pid)
        launched.close()
    assert out.read_text() == "ONLY=this\n"
