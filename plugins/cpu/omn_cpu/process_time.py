"""cpu.util of processes and of a thread: cpu time over time, in cpus."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping

from omn_kernel.cpu_clock import CpuClock
from omn_kernel.followed import ParsedFile, Round
from omn_kernel.polling import Rows
from omn_kernel.processes import ProcessCounterCollector
from omn_kernel.procfs.process import ProcessFile
from omn_kernel.procfs.task import TICK_NS, parse_schedstat, parse_stat
from omn_kernel.procfs.tree import Member
from omn_kernel.waited_time import read_waited_ns

from omn_cpu.shares import compute_shares

Counters = Mapping[str, int]
"""`oncpu_ns`, and what else it is divided into, nanoseconds."""


class ProcessTime(ProcessCounterCollector, ABC):
    """The cpu time of the target's processes and of those they start over the time since they were last read."""

    def make_rows(self, content: Round[Counters], at_ns: int) -> Rows:
        """Return a row for each process, or one for all."""
        grown = self.advance(content)
        if not grown:
            return Rows()
        keys, named = self.identify(list(grown))
        shares = [compute_shares(growth) for growth in grown.values()]
        return Rows(keys, {name: [row[name] for row in shares] for name in shares[0]} | named)


class ProcessClock(ProcessTime):
    """The scheduler's own nanoseconds: the process's cpu clock, every thread it ever had included."""

    def open_source(self, pid: int, tid: int | None) -> CpuClock:
        """Take the process's clock; a thread of another process has none that can be read."""
        return CpuClock(pid)

    def find_processes_root(self) -> str:
        """Find the machine's own: a clock is a system call and no file, and of captured processes there is none."""
        return "/"

    def add_waited(self, member: Member, row: Counters) -> Counters:
        """Return the process's time with that of the children it waited for."""
        return {"oncpu_ns": row["oncpu_ns"] + read_waited_ns(member, row["oncpu_ns"])}


class ThreadSchedstat(ProcessTime):
    """The scheduler's own nanoseconds of one thread: /proc/<pid>/task/<tid>/schedstat."""

    def open_source(self, pid: int, tid: int | None) -> ParsedFile[Counters]:
        """Open the thread's file."""
        return ParsedFile("schedstat", ProcessFile(self.context.sysroot, pid, "schedstat", tid=tid), _parse_schedstat)


class ProcessTicks(ProcessTime):
    """utime and stime of /proc/<pid>/stat, whole clock ticks, for kernels and places without the others."""

    def open_source(self, pid: int, tid: int | None) -> ParsedFile[Counters]:
        """Open the process's file, or the thread's."""
        return ParsedFile("stat", ProcessFile(self.context.sysroot, pid, "stat", tid=tid), _parse_ticks)

    def add_waited(self, member: Member, row: Counters) -> Counters:
        """Return the process's time with that of the children it waited for."""
        user_ns = row["user_ns"] + member.stat.waited_user_ticks * TICK_NS
        system_ns = row["system_ns"] + member.stat.waited_system_ticks * TICK_NS
        return {"oncpu_ns": user_ns + system_ns, "user_ns": user_ns, "system_ns": system_ns}


def _parse_schedstat(content: bytes) -> Counters:
    return {"oncpu_ns": parse_schedstat(content).run_ns}


def _parse_ticks(content: bytes) -> Counters:
    stat = parse_stat(content)
    user_ns, system_ns = stat.user_ticks * TICK_NS, stat.system_ticks * TICK_NS
    return {"oncpu_ns": user_ns + system_ns, "user_ns": user_ns, "system_ns": system_ns}
