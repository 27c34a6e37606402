"""Processes as Linux shows them: /proc/<pid>/stat, pidfds, who started whom, who adopts orphans.

The `run/linux*.py` modules are the only ones of the core that know Linux.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import resource
import signal
from collections.abc import Iterator
from typing import Any

import attrs

_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
_PF_KTHREAD = 0x0020_0000

_libc = ctypes.CDLL(None, use_errno=True)


@attrs.frozen(repr=False)
class ProcessStat:
    """What /proc/<pid>/stat says of a process or a thread.

    `comm` is the name as bytes, whatever they are; `state` one letter; `children_ticks` the user and system cpu of the
    children it has waited for, in clock ticks; `start_ticks` when it started, in clock ticks since boot.
    """

    pid: int
    comm: bytes
    state: str
    parent: int
    is_kernel_thread: bool
    children_ticks: int
    threads: int
    start_ticks: int

    @property
    def is_zombie(self) -> bool:
        """Whether it has exited and only waits to be reaped. A dead first thread beside live ones is no zombie."""
        return self.state in "ZXx" and self.threads <= 1


def parse_stat(content: bytes) -> ProcessStat:
    """Read a stat file. The name may hold spaces, newlines and parentheses: it ends at the last `)`."""
    head, _, tail = content.rpartition(b")")
    number, _, comm = head.partition(b"(")
    fields = tail.split()
    return ProcessStat(
        pid=int(number),
        comm=comm,
        state=fields[0].decode("ascii"),
        parent=int(fields[1]),
        is_kernel_thread=bool(int(fields[6]) & _PF_KTHREAD),
        children_ticks=int(fields[13]) + int(fields[14]),
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
    )


def find_stat(pid: int, sysroot: str = "/") -> ProcessStat | None:
    """Return a process's stat, None where there is no such process (or /proc hides it)."""
    content = _read_or_none(os.path.join(sysroot, "proc", str(pid), "stat"))
    return None if content is None else parse_stat(content)


def find_process_of(tid: int, sysroot: str = "/") -> int | None:
    """Return the process a thread belongs to (`Tgid` of /proc/<tid>/status), None where there is no such thread."""
    content = _read_or_none(os.path.join(sysroot, "proc", str(tid), "status"))
    found = None if content is None else re.search(rb"^Tgid:\s+(\d+)$", content, re.MULTILINE)
    return None if found is None else int(found[1])


def escape_comm(comm: bytes) -> str:
    """Return a process's name as text that no terminal and no format trips over."""
    text = comm.decode("utf-8", "backslashreplace")
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def shows_own_numbers() -> bool:
    """Tell whether the numbers in /proc are those of omn's own pid namespace.

    A namespace made without a /proc of its own (`unshare --pid` without `--mount-proc`) still sees its parent's, where
    every number means another process.
    """
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def is_hidden(pid: int) -> bool:
    """Tell whether a process exists although /proc does not show it to this user (mounted with hidepid)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):  # the latter for a number that no process can have
        return False
    return True


def open_pidfd(pid: int) -> int:
    """Open a descriptor that stands for this process and no later one (pidfd_open, Linux 5.3).

    It becomes readable when the process exits. Raises ProcessLookupError where there is none.
    """
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        # A thread that leads no process is ENOENT since 6.9 and EINVAL before: to the caller, no process either way.
        if error.errno in (errno.EINVAL, errno.ENOENT):
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH)) from error
        raise


def send_signal(pidfd: int, number: int) -> bool:
    """Send a signal through a pidfd. Returns False where the process is gone; raises PermissionError."""
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    return True


def find_exit(pid: int) -> dict[str, Any] | None:
    """Return how a child of omn ended, without reaping it: {"code": n} or {"signal": name}.

    None where it has not ended, or its status went to somebody else (it was reaped by another's wait).
    """
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return None
    if found is None:
        return None
    if found.si_code == os.CLD_EXITED:
        return {"code": found.si_status}
    return {"signal": name_signal(found.si_status)}


def name_signal(number: int) -> str:
    """Return a signal's name; a real-time one is spelt from SIGRTMIN."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


def reap(pid: int) -> int | None:
    """Reap a child that has ended. Returns the cpu of it and of all it waited for, in nanoseconds.

    None where it is no child of omn, or has not ended. The kernel's account is exact to the microsecond.
    """
    try:
        found, _, usage = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return None if found == 0 else round((usage.ru_utime + usage.ru_stime) * 1e6) * 1000


def read_children(pid: int | None = None) -> tuple[int, ...]:
    """Return the children of a process (None: omn's own), zombies among them, from /proc/<pid>/task/*/children.

    A kernel without those files (CONFIG_PROC_CHILDREN) is asked for every process's parent instead.
    """
    own = os.getpid() if pid is None else pid
    found: list[int] = []
    folder = f"/proc/{own}/task"
    try:
        threads = os.listdir(folder)
    except OSError:
        return ()
    for thread in threads:
        content = _read_or_none(f"{folder}/{thread}/children")
        if content is None and os.path.exists(f"{folder}/{thread}/stat"):
            return tuple(stat.pid for stat in _iter_stats() if stat.parent == own)
        found += map(int, (content or b"").split())
    return tuple(found)


def _iter_stats() -> Iterator[ProcessStat]:
    for name in os.listdir("/proc"):
        stat = find_stat(int(name)) if name.isdigit() else None
        if stat is not None:
            yield stat


def is_subreaper() -> bool:
    """Tell whether orphans below omn become its children (PR_GET_CHILD_SUBREAPER)."""
    found = ctypes.c_int(0)
    _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.addressof(found))
    return bool(found.value)


@contextlib.contextmanager
def subreaper() -> Iterator[None]:
    """Adopt the orphans of what is started inside (PR_SET_CHILD_SUBREAPER), and leave things as they were after."""
    before = is_subreaper()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        _prctl(_PR_SET_CHILD_SUBREAPER, int(before))


@contextlib.contextmanager
def raise_open_files() -> Iterator[int]:
    """Let as many files be open inside as this process may have (RLIMIT_NOFILE's hard limit), and yield its soft limit.

    The soft one, 1024 on most machines, is for programs that wait by select(2), which knows no descriptor past it: omn
    does not, and a program that it starts has the limit that omn was started with.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError):  # a hard limit past fs.nr_open, which was lowered since
        limit_open_files(hard)
    try:
        yield soft
    finally:
        limit_open_files(soft)


def limit_open_files(soft: int) -> None:
    """Set the soft limit of open files, where it is another. What is open past it stays open."""
    now, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now != soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _prctl(option: int, argument: int) -> None:
    zero = ctypes.c_ulong(0)
    if _libc.prctl(ctypes.c_int(option), ctypes.c_ulong(argument), zero, zero, zero) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _read_or_none(path: str) -> bytes | None:
    """Return a proc file's content, None where its process is gone (the file, or what is behind it) or hidden.

    /proc mounted with hidepid=2 shows a stranger's folder to nobody, with hidepid=1 it answers EPERM (proc(5)).
    """
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError, PermissionError):
        return None
