"""cpu.oncpu_time through /proc/<pid>/task/<tid>/schedstat: the scheduler's nanoseconds of each thread, read one by one.

What a thread ran between its last reading and its end is in no file any more. The process's own clock keeps it in its
sum, so how much is missing is known, and it is said; whose it was is not, and nothing is made up for it.
"""

from __future__ import annotations

import attrs
from omn_kernel.counters import Misses
from omn_kernel.cpu_clock import read_process_clock
from omn_kernel.polled import PolledFile, place
from omn_kernel.polling import PolledCollector, Rows
from omn_kernel.procfs.process import ProcessGone, find_comm, find_folder, find_parent, find_process_key, list_threads
from omn_kernel.procfs.task import parse_schedstat

from omn_core.api import BoundTarget, MachineRefused, ProcessHandle, TargetGone

_KEPT_FILES = 512
"""How many threads' files stay open; those of further ones are opened for each reading."""

_GONE = (FileNotFoundError, ProcessLookupError)


@attrs.define(eq=False)
class Thread:
    """One thread: what it had run when last read, its name then, and its open file if it keeps one."""

    tid: int
    run_ns: int
    comm: bytes | None = None
    file: PolledFile | None = None


@attrs.frozen
class Ran:
    """What one thread ran in one interval."""

    pid: int
    key: str | None
    tid: int
    comm: bytes | None
    oncpu_ns: int


class Process:
    """The threads of one process, followed as they come and go."""

    def __init__(
        self, handle: ProcessHandle, tid: int | None, sysroot: str, misses: Misses, *, wants_comm: bool
    ) -> None:
        self.pid = handle.pid
        self.key = find_process_key(sysroot, handle.pid)
        self.missing_ns = 0
        self._wants_comm = wants_comm
        self._tid = tid
        self._sysroot = sysroot
        self._misses = misses
        self._threads: dict[int, Thread] = {}
        self._kept = 0
        self._ended = 0
        self._counted_ns = 0
        for each in self._list():
            run_ns = self._read(each)
            if run_ns is not None:
                self._threads[each].run_ns = run_ns
        self._base_ns = read_process_clock(self.pid)

    def advance(self) -> list[Ran]:
        """Return what each thread ran since the last reading. Raises ProcessGone when the process is no more."""
        # Read before the threads: what they are read to have run beyond it can only make less seem missing.
        clock_ns = read_process_clock(self.pid)
        self._ended = 0
        ran: list[Ran] = []
        seen: set[int] = set()
        for tid in self._list():
            run_ns = self._read(tid)
            if run_ns is not None:
                seen.add(tid)
                ran += self._advance_thread(self._threads[tid], run_ns)
        for tid in self._threads.keys() - seen:
            self._end(tid)
        self._account(clock_ns, sum(row.oncpu_ns for row in ran))
        return ran

    def close(self) -> None:
        """Let go of every file."""
        for tid in list(self._threads):
            self._forget(tid)

    def _list(self) -> list[int]:
        threads = list_threads(self._sysroot, self.pid)
        return threads if self._tid is None else [tid for tid in threads if tid == self._tid]

    def _advance_thread(self, thread: Thread, run_ns: int) -> list[Ran]:
        """Return the thread's row, and none where its number passed to another: by reuse, or by an execve in it."""
        grown, thread.run_ns = run_ns - thread.run_ns, run_ns
        if grown < 0:
            self._misses.note("a thread's number passed to another, and what either ran since the last is unknown")
            return []
        if self._wants_comm and (grown or thread.comm is None):
            thread.comm = find_comm(self._sysroot, self.pid, thread.tid)
        return [Ran(self.pid, self.key, thread.tid, thread.comm, grown)]

    def _read(self, tid: int) -> int | None:
        """Read what a thread has run, None where it ended. One that is new is followed from zero."""
        known = self._threads.get(tid)
        if known is not None and known.file is not None:
            try:
                return parse_schedstat(known.file.read()).run_ns
            except _GONE:
                self._end(tid)  # another may have taken its number, whose file is another
        try:
            file = PolledFile(place(self._sysroot, f"{find_folder(self.pid, tid)}/schedstat"), size=128)
            run_ns = parse_schedstat(file.read()).run_ns
        except _GONE:
            return None
        thread = self._threads.setdefault(tid, Thread(tid, 0))
        if self._kept < _KEPT_FILES:
            thread.file, self._kept = file, self._kept + 1
        else:
            file.close()
        return run_ns

    def _end(self, tid: int) -> None:
        """Let a thread go whose last interval went with it."""
        self._ended += 1
        self._misses.note("a thread ended between two readings, and what it ran since the last is in no row")
        self._forget(tid)

    def _forget(self, tid: int) -> None:
        thread = self._threads.pop(tid)
        if thread.file is not None:
            thread.file.close()
            self._kept -= 1

    def _account(self, clock_ns: int, ran_ns: int) -> None:
        """Hold what the threads were read to have run against the process's clock."""
        if self._tid is not None:
            return
        self._counted_ns += ran_ns
        missing_ns = max(clock_ns - self._base_ns - self._counted_ns, 0)
        if missing_ns > self.missing_ns and not self._ended:
            self._misses.note("threads came and ended between two readings, and what they ran is in no row")
        self.missing_ns = max(missing_ns, self.missing_ns)


class ThreadTime(PolledCollector[list[Ran]]):
    """A row for each thread at each reading, those that did not run included."""

    def open_files(self, target: BoundTarget) -> None:
        """Read the baseline of each thread there is: of a launched program, its first."""
        self._missing_ns = 0
        self._processes: list[Process] = []
        wants_comm = self.resolved.shows("comm")
        for handle in target.processes:
            try:
                process = Process(handle, target.tid, self.context.sysroot, self.misses, wants_comm=wants_comm)
            except ProcessGone:
                raise MachineRefused(f"process {handle.pid} ended before it could be read") from None
            self._processes.append(self.hold(process))

    def read_baseline(self) -> None:
        """Do nothing: each thread's is read where its process is opened."""

    def read(self) -> list[Ran]:
        """Return what each thread ran since it was last read. Raises TargetGone when no process is left."""
        ran: list[Ran] = []
        for process in list(self._processes):
            try:
                ran += process.advance()
            except ProcessGone:
                self.misses.note("a process was reaped before what it last ran could be read")
                self._drop(process)
        if not self._processes:
            raise TargetGone
        return ran

    def make_rows(self, content: list[Ran], at_ns: int) -> Rows:
        """Return a row for each thread."""
        named: dict[str, list[int | bytes | None]] = {"pid": [row.pid for row in content]}
        if self.resolved.shows("comm"):
            named["comm"] = [row.comm for row in content]
        if self.resolved.shows("ppid"):
            parents = {pid: find_parent(self.context.sysroot, pid) for pid in {row.pid for row in content}}
            named["ppid"] = [parents[row.pid] for row in content]
        return Rows(
            {"task": [row.tid for row in content], "proc": [row.key for row in content]},
            {"oncpu_ns": [row.oncpu_ns for row in content], **named},
        )

    def fields(self) -> dict[str, int]:
        """Return `missing_ns`: at least so much ran, by the processes' own clocks, that is in no row."""
        return {"missing_ns": self._missing_ns + sum(process.missing_ns for process in self._processes)}

    def _drop(self, process: Process) -> None:
        self._missing_ns += process.missing_ns
        process.close()
        self._processes.remove(process)
