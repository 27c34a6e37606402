"""Targets found on this machine: processes by number, held by pidfds so that no number comes to mean another."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import attrs

from omn_core.errors import MachineRefused
from omn_core.model.collector import BoundTarget, ProcessHandle
from omn_core.model.probe import ProbeContext
from omn_core.model.target import Target
from omn_core.run import linux
from omn_core.run.launcher import Launched


def bind_launch(target: Target, _context: ProbeContext) -> BoundTarget:
    """Bind a program that is yet to be started: it has no process before `add_process`."""
    return BoundTarget(target, target.scope, launched=True)


def add_process(bound: BoundTarget, launched: Launched, find_orphans: Callable[[], Sequence[int]]) -> BoundTarget:
    """Return a launch target with its process, which omn holds before its exec, and with whom omn adopts of it."""
    handle = ProcessHandle(launched.pid, launched.pidfd, launched.start_ticks)
    return attrs.evolve(bound, processes=(handle,), described={"pid": launched.pid}, find_orphans=find_orphans)


def bind_system(target: Target, _context: ProbeContext) -> BoundTarget:
    """Bind the machine."""
    return BoundTarget(target, target.scope)


def bind_pid(target: Target, context: ProbeContext) -> BoundTarget:
    """Bind each process of `--pid a,b`. Raises MachineRefused with a sentence for each way of not being there.

    A kernel thread is a process here, and `described` says so: whether it has what a source reads is the source's.
    """
    handles: list[ProcessHandle] = []
    stats: list[linux.ProcessStat] = []
    try:
        for pid in target.value:
            handle, stat = _hold(pid, context.sysroot)
            handles.append(handle)
            stats.append(stat)
    except MachineRefused:
        close_handles(handles)
        raise
    return BoundTarget(target, target.scope, tuple(handles), described=_describe(stats))


def bind_tid(target: Target, context: ProbeContext) -> BoundTarget:
    """Bind one thread, and its process with it. Raises MachineRefused as `bind_pid` does."""
    tid: int = target.value
    if _is_real(context):
        refuse_foreign_proc()
    pid = linux.find_process_of(tid, context.sysroot)
    if pid is None:
        hidden = _is_real(context) and linux.is_hidden(tid)
        raise _refuse_hidden(tid) if hidden else MachineRefused(f"there is no thread {tid}")
    handle, stat = _hold(pid, context.sysroot)
    thread = linux.find_stat(tid, context.sysroot)
    if thread is None or thread.state in "ZX" or linux.find_process_of(tid, context.sysroot) != pid:
        close_handles([handle])
        raise MachineRefused(f"thread {tid} ended while it was being bound")
    described = {**_describe([stat]), "tid": tid, "thread_comm": linux.escape_comm(thread.comm)}
    return BoundTarget(target, target.scope, (handle,), tid=tid, described=described)


def close_handles(handles: list[ProcessHandle] | tuple[ProcessHandle, ...]) -> None:
    """Let go of processes that were bound."""
    for handle in handles:
        if handle.pidfd is not None:
            os.close(handle.pidfd)


def _hold(pid: int, sysroot: str) -> tuple[ProcessHandle, linux.ProcessStat]:
    """Hold one process. The pidfd is opened between two looks: what both see alike is what it stands for."""
    before = _get_living(pid, sysroot)
    if sysroot != "/":
        return ProcessHandle(pid, None, before.start_ticks), before
    try:
        pidfd = linux.open_pidfd(pid)
    except ProcessLookupError:
        raise _refuse_ended(pid) from None
    except OSError as error:
        raise MachineRefused(f"process {pid} cannot be held: {error.strerror}", "pidfd_open needs Linux 5.3") from error
    after = linux.find_stat(pid, sysroot)
    if after is None or after.is_zombie or after.start_ticks != before.start_ticks:
        os.close(pidfd)
        raise _refuse_ended(pid)
    return ProcessHandle(pid, pidfd, after.start_ticks), after


def refuse_foreign_proc() -> None:
    """Raise MachineRefused where a process's number does not lead to its own files."""
    if not linux.shows_own_numbers():
        raise MachineRefused(
            "/proc is not that of omn's own pid namespace: a process's number leads to no file of its own there",
            "mount /proc inside the namespace (`unshare --mount-proc` does)",
        )


def _get_living(pid: int, sysroot: str) -> linux.ProcessStat:
    if sysroot == "/":
        refuse_foreign_proc()
    stat = linux.find_stat(pid, sysroot)
    if stat is None:
        if sysroot == "/" and linux.is_hidden(pid):
            raise _refuse_hidden(pid)
        raise MachineRefused(f"there is no process {pid}")
    owner = linux.find_process_of(pid, sysroot)
    if owner is not None and owner != pid:
        raise MachineRefused(
            f"{pid} is a thread of process {owner}, not a process", f"ask for --pid {owner}, or for --tid {pid}"
        )
    if stat.is_zombie:
        raise MachineRefused(
            f"process {pid} ({linux.escape_comm(stat.comm)}) has ended and is a zombie: its parent {stat.parent} has "
            "not reaped it, and there is nothing left to measure"
        )
    return stat


def _refuse_ended(pid: int) -> MachineRefused:
    return MachineRefused(f"process {pid} ended while it was being bound")


def _refuse_hidden(number: int) -> MachineRefused:
    return MachineRefused(
        f"{number} exists, and /proc hides it from this user (it is mounted with hidepid)",
        "ask as the process's owner or with CAP_SYS_PTRACE",
    )


def _is_real(context: ProbeContext) -> bool:
    return context.sysroot == "/"


def _describe(stats: list[linux.ProcessStat]) -> dict[str, object]:
    described: dict[str, object] = {
        "processes": [{"pid": stat.pid, "comm": linux.escape_comm(stat.comm)} for stat in stats]
    }
    if any(stat.is_kernel_thread for stat in stats):
        described["kernel_thread"] = True
    return described
