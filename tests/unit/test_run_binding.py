"""Targets found on this machine, and each way of not being there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from another_user import run_as_another_user

from omn_core.api import MachineRefused, ProbeContext, Target
from omn_core.run import binding, linux

_HERE = ProbeContext()
_NOBODY = 2**22 + 1


def _close(bound: binding.BoundTarget) -> None:
    binding.close_handles(bound.processes)


@pytest.mark.spec("REQ-10")
def test_processes_are_held_by_pidfds() -> None:
    """Each process of the target comes with a pidfd that is its own and the ticks it started at."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        bound = binding.bind_pid(Target("pid", (os.getpid(), child.pid)), _HERE)
        assert [handle.pid for handle in bound.processes] == [os.getpid(), child.pid]
        assert bound.scope == "process"
        assert not bound.launched
        stat = linux.find_stat(child.pid)
        assert stat is not None
        handle = bound.processes[1]
        assert handle.start_ticks == stat.start_ticks
        assert handle.pidfd is not None
        signal.pidfd_send_signal(handle.pidfd, signal.SIGTERM)
        assert child.wait() == -signal.SIGTERM
        assert [one["pid"] for one in bound.described["processes"]] == [os.getpid(), child.pid]
        _close(bound)


@pytest.mark.spec("REQ-10")
def test_no_such_process() -> None:
    """A number nobody has, and what was opened for the others is let go."""
    before = os.listdir("/proc/self/fd")
    with pytest.raises(MachineRefused, match=f"there is no process {_NOBODY}"):
        binding.bind_pid(Target("pid", (os.getpid(), _NOBODY)), _HERE)
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.spec("REQ-10")
def test_a_zombie() -> None:
    """One that has ended and was not reaped is refused as that, with the parent that has yet to."""
    pid = os.posix_spawn("/bin/true", ["true"], os.environ)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    try:
        with pytest.raises(MachineRefused, match=rf"process {pid} \(true\) .* zombie: its parent {os.getpid()} "):
            binding.bind_pid(Target("pid", (pid,)), _HERE)
    finally:
        os.waitpid(pid, 0)


@pytest.mark.spec("REQ-10")
def test_a_process_that_ends_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was there at the first look and is not at the second, or its number is another's by then."""
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    opened = linux.open_pidfd

    def open_and_lose(pid: int) -> int:
        descriptor = opened(pid)
        child.communicate()
        return descriptor

    monkeypatch.setattr(linux, "open_pidfd", open_and_lose)
    with pytest.raises(MachineRefused, match=f"process {child.pid} ended while it was being bound"):
        binding.bind_pid(Target("pid", (child.pid,)), _HERE)


@pytest.mark.spec("REQ-10")
def test_a_number_that_was_given_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A different start says that the number changed hands between the two looks."""
    import attrs

    own = linux.find_stat(os.getpid())
    assert own is not None
    looks = iter([attrs.evolve(own, start_ticks=own.start_ticks - 1), own])
    monkeypatch.setattr(linux, "find_stat", lambda pid, sysroot="/": next(looks))
    with pytest.raises(MachineRefused, match="ended while it was being bound"):
        binding.bind_pid(Target("pid", (os.getpid(),)), _HERE)


@pytest.mark.spec("REQ-10")
def test_a_kernel_thread_is_said_to_be_one() -> None:
    """It is bound, and the description says what it is."""
    children = linux.read_children(2)
    if not children:
        pytest.skip("no kernel thread is visible here: process 2 has no children in this pid namespace")
    bound = binding.bind_pid(Target("pid", (children[0],)), _HERE)
    assert bound.described["kernel_thread"] is True
    _close(bound)
    own = binding.bind_pid(Target("pid", (os.getpid(),)), _HERE)
    assert "kernel_thread" not in own.described
    _close(own)


@pytest.mark.spec("REQ-10")
def test_a_thread_given_as_a_process_names_its_process() -> None:
    """The refusal says which process it is of, and both ways to ask."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        tid = thread.native_id
        with pytest.raises(MachineRefused) as caught:
            binding.bind_pid(Target("pid", (tid,)), _HERE)
        pid = os.getpid()
        assert caught.value.reason == f"{tid} is a thread of process {pid}, not a process"
        assert caught.value.remedy == f"ask for --pid {pid}, or for --tid {tid}"
        bound = binding.bind_tid(Target("tid", tid), _HERE)
        assert (bound.tid, bound.processes[0].pid, bound.scope) == (tid, os.getpid(), "thread")
        assert bound.described["tid"] == tid
        _close(bound)
    finally:
        done.set()
        thread.join()
    with pytest.raises(MachineRefused, match=f"there is no thread {_NOBODY}"):
        binding.bind_tid(Target("tid", _NOBODY), _HERE)


@pytest.mark.spec("REQ-10")
def test_a_process_that_proc_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under hidepid a process that exists is not called missing."""
    monkeypatch.setattr(linux, "find_stat", lambda pid, sysroot="/": None)
    with pytest.raises(MachineRefused, match="hidepid"):
        binding.bind_pid(Target("pid", (os.getppid(),)), _HERE)


@pytest.mark.spec("REQ-10")
def test_a_number_that_no_process_can_have_is_not_there() -> None:
    """A number past what the kernel counts in is refused as any that nobody has."""
    with pytest.raises(MachineRefused, match="there is no process 99999999999"):
        binding.bind_pid(Target("pid", (99_999_999_999,)), _HERE)
    with pytest.raises(MachineRefused, match="there is no thread 99999999999"):
        binding.bind_tid(Target("tid", 99_999_999_999), _HERE)


@pytest.mark.spec("REQ-10")
def test_a_folder_that_is_closed_hides_its_process(tmp_path: Path) -> None:
    """Where /proc shows a stranger's folder and refuses what is in it (hidepid=1), the process is hidden, no error."""
    (tmp_path / "proc" / "77").mkdir(parents=True)
    tmp_path.chmod(0)
    code = f"print(find_stat(77, {str(tmp_path)!r}), find_process_of(77, {str(tmp_path)!r}))"
    assert run_as_another_user("from omn_core.run.linux import find_process_of, find_stat", code) == "None None\n"


def test_a_process_of_a_tree_of_files_has_no_pidfd(tmp_path: Path) -> None:
    """Where a folder stands in for `/` there is nothing to hold."""
    folder = tmp_path / "proc" / "77"
    folder.mkdir(parents=True)
    (folder / "stat").write_bytes(b"77 (a b) S 1 77 77 0 -1 0 " + b"0 " * 10 + b"1 0 4242 0 0")
    (folder / "status").write_text("Name:\ta b\nTgid:\t77\n")
    bound = binding.bind_pid(Target("pid", (77,)), ProbeContext("pid", str(tmp_path)))
    assert (bound.processes[0].pidfd, bound.processes[0].start_ticks) == (None, 4242)


def test_the_machine_has_no_process() -> None:
    """A system target is the scope alone."""
    bound = binding.bind_system(Target("system"), _HERE)
    assert (bound.scope, bound.processes) == ("system", ())


def test_binding_knows_nothing_of_numpy() -> None:
    """Searching processes does not load what only a run needs."""
    code = "import sys; import omn_core.run.linux, omn_core.run.environment; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
