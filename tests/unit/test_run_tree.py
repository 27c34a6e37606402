"""A program's tree: found, and ended whole."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from omn_core.run import linux
from omn_core.run.launcher import LaunchPlan
from omn_core.run.program import Program, start_program
from omn_core.run.search import get_program
from omn_core.run.tree import Tree


def _start(*arguments: str, stdout: Path | None = None, adopts: bool = True) -> Program:
    plan = LaunchPlan(get_program(arguments[0]), arguments, None if stdout is None else str(stdout))
    program = start_program(plan, adopts=adopts)
    program.launched.release()
    return program


def _finish(program: Program) -> None:
    program.finish()
    program.give_up()


def _is_alive(pid: int) -> bool:
    stat = linux.find_stat(pid)
    return stat is not None and not stat.is_zombie


def _ready(path: Path) -> int:
    """Open a named pipe that the program writes to when it has come so far."""
    os.mkfifo(path)
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def _read_line(descriptor: int) -> str:
    text = b""
    while not text.endswith(b"\n"):
        text += os.read(descriptor, 1)
    return text.decode().strip()


@pytest.mark.spec("RUN-5")
def test_a_stop_ends_the_whole_tree(tmp_path: Path) -> None:
    """The program, its child in a session of its own, and that one's child are killed and reaped; nobody is adopted."""
    pipe = _ready(tmp_path / "pipe")
    inner = f"sleep 1000 & echo $! $$ > {tmp_path}/pipe; wait"
    program = _start("sh", "-c", f"setsid sh -c '{inner}' & wait")
    pids = [int(pid) for pid in _read_line(pipe).split()]
    members = {member.pid for member in program.tree.members()}
    assert members >= {program.launched.pid, *pids}
    with linux.subreaper():
        _finish(program)
    assert not [pid for pid in (*pids, program.launched.pid) if _is_alive(pid)]
    assert program.launched.exit == {"signal": "SIGKILL"}
    assert program.adopted() == ()
    assert program.tree.ended == 3
    assert set(linux.read_children()).isdisjoint(members)
    assert any("omn ended it" in note for note in program.notes)
    os.close(pipe)


_MANY = """
import resource, sys
from pathlib import Path
from omn_core.run.launcher import LaunchPlan
from omn_core.run.program import start_program
script = "for i in 1 2 3 4 5 6 7 8 9 10; do for j in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done; done; echo > $0; wait"
program = start_program(LaunchPlan("/bin/sh", ("sh", "-c", script, sys.argv[1])), adopts=False)
program.launched.release()
Path(sys.argv[1]).read_text()
resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
program.finish()
print(program.tree.ended, program.tree.survivors, resource.getrlimit(resource.RLIMIT_NOFILE))
program.give_up()
"""


@pytest.mark.spec("RUN-5")
def test_a_tree_of_more_processes_than_descriptors_is_ended(tmp_path: Path) -> None:
    """All are stopped first, and so many are held while they die as there are descriptors for."""
    os.mkfifo(tmp_path / "pipe")
    code = [sys.executable, "-c", _MANY, str(tmp_path / "pipe")]
    done = subprocess.run(code, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("101 {} (80, 80)\n", "")


@pytest.mark.spec("RUN-5")
def test_an_orphan_is_adopted_ended_and_counted_under_its_name(tmp_path: Path) -> None:
    """A process that outlives the program is named in the document, however it calls itself."""
    pipe = _ready(tmp_path / "pipe")
    code = (
        "import os, signal\n"
        "if os.fork():\n"
        f"    open({str(tmp_path / 'go')!r}).read()\n"
        "    os._exit(7)\n"
        "os.setsid()\n"
        "open('/proc/self/comm', 'wb').write(b'\\x1b[31m\\xff')\n"
        f"open({str(tmp_path / 'pipe')!r}, 'w').write(f'{{os.getpid()}}\\n')\n"
        "signal.pause()\n"
    )
    os.mkfifo(tmp_path / "go")
    with linux.subreaper():
        program = _start(sys.executable, "-c", code)
        orphan = int(_read_line(pipe))
        os.close(os.open(tmp_path / "go", os.O_WRONLY))
        program.launched.wait()
        program.launched.note_end()
        _finish(program)
    assert program.launched.exit == {"code": 7}
    assert [(one.pid, one.comm, one.ended) for one in program.adopted()] == [(orphan, r"\x1b[31m\xff", True)]
    assert not _is_alive(orphan)
    assert program.notes == []
    os.close(pipe)


@pytest.mark.spec("RUN-5")
def test_without_a_subreaper_an_orphan_is_nobodys(tmp_path: Path) -> None:
    """A library's caller adopts nothing: the orphan is not counted, and lives on."""
    if linux.is_subreaper():
        pytest.skip("these tests are run by a subreaper of its own making")
    path = tmp_path / "pid"
    program = _start("sh", "-c", "setsid sleep 1000 & echo $!", stdout=path, adopts=False)
    program.launched.wait()
    program.launched.note_end()
    _finish(program)
    orphan = int(path.read_text())
    try:
        assert program.adopted() == ()
        assert _is_alive(orphan)
    finally:
        os.kill(orphan, signal.SIGKILL)


@pytest.mark.spec("RUN-5")
def test_a_tree_that_keeps_moving_is_caught(tmp_path: Path) -> None:
    """A chain in which each process starts the next and ends has no survivor in its session."""
    pipe = _ready(tmp_path / "pipe")
    code = (
        "import os\n"
        "os.setsid()\n"
        f"open({str(tmp_path / 'pipe')!r}, 'w').write('moving\\n')\n"
        "for _ in range(100000):\n"
        "    if os.fork():\n"
        "        os._exit(0)\n"
    )
    with linux.subreaper():
        program = _start(sys.executable, "-c", code)
        assert _read_line(pipe) == "moving"
        program.launched.wait()
        program.launched.note_end()
        _finish(program)
    left = [
        stat for stat in linux._iter_stats() if stat.state not in "ZX" and _session(stat.pid) == program.launched.pid
    ]
    assert left == []
    assert set(linux.read_children()).isdisjoint({one.pid for one in program.adopted()})
    os.close(pipe)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def test_children_omn_had_before_are_set_aside() -> None:
    """A child that was there before the program is none of its tree, and is left alone."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as own:
        program = _start("sleep", "1000")
        assert own.pid not in {member.pid for member in program.tree.members()}
        _finish(program)
        assert own.poll() is None
        own.communicate()


@pytest.mark.spec("RUN-5")
def test_children_a_librarys_caller_starts_meanwhile_are_its_own() -> None:
    """Where omn adopts nobody, a child that is not the program's is not the run's to end."""
    program = _start("sleep", "1000", adopts=False)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as own:
        _finish(program)
        assert own.poll() is None
        own.communicate()


def test_orphans_that_end_by_themselves_are_reaped_on_the_way() -> None:
    """Their cpu is kept and their numbers are free, while the program and a living orphan are left alone.

    Each is left until everybody has read it after it was seen to have ended.
    """
    with linux.subreaper():
        program = _start("sleep", "1000")
        orphan = os.posix_spawn("/bin/true", ["true"], os.environ)
        os.waitid(os.P_PID, orphan, os.WEXITED | os.WNOWAIT)
        living = os.posix_spawn("/bin/sleep", ["sleep", "1000"], os.environ)
        program.tree.reap_orphans(read_ns=time.monotonic_ns())
        assert program.tree.reaped == []
        program.tree.reap_orphans(read_ns=0)
        assert program.tree.reaped == []
        program.tree.reap_orphans(read_ns=time.monotonic_ns())
        assert [process.pid for process in program.tree.reaped] == [orphan]
        assert _is_alive(living)
        assert _is_alive(program.launched.pid)
        _finish(program)
        assert [one.pid for one in program.adopted()] == [living]


def test_a_later_process_of_the_programs_number_is_none_of_its_tree() -> None:
    """A number that was reused is a stranger's: it is not found, so it is never signalled."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as stranger:
        stat = linux.find_stat(stranger.pid)
        assert stat is not None
        tree = Tree(stranger.pid, stat.start_ticks - 1, adopts=False)
        assert tree.members() == []
        tree.end()
        assert stranger.poll() is None
        stranger.communicate()


def test_a_process_omn_may_not_signal_is_said_to_run_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is listed as not ended, the rest of the tree is ended all the same, and nobody waits for it."""
    pipe = _ready(tmp_path / "pipe")
    program = _start("sh", "-c", f"sleep 1000 & echo $! > {tmp_path}/pipe; wait")
    protected = int(_read_line(pipe))
    pidfds: dict[int, int] = {}
    opened, sent = linux.open_pidfd, linux.send_signal

    def open_pidfd(pid: int) -> int:
        descriptor = opened(pid)
        pidfds[descriptor] = pid
        return descriptor

    def send_signal(pidfd: int, number: int) -> bool:
        if pidfds.get(pidfd) == protected:
            raise PermissionError
        return sent(pidfd, number)

    monkeypatch.setattr(linux, "open_pidfd", open_pidfd)
    monkeypatch.setattr(linux, "send_signal", send_signal)
    try:
        with linux.subreaper():
            _finish(program)
        assert _is_alive(protected)
        assert not _is_alive(program.launched.pid)
        assert any(note.startswith(f"process {protected} (") and "runs on" in note for note in program.notes)
        assert [(one.pid, one.ended) for one in program.adopted()] == []
    finally:
        os.kill(protected, signal.SIGKILL)
        os.close(pipe)


def test_the_cpu_of_what_was_reaped_is_kept(tmp_path: Path) -> None:
    """Each process reaped here brings the account of itself and of what it had waited for."""
    burn = "python3 -c 'import time\nwhile time.process_time() < 0.05: pass'"
    program = _start("sh", "-c", f"{burn}; exit 0")
    poll = select.poll()
    poll.register(program.launched.pidfd, select.POLLIN)
    poll.poll()
    program.launched.note_end()
    _finish(program)
    (reaped,) = program.tree.reaped
    assert reaped.pid == program.launched.pid
    assert reaped.with_children_ns - reaped.own_ns >= 50_000_000
