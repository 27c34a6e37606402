"""mem.faults: page faults as the kernel counts them for a process, a thread, the machine. A count is no memory."""

from __future__ import annotations

from collections.abc import Mapping

from omn_kernel.counters import Account
from omn_kernel.followed import ParsedFile, Round
from omn_kernel.polling import MachineFileCollector, Rows
from omn_kernel.processes import ProcessCounterCollector
from omn_kernel.procfs.machine import parse_flat_keyed
from omn_kernel.procfs.process import ProcessFile
from omn_kernel.procfs.task import parse_faults
from omn_kernel.procfs.tree import Member

from omn_core.api import BoundTarget
from omn_mem.processes import check_memory


def parse_fault_counts(content: bytes) -> dict[str, int]:
    """Parse minor and major faults of a stat file, by the names of their attributes."""
    minor, major = parse_faults(content)
    return {"minor": minor, "major": major}


class StatCollector(ProcessCounterCollector):
    """Faults from /proc/<pid>/stat (every thread of the process, those that ended too) or a thread's own stat file.

    A launched program keeps its counters until it is reaped, so that its closing reading is whole. A process of
    someone else may be reaped first: what it did after the last reading is then a failed one.
    """

    def open_files(self, target: BoundTarget) -> None:
        """Follow the processes. A kernel thread is refused."""
        check_memory(target, self.context.sysroot)
        super().open_files(target)

    def open_source(self, pid: int, tid: int | None) -> ParsedFile[Mapping[str, int]]:
        """Open the stat file of a process, or of a thread."""
        return ParsedFile("stat", ProcessFile(self.context.sysroot, pid, "stat", tid=tid), parse_fault_counts)

    def add_waited(self, member: Member, row: Mapping[str, int]) -> Mapping[str, int]:
        """Return the process's faults with those of the children that it waited for."""
        stat = member.stat
        return {
            "minor": row["minor"] + stat.waited_minor_faults,
            "major": row["major"] + stat.waited_major_faults,
        }

    def make_rows(self, content: Round[Mapping[str, int]], at_ns: int) -> Rows:
        """Return the faults of each process, or of all, since its last reading."""
        grown = self.advance(content)
        if not grown:
            return Rows()
        keys, named = self.identify(list(grown))
        minor = [growth.by["minor"] for growth in grown.values()]
        major = [growth.by["major"] for growth in grown.values()]
        faults = [few + many for few, many in zip(major, minor, strict=True)]
        return Rows(keys, {"faults": faults, "minor": minor, "major": major, **named})


class VmstatCollector(MachineFileCollector):
    """Faults of the machine from /proc/vmstat: pgfault counts every one, pgmajfault those that waited for a device."""

    path = "/proc/vmstat"
    many_records = True

    def open_files(self, target: BoundTarget) -> None:
        """Open the file."""
        super().open_files(target)
        self._account = Account("the machine", self.misses)

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return the machine's faults since the last reading."""
        counters = parse_flat_keyed(content)
        growth = self._account.advance({name: counters[name.encode()] for name in ("pgfault", "pgmajfault")}, at_ns)
        if growth is None:
            return Rows()
        faults, major = growth.by["pgfault"], growth.by["pgmajfault"]
        # The two are summed over the cpus one after the other, so that the part may run ahead of the whole.
        return Rows.of_one({"faults": faults, "minor": max(faults - major, 0), "major": major})
