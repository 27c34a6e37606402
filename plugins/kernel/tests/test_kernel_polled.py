"""Files read again and again, and the processes behind them."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from another_user import run_as_another_user
from omn_kernel.polled import PolledFile, place, raise_descriptor_limit, restore_descriptor_limit
from omn_kernel.procfs.process import (
    ProcessFile,
    ProcessGone,
    find_process_key,
    has_ended,
    list_threads,
    read_stat,
)

from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import end_with, rename, touch_bytes

Start = Callable[[Workload], Running]


def test_a_polled_file_is_read_anew_each_time(tmp_path: Path) -> None:
    """A reading is the file as it stands, longer or shorter than the one before."""
    path = tmp_path / "counter"
    path.write_bytes(b"1" * 10000)
    polled = PolledFile(str(path), size=16)
    assert polled.read() == b"1" * 10000
    path.write_bytes(b"22")
    assert polled.read() == b"22"
    polled.close()
    polled.close()


@pytest.mark.parametrize("name", ["vmstat", "slabinfo"])
def test_a_file_of_many_records_is_read_to_its_end(name: str) -> None:
    """The kernel hands such a file out a buffer at a time; one read is not its end."""
    try:
        polled = PolledFile(f"/proc/{name}", many_records=True, size=512)
    except OSError as error:
        pytest.skip(f"/proc/{name}: {error.strerror}")
    content = polled.read()
    whole = Path(f"/proc/{name}").read_bytes()
    assert [line.split(b" ")[0] for line in content.splitlines()] == [
        line.split(b" ")[0] for line in whole.splitlines()
    ]
    polled.close()


def test_paths_are_placed_under_the_sysroot() -> None:
    """A root of its own stands before every path, and the real one before none."""
    assert place("/", "/proc/stat") == "/proc/stat"
    assert place("/fixture/", "/proc/stat") == "/fixture/proc/stat"


def test_the_descriptor_limit_is_raised_and_put_back() -> None:
    """As many files as are wanted can be opened, and the limit is then what it was."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = 128
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, before[1]))
    try:
        soft = raise_descriptor_limit(500)
        assert soft == low
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 500
        restore_descriptor_limit(soft)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (low, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_zombie_has_ended_and_its_memory_is_gone(workload: Start) -> None:
    """A process that waits for its parent is there, has ended, and has no mappings left."""
    program = workload(end_with(3))
    program.wait("ready")
    maps = ProcessFile("/", program.pid, "smaps_rollup", bound_to_memory=True)
    assert maps.read()
    program.release()
    program.wait_exited()
    assert read_stat("/", program.pid).state == "Z"
    assert has_ended("/", program.pid)
    with pytest.raises(ProcessGone):
        maps.read()


def test_a_process_that_was_reaped_is_gone() -> None:
    """A file held open on it says so, and so does a new one."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    statm = ProcessFile("/", child.pid, "statm")
    assert statm.read()
    child.communicate(b"\n")
    with pytest.raises(ProcessGone):
        statm.read()
    with pytest.raises(ProcessGone):
        read_stat("/", child.pid)


@pytest.mark.spec("RUN-7")
def test_a_process_that_executes_another_program_is_read_again() -> None:
    """A file bound to the address space that an execve replaced is opened anew: the process never left."""
    source = "import os, sys; print(flush=True); os.read(0, 1); os.execv('/bin/cat', ['cat'])"
    child = subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdout.readline()
    kept = ProcessFile("/", child.pid, "smaps_rollup")
    before = kept.read()
    child.stdin.write(b"\necho\n")
    child.stdin.flush()
    assert child.stdout.readline() == b"echo\n"
    assert kept.read() != before
    child.communicate()


def answer_esrch(times: int) -> Callable[[ProcessFile], bytes]:
    """Make a read that answers ESRCH so many times before it gives anything."""
    left = iter(range(times))

    def read(_file: ProcessFile) -> bytes:
        if next(left, None) is not None:
            raise ProcessLookupError(3, "No such process")
        return b"read"

    return read


@pytest.mark.spec("RUN-7")
def test_an_esrch_of_a_running_process_is_read_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """One such answer is not the end of a process that runs, and a second one is its error, not its end."""
    file = ProcessFile("/", os.getpid(), "smaps_rollup", bound_to_memory=True)
    monkeypatch.setattr(ProcessFile, "_read_once", answer_esrch(1))
    assert file.read() == b"read"
    monkeypatch.setattr(ProcessFile, "_read_once", answer_esrch(2))
    with pytest.raises(ProcessLookupError):
        file.read()


def test_a_file_of_another_user_is_refused_with_what_would_open_it() -> None:
    """The refusal names the process, the file and the capability."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user here")
    printed = run_as_another_user(
        """
        from omn_core.api import MachineRefused
        from omn_kernel.procfs.process import ProcessFile
        """,
        """
        try:
            ProcessFile('/', 1, 'smaps_rollup').read()
        except MachineRefused as refused:
            print(refused)
        """,
    )
    assert "process 1 does not let this user read its smaps_rollup" in printed
    assert "CAP_SYS_PTRACE" in printed


def test_a_process_key_is_its_namespace_and_its_number_there() -> None:
    """The inode of the namespace and the innermost pid name a process across containers."""
    inode = os.stat("/proc/self/ns/pid").st_ino
    own = Path("/proc/self/status").read_text().partition("NSpid:")[2].splitlines()[0].split()[-1]
    assert find_process_key("/", os.getpid()) == f"{inode}:{own}"


@pytest.mark.spec("EVT-2")
def test_a_process_key_is_absent_where_the_link_is_closed(sysroot: Sysroot) -> None:
    """A namespace that cannot be read is no namespace zero."""
    sysroot.write("/proc/7/status", "Name:\tx\nNSpid:\t7\n")
    assert find_process_key(str(sysroot), 7) is None


def test_a_process_key_of_seven_digits_in_a_container(sysroot: Sysroot) -> None:
    """The innermost of several numbers is the process's own."""
    sysroot.write("/proc/4194301/status", "Name:\tx\nNSpid:\t4194301\t23\n")
    sysroot.link("/proc/4194301/ns/pid", "pid:[4026532417]")
    assert find_process_key(str(sysroot), 4194301) == "4026532417:23"


def test_threads_are_listed_by_number(sysroot: Sysroot) -> None:
    """In the order of their numbers, not of their spellings."""
    for tid in (9, 10, 1000000):
        sysroot.write_process(9, tid=tid)
    assert list_threads(str(sysroot), 9) == [9, 10, 1000000]
    with pytest.raises(ProcessGone):
        list_threads(str(sysroot), 11)


def test_a_thread_that_ended_is_gone_while_its_process_runs(sysroot: Sysroot) -> None:
    """A thread's file answers for the thread."""
    sysroot.write_process(9).write_process(9, tid=10)
    file = ProcessFile(str(sysroot), 9, "stat", tid=10)
    assert b"10 (" in file.read()
    file.close()
    sysroot.remove("/proc/9/task/10")
    with pytest.raises(ProcessGone, match="thread 10 of process 9"):
        file.read()


def test_a_name_that_looks_like_fields_is_a_name(workload: Start) -> None:
    """A live process named after its own stat line keeps its state and its parent."""
    program = workload(rename(b") Z 1 (\n"))
    program.wait("named")
    stat = read_stat("/", program.pid)
    assert stat.comm == b") Z 1 (\n"
    assert stat.parent == os.getpid()
    assert not has_ended("/", program.pid)


def test_a_kernel_thread_is_told_from_a_program() -> None:
    """PF_KTHREAD is set for kthreadd and not for this process."""
    try:
        kernel = read_stat("/", 2)
    except ProcessGone:
        pytest.skip("no process 2 is visible here")
    if kernel.parent != 0:
        pytest.skip("process 2 is not the kernel's here")
    assert kernel.is_kernel_thread
    assert not read_stat("/", os.getpid()).is_kernel_thread


def test_a_stopped_process_has_not_ended(workload: Start) -> None:
    """SIGSTOP ends nothing."""
    program = workload(touch_bytes(4096))
    program.wait("ready")
    os.kill(program.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, program.pid, os.WSTOPPED | os.WNOWAIT)
    assert not has_ended("/", program.pid)
    os.kill(program.pid, signal.SIGCONT)
