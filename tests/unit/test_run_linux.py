"""Processes and clocks as Linux shows them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omn_core.run import linux, linux_clock
from omn_core.run.linux import escape_comm, find_stat, name_signal, parse_stat

_TAIL = b" S 4321 77 78 0 -1 4194560 10 20 30 40 50 60 70 80 20 0 3 0 987654 1000 2000 18446744073709551615"


@given(st.binary(max_size=15).filter(lambda comm: b"\0" not in comm), st.integers(1, 1 << 22))
def test_parse_stat_whatever_the_name(comm: bytes, pid: int) -> None:
    """A process may call itself anything, `) R 1 (` and newlines included, and its other fields still read true."""
    stat = parse_stat(b"%d (%s)%s" % (pid, comm, _TAIL))
    assert (stat.pid, stat.comm, stat.state, stat.parent) == (pid, comm, "S", 4321)
    assert (stat.children_ticks, stat.threads, stat.start_ticks) == (150, 3, 987654)
    assert not stat.is_kernel_thread
    assert not stat.is_zombie


def test_parse_stat_of_a_hostile_name() -> None:
    """The name ends at the last parenthesis."""
    assert parse_stat(b"12 () R 1 ()" + _TAIL).comm == b") R 1 ("


@pytest.mark.parametrize(("threads", "is_zombie"), [(1, True), (2, False)])
def test_a_dead_first_thread_beside_living_ones_is_no_zombie(threads: int, is_zombie: bool) -> None:
    """State Z belongs to the first thread; the process lives on while others do."""
    stat = parse_stat(b"1 (x)" + _TAIL.replace(b" S ", b" Z ").replace(b"20 0 3 0", b"20 0 %d 0" % threads))
    assert stat.is_zombie is is_zombie


@given(st.binary(max_size=15))
def test_escape_comm_is_harmless_text(comm: bytes) -> None:
    """Whatever a process calls itself is printable UTF-8 text in a document."""
    text = escape_comm(comm)
    assert text.isprintable()
    text.encode("utf-8")


def test_escape_comm_keeps_plain_names_and_spells_the_rest() -> None:
    """Printable text stays; control characters and stray bytes become visible escapes."""
    assert escape_comm("naïve".encode()) == "naïve"
    assert escape_comm(b"\x1b[31m\n\xff") == r"\x1b[31m\n\xff"


def test_find_stat_of_oneself_and_of_nobody() -> None:
    """A living process has its own parent in its stat; one that does not exist is None."""
    stat = find_stat(os.getpid())
    assert stat is not None
    assert stat.parent == os.getppid()
    assert find_stat(2**22 + 1) is None


def test_a_kernel_thread_is_told_by_its_flag() -> None:
    """PF_KTHREAD tells a kernel thread, where this place shows one."""
    kernel_threads = [stat for stat in map(find_stat, linux.read_children(2)) if stat is not None]
    own = find_stat(os.getpid())
    assert own is not None
    assert not own.is_kernel_thread
    if not kernel_threads:
        pytest.skip("no kernel thread is visible here: process 2 has no children in this pid namespace")
    assert all(stat.is_kernel_thread for stat in kernel_threads)


def test_a_thread_leads_to_its_process() -> None:
    """A thread's process is its Tgid, and no pidfd is given for the thread itself."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert thread.native_id is not None
        assert linux.find_process_of(thread.native_id) == os.getpid()
        with pytest.raises(ProcessLookupError):
            linux.open_pidfd(thread.native_id)
    finally:
        done.set()
        thread.join()


def test_children_are_found_with_and_without_the_children_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel without /proc/<pid>/task/*/children gives the same answer by way of everybody's parent."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        assert child.pid in linux.read_children()
        read = linux._read_or_none
        monkeypatch.setattr(linux, "_read_or_none", lambda path: None if path.endswith("children") else read(path))
        assert child.pid in linux.read_children()
        child.communicate()


def test_children_of_a_process_that_is_gone_are_none() -> None:
    """Nobody's children are an empty tuple."""
    assert linux.read_children(2**22 + 1) == ()


@pytest.mark.spec("RUN-3")
@pytest.mark.parametrize(
    ("script", "ended"),
    [("exit 0", {"code": 0}), ("exit 255", {"code": 255}), ("kill -TERM $$", {"signal": "SIGTERM"})],
)
def test_an_exit_is_seen_before_it_is_reaped(script: str, ended: dict[str, object]) -> None:
    """The status is read from the zombie, which is still there after; reaping gives its cpu, and only once."""
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", script], os.environ)
    pidfd = linux.open_pidfd(pid)
    select.select([pidfd], [], [])
    os.close(pidfd)
    assert linux.find_exit(pid) == ended
    assert linux.find_exit(pid) == ended
    stat = find_stat(pid)
    assert stat is not None
    assert stat.is_zombie
    own_ns = linux_clock.find_process_cpu_ns(pid)
    assert own_ns is not None
    total_ns = linux.reap(pid)
    assert total_ns is not None
    assert total_ns >= own_ns - 1000
    assert linux.reap(pid) is None
    assert linux.find_exit(pid) is None


def test_signals_have_names() -> None:
    """A real-time signal without a name of its own is counted from SIGRTMIN."""
    assert name_signal(9) == "SIGKILL"
    assert name_signal(signal.SIGRTMIN) == "SIGRTMIN"
    assert name_signal(signal.SIGRTMIN + 3) == "SIGRTMIN+3"


def test_the_process_clock_is_ones_own_process_time() -> None:
    """The clock made from a process's number is CLOCK_PROCESS_CPUTIME_ID of that process."""
    before = time.process_time_ns()
    between = linux_clock.find_process_cpu_ns(os.getpid())
    after = time.process_time_ns()
    assert between is not None
    assert before <= between <= after
    assert linux_clock.find_process_cpu_ns(2**22 + 1) is None


def test_the_thread_account_is_nanoseconds_on_cpu() -> None:
    """schedstat's first field follows the thread's own clock; no such thread is None."""
    found = linux_clock.find_thread_cpu_ns(os.getpid(), threading.get_native_id())
    if found is None:
        pytest.skip("this kernel keeps no schedstat account (CONFIG_SCHED_INFO)")
    assert 0 < found <= time.process_time_ns()
    assert linux_clock.find_thread_cpu_ns(os.getpid(), 2**22 + 1) is None


def test_the_timer_comes_at_its_instant_and_not_before() -> None:
    """Its descriptor is readable at the instant it was set to; never where set to none; at once for a past one."""
    timer = linux_clock.Timer()
    poll = select.poll()
    poll.register(timer.descriptor, select.POLLIN)
    try:
        at_ns = time.monotonic_ns() + 20_000_000
        timer.set(at_ns)
        assert poll.poll(10_000)
        assert time.monotonic_ns() >= at_ns
        timer.set(None)
        assert not poll.poll(0)
        timer.set(0)
        assert poll.poll(10_000)
    finally:
        timer.close()


@pytest.mark.spec("RUN-5")
def test_subreaper_is_left_as_it_was() -> None:
    """Inside, orphans come to this process; after, they do as they did before."""
    code = (
        "from omn_core.run import linux\n"
        "assert not linux.is_subreaper()\n"
        "with linux.subreaper():\n"
        "    assert linux.is_subreaper()\n"
        "    with linux.subreaper():\n"
        "        pass\n"
        "    assert linux.is_subreaper()\n"
        "assert not linux.is_subreaper()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
