"""Collectors of what each thread of some processes counted: threads are followed as they come and go, one by one.

What a thread counted between its last reading and its end is in no file any more. It is a failed reading; nothing is
made up for it, and nobody else is given it. The process's own clock keeps what its threads ran in its sum, so that
threads which no reading ever saw are known to have been there, and for how long at least they ran.
"""

from __future__ import annotations

import select
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from omn_core.api import BoundTarget, MachineRefused, ProcessHandle, TargetGone
from omn_kernel.counters import Misses
from omn_kernel.cpu_clock import has_process_clocks, read_process_clock
from omn_kernel.polling import PolledCollector, Rows
from omn_kernel.procfs.process import ProcessGone, find_comm, find_parent, find_process_key, has_ended, list_threads
from omn_kernel.task_files import DescriptorLoan, TaskFiles, TaskId

Counters = Mapping[str, int]
Parse = Callable[[bytes], Counters]


@attrs.frozen(eq=False)
class ThreadGrowth:
    """What one thread counted in one interval: from its last reading, or from its start where it came since."""

    pid: int
    key: str | None
    tid: int
    comm: bytes | None
    by: Counters


@attrs.define(eq=False)
class _Thread:
    last: Counters
    comm: bytes | None = None


@attrs.define(eq=False)
class Clock:
    """A process's cpu clock held against what its threads were read to have run, nanoseconds."""

    base_ns: int
    counted_ns: int = 0
    missing_ns: int = 0

    def advance(self, clock_ns: int, ran_ns: int) -> bool:
        """Take a reading of both in. Returns whether more is missing than before it."""
        self.counted_ns += ran_ns
        before, missing_ns = self.missing_ns, clock_ns - self.base_ns - self.counted_ns
        self.missing_ns = max(missing_ns, before)
        return missing_ns > before


class ThreadReader:
    """Some files of a thread read together: each file's name, and what its bytes count."""

    def __init__(self, sysroot: str, parts: Mapping[str, Parse]) -> None:
        self.sysroot = sysroot
        self._loan = DescriptorLoan()
        self._parts = [(TaskFiles(sysroot, name, self._loan), parse) for name, parse in parts.items()]

    def read(self, task: TaskId) -> Counters | None:
        """Read what a thread has counted, None where the one whose files were open has ended."""
        counters: dict[str, int] = {}
        for files, parse in self._parts:
            content = files.read(task)
            if content is None:
                self.forget(task)
                return None
            counters |= parse(content)
        return counters

    def forget(self, task: TaskId) -> None:
        """Let go of a thread's files."""
        for files, _ in self._parts:
            files.forget(task)

    def close(self) -> None:
        """Let go of every file, and of the descriptors they took."""
        for files, _ in self._parts:
            files.close()
        self._loan.close()


class ProcessThreads:
    """The threads of one process, or the one thread `tid` of it. Each one's first reading here is its baseline.

    `ended` is how many went between the last two readings. Raises ProcessGone where the process is not there.
    """

    def __init__(
        self, handle: ProcessHandle, tid: int | None, reader: ThreadReader, misses: Misses, *, wants_comm: bool
    ) -> None:
        self.pid = handle.pid
        self._pidfd = handle.pidfd
        self.key = find_process_key(reader.sysroot, handle.pid)
        self.ended = 0
        self._tid = tid
        self._reader = reader
        self._misses = misses
        self._wants_comm = wants_comm
        self._threads: dict[int, _Thread] = {}
        for each in self._list():
            counters = self._reader.read((self.pid, each))
            if counters is not None:
                self._threads[each] = _Thread(counters)

    def has_exited(self) -> bool:
        """Tell whether the process has exited, so that what is read of it from now on is its last."""
        if self._pidfd is None:
            return has_ended(self._reader.sysroot, self.pid)
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return bool(poller.poll(0))

    def advance(self) -> list[ThreadGrowth]:
        """Return what each thread counted since the last reading. Raises ProcessGone when the process is no more."""
        self.ended = 0
        grown: list[ThreadGrowth] = []
        seen: set[int] = set()
        for tid in self._list():
            counters = self._read(tid)
            if counters is not None:
                seen.add(tid)
                grown += self._advance_thread(tid, counters)
        for tid in self._threads.keys() - seen:
            self._end(tid)
        return grown

    def close(self) -> None:
        """Let go of every thread's files."""
        for tid in self._threads:
            self._reader.forget((self.pid, tid))
        self._threads.clear()

    def _list(self) -> list[int]:
        threads = list_threads(self._reader.sysroot, self.pid)
        return threads if self._tid is None else [tid for tid in threads if tid == self._tid]

    def _read(self, tid: int) -> Counters | None:
        """Read what a thread has counted, None where it ended. One that is new is followed from zero."""
        counters = self._reader.read((self.pid, tid))
        if counters is None and tid in self._threads:
            self._end(tid)  # another may have taken its number, whose files are others
            counters = self._reader.read((self.pid, tid))
        if counters is not None and tid not in self._threads:
            self._threads[tid] = _Thread(dict.fromkeys(counters, 0))
        return counters

    def _advance_thread(self, tid: int, counters: Counters) -> list[ThreadGrowth]:
        """Return the thread's growth, and none where its number passed to another: by reuse, or by an execve in it."""
        thread = self._threads[tid]
        by = {name: value - thread.last.get(name, 0) for name, value in counters.items()}
        thread.last = counters
        if any(growth < 0 for growth in by.values()):
            self._misses.note("a thread's number passed to another, and what either did since the last is unknown")
            return []
        if self._wants_comm and (thread.comm is None or any(by.values())):
            thread.comm = find_comm(self._reader.sysroot, self.pid, tid)
        return [ThreadGrowth(self.pid, self.key, tid, thread.comm, by)]

    def _end(self, tid: int) -> None:
        """Let a thread go whose last interval went with it."""
        self.ended += 1
        self._misses.note("a thread ended between two readings, and what it did since the last is in no row")
        self._reader.forget((self.pid, tid))
        del self._threads[tid]


class ThreadCollector(PolledCollector[list[ThreadGrowth]], ABC):
    """A row for each thread at each reading, those that did nothing included.

    A subclass says which files of a thread it reads and what their bytes count, and makes amounts of what that grew by.
    `oncpu_ns` is among the counters, and is held against the clock of each process.
    """

    reads_between = True

    @abstractmethod
    def list_parts(self) -> Mapping[str, Parse]:
        """Return the files of a thread by their names, each with the pure function that reads its counters."""

    @abstractmethod
    def make_amounts(self, grown: Sequence[ThreadGrowth]) -> Mapping[str, Sequence[int]]:
        """Make the measured columns of some threads' growth."""

    def open_files(self, target: BoundTarget) -> None:
        """Read the baseline of each thread there is: of a launched program, its first."""
        self._wants = {name: self.resolved.shows(name) for name in ("comm", "ppid")}
        self._reader = self.hold(ThreadReader(self.context.sysroot, self.list_parts()))
        self.processes: list[ProcessThreads] = []
        for handle in target.processes:
            try:
                threads = ProcessThreads(handle, target.tid, self._reader, self.misses, wants_comm=self._wants["comm"])
            except ProcessGone:
                raise MachineRefused(f"process {handle.pid} ended before it could be read") from None
            self.processes.append(threads)
        self._missing_ns = 0
        self._clocks: dict[ProcessThreads, Clock] = {}
        # A clock is a system call and no file: of captured ones there is none.
        if target.tid is None and self.context.sysroot in ("/", "") and has_process_clocks():
            self._clocks = {threads: Clock(_read_clock(threads.pid)) for threads in self.processes}

    def read_baseline(self) -> None:
        """Do nothing: each thread's is read where its process is opened."""

    def read(self) -> list[ThreadGrowth]:
        """Return what each thread counted since it was last read. Raises TargetGone when no process is left.

        A process that has exited is read once more, for its last words, and is followed no longer.
        """
        if not self.processes:
            raise TargetGone
        grown: list[ThreadGrowth] = []
        for threads in list(self.processes):
            is_last = threads.has_exited()
            try:
                grown += self._advance(threads)
            except ProcessGone:
                self.misses.note("a process was reaped by its parent before its last reading")
                is_last = True
            if is_last:
                self._drop(threads)
        if not self.processes and not grown:
            raise TargetGone
        return grown

    def _advance(self, threads: ProcessThreads) -> list[ThreadGrowth]:
        clock = self._clocks.get(threads)
        if clock is None:
            return threads.advance()
        # Read before the threads: what they are read to have run beyond it can only make less seem missing.
        clock_ns = read_process_clock(threads.pid)
        grown = threads.advance()
        if clock.advance(clock_ns, sum(row.by["oncpu_ns"] for row in grown)) and not threads.ended:
            self.misses.note("threads came and ended between two readings, and what they did is in no row")
        return grown

    def _drop(self, threads: ProcessThreads) -> None:
        """Follow a process no longer that is no more, and keep what was missing of it."""
        threads.close()
        self.processes.remove(threads)
        clock = self._clocks.pop(threads, None)
        self._missing_ns += 0 if clock is None else clock.missing_ns

    def fields(self) -> Mapping[str, int]:
        """Return `missing_ns`: at least so long ran, by the processes' own clocks, what is in no row."""
        return {"missing_ns": self._missing_ns + sum(clock.missing_ns for clock in self._clocks.values())}

    def make_rows(self, content: list[ThreadGrowth], at_ns: int) -> Rows:
        """Return a row for each thread."""
        if not content:
            return Rows()
        named: dict[str, list[Any]] = {"pid": [row.pid for row in content]}
        if self._wants["comm"]:
            named["comm"] = [row.comm for row in content]
        if self._wants["ppid"]:
            parents = {pid: find_parent(self.context.sysroot, pid) for pid in {row.pid for row in content}}
            named["ppid"] = [parents[row.pid] for row in content]
        keys: dict[str, list[Any]] = {"task": [row.tid for row in content], "proc": [row.key for row in content]}
        return Rows(keys, named | {name: list(amounts) for name, amounts in self.make_amounts(content).items()})


def _read_clock(pid: int) -> int:
    try:
        return read_process_clock(pid)
    except ProcessGone:
        raise MachineRefused(f"process {pid} ended before it could be read") from None
