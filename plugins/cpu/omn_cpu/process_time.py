"""cpu.util of processes and of a thread: cpu time over time, in cpus."""

from __future__ import annotations

import select
from abc import ABC, abstractmethod
from collections.abc import Callable

import attrs
from omn_kernel.cpu_clock import read_process_clock
from omn_kernel.procfs.process import ProcessFile, ProcessGone, find_process_key
from omn_kernel.procfs.task import parse_schedstat, parse_stat

from omn_core.api import Batch, BoundTarget, MachineRefused, ProcessHandle, TargetGone
from omn_cpu.accounts import Account, AccountCollector, Growth
from omn_cpu.machine_time import TICK_NS

Reading = dict[str, int]


@attrs.define(eq=False)
class Watched:
    """One process, or one thread of it: its account, and what names it in a row."""

    handle: ProcessHandle
    task: int
    key: str | None
    comm: ProcessFile
    read: Callable[[], Reading]
    close: Callable[[], None]
    account: Account


@attrs.frozen
class Row:
    """What one process did in one interval."""

    watched: Watched
    comm: bytes | None
    growth: Growth


class ProcessTime(AccountCollector, ABC):
    """The cpu time of each process of the target over the time since it was last read.

    A process that ended is read once more while it is a zombie; one that was reaped before it could be read takes its
    last interval with it, which is counted.
    """

    def attach(self, target: BoundTarget) -> None:
        """Read the baseline of each process."""
        self._watched: list[Watched] = []
        for handle in target.processes:
            try:
                self._watched.append(self._watch(handle, target.tid))
            except ProcessGone:
                raise MachineRefused(f"process {handle.pid} ended before it could be read") from None

    def sample(self, now_ns: int) -> Batch:  # the contract's signature
        """Return a row for each process. Raises TargetGone when the last has ended and has been read."""
        before = self.context.clock()
        rows: list[Row] = []
        going: list[Watched] = []
        for watched in self._watched:
            try:
                reading, has_ended = _read_whole(watched)
            except ProcessGone:
                self.misses.note(f"task {watched.task} was gone before what it last ran could be read")
                watched.close()
                continue
            growth = watched.account.advance(reading, self.context.clock(), self.misses)
            if growth is not None:
                rows.append(Row(watched, _read_comm(watched.comm), growth))
            if has_ended:
                watched.close()
            else:
                going.append(watched)
        if not rows and not going:
            raise TargetGone
        self._watched = going
        return self._make_batch((before, self.context.clock()), rows)

    @abstractmethod
    def open_account(self, handle: ProcessHandle, tid: int | None) -> tuple[Callable[[], Reading], Callable[[], None]]:
        """Return what reads a process's counters, by name in nanoseconds, and what lets go of them."""

    def _watch(self, handle: ProcessHandle, tid: int | None) -> Watched:
        root = self.context.sysroot
        task = handle.pid if tid is None else tid
        comm = ProcessFile(root, handle.pid, "comm", tid=tid)
        read, close_account = self.open_account(handle, tid)

        def close() -> None:
            close_account()
            comm.close()

        self.files.callback(close)
        account = Account(f"task {task}", read(), self.context.clock())
        return Watched(handle, task, find_process_key(root, handle.pid), comm, read, close, account)

    def _make_batch(self, span: tuple[int, int], rows: list[Row]) -> Batch:
        if not rows:
            return Batch.empty()
        lengths = [row.growth.length_ns for row in rows]
        spent = {name: [row.growth.by[name] for row in rows] for name in rows[0].growth.by}
        shares = {
            name.removesuffix("_ns"): [part / length for part, length in zip(parts, lengths, strict=True)]
            for name, parts in spent.items()
            if name != "oncpu_ns"
        }
        return Batch.of_reading(
            span,
            self.context.names,
            {"task": [row.watched.task for row in rows], "proc": [row.watched.key for row in rows]},
            {
                "util": [part / length for part, length in zip(spent["oncpu_ns"], lengths, strict=True)],
                **shares,
                "oncpu_ns": spent["oncpu_ns"],
                "interval_ns": lengths,
                "pid": [row.watched.handle.pid for row in rows],
                "comm": [row.comm for row in rows],
            },
        )


class ProcessClock(ProcessTime):
    """The scheduler's own nanoseconds: the process's cpu clock, every thread it ever had included."""

    def open_account(
        self,
        handle: ProcessHandle,
        tid: int | None,  # a thread of another process has no clock that can be read
    ) -> tuple[Callable[[], Reading], Callable[[], None]]:
        """Read the clock by the process's number: there is nothing to hold."""
        return lambda: {"oncpu_ns": read_process_clock(handle.pid)}, _close_nothing


class ThreadSchedstat(ProcessTime):
    """The scheduler's own nanoseconds of one thread: /proc/<pid>/task/<tid>/schedstat."""

    def open_account(self, handle: ProcessHandle, tid: int | None) -> tuple[Callable[[], Reading], Callable[[], None]]:
        """Open the thread's file."""
        file = ProcessFile(self.context.sysroot, handle.pid, "schedstat", tid=tid)
        return lambda: {"oncpu_ns": parse_schedstat(file.read()).run_ns}, file.close


class ProcessTicks(ProcessTime):
    """utime and stime of /proc/<pid>/stat, whole clock ticks, for kernels and places without the others."""

    def open_account(self, handle: ProcessHandle, tid: int | None) -> tuple[Callable[[], Reading], Callable[[], None]]:
        """Open the process's file, or the thread's."""
        file = ProcessFile(self.context.sysroot, handle.pid, "stat", tid=tid)

        def read() -> Reading:
            stat = parse_stat(file.read())
            user, system = stat.user_ticks * TICK_NS, stat.system_ticks * TICK_NS
            return {"oncpu_ns": user + system, "user_ns": user, "system_ns": system}

        return read, file.close


def _close_nothing() -> None:
    """Let go of nothing: a clock is held by nobody."""


def _read_whole(watched: Watched) -> tuple[Reading, bool]:
    """Read a process's counters, and whether they are its last: then they hold all it ever ran."""
    reading = watched.read()
    if not _has_ended(watched.handle):
        return reading, False
    return watched.read(), True


def _read_comm(file: ProcessFile) -> bytes | None:
    """Read a task's name as it stands, None where it can no longer be read."""
    try:
        return file.read().removesuffix(b"\n")
    except ProcessGone:
        return None


def _has_ended(handle: ProcessHandle) -> bool:
    """Whether a process has exited, by its pidfd. Without one its files tell, when they can no longer be read."""
    if handle.pidfd is None:
        return False
    poller = select.poll()
    poller.register(handle.pidfd, select.POLLIN)
    return bool(poller.poll(0))
