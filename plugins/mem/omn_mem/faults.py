"""mem.faults: page faults as the kernel counts them for a process, a thread, the machine. A count is no memory."""

from __future__ import annotations

from omn_kernel.counters import Counters
from omn_kernel.polled import PolledFile, place
from omn_kernel.procfs.machine import parse_flat_keyed
from omn_kernel.procfs.process import ProcessFile
from omn_kernel.procfs.task import ENDED

from omn_core.api import Batch, BoundTarget, CollectorBase, Column, Losses, MachineRefused, TargetGone
from omn_mem.processes import FollowedProcesses, Round, is_asked

_ENDED = frozenset(state.encode() for state in ENDED)
_Faults = tuple[int, int, bool]


def parse_fault_counts(content: bytes) -> _Faults:
    """Parse minor and major faults of a stat file (fields 10 and 12), and whether the task has ended (field 3)."""
    fields = content[content.rindex(b")") + 2 :].split(b" ", 10)
    return int(fields[7]), int(fields[9]), fields[0] in _ENDED


class StatCollector(CollectorBase):
    """Faults from /proc/<pid>/stat (every thread of the process, those that ended too) or a thread's own stat file.

    A launched program keeps its counters until it is reaped, so that its closing reading is whole. A process of
    someone else may be reaped first: what it did after the last reading is then not known, and said.
    """

    def attach(self, target: BoundTarget) -> None:
        """Read the counters as they stand before the program runs."""
        self._wants_comm = is_asked(self.resolved, "comm")
        self._unread = 0
        self._followed: FollowedProcesses[_Faults] = FollowedProcesses(target, self.context, "stat", parse_fault_counts)
        try:
            baseline = self._followed.read()
        except TargetGone:
            raise MachineRefused("the process has ended") from None
        self._before = Counters(self._flatten(baseline))
        self._count = len(baseline.files)

    @staticmethod
    def _flatten(reading: Round[_Faults]) -> dict[tuple[ProcessFile, int], int]:
        return {
            (file, which): row[which] for file, row in zip(reading.files, reading.rows, strict=True) for which in (0, 1)
        }

    def sample(self, now_ns: int) -> Batch:
        """Return the faults of each process since the last reading. Raises TargetGone when none is left."""
        followed = self._followed
        try:
            reading = followed.read()
        finally:
            self._note_unread()
        grown = self._before.advance(self._flatten(reading))
        files = [file for file in reading.files if (file, 0) in grown]
        if not files:
            return Batch.empty()
        minor = [grown[file, 0] for file in files]
        major = [grown[file, 1] for file in files]
        names = self.context.names
        attributes = {
            "faults": Column.of([few + many for few, many in zip(major, minor, strict=True)], names),
            "minor": Column.of(minor, names),
            "major": Column.of(major, names),
            "pid": Column.of([file.pid for file in files], names),
        }
        if self._wants_comm:
            attributes["comm"] = Column.of(followed.read_comms(files), names)
        batch = Batch.of_reading(reading.span, names, followed.keys_of(files), attributes)
        self._drop_ended(reading)
        return batch

    def _note_unread(self) -> None:
        """Count the processes that were reaped before this reading."""
        left = len(self._followed)
        self._unread += self._count - left
        self._count = left

    def _drop_ended(self, reading: Round[_Faults]) -> None:
        """Follow a zombie no longer once its last counters are read."""
        ended = [file for file, row in zip(reading.files, reading.rows, strict=True) if row[2]]
        if ended:
            self._followed.forget(ended)
            self._count = len(self._followed)

    def stop(self) -> Batch:
        """Close the files."""
        self._followed.close()
        return Batch.empty()

    def losses(self) -> Losses:
        """Return failed reads; for a closing count, also the processes that were reaped before it."""
        failed = self._followed.losses()
        if self.resolved.mode != "count" or not self._unread:
            return failed
        reason = "a process was reaped by its parent before its closing reading"
        return Losses(failed_reads=failed.failed_reads + self._unread, reasons=(*failed.reasons, reason))

    def facts(self) -> tuple[str, ...]:
        """Say that counters stepped back, or that a process ended between two readings."""
        facts = self._before.facts()
        if self._unread and self.resolved.mode != "count":
            facts += ("a process ended between two readings; its faults after the first of them are not in this",)
        return facts


class VmstatCollector(CollectorBase):
    """Faults of the machine from /proc/vmstat: pgfault counts every one, pgmajfault those that waited for a device."""

    def attach(self, target: BoundTarget) -> None:
        """Read the counters as they stand."""
        self._file = PolledFile(place(self.context.sysroot, "/proc/vmstat"), many_records=True)
        self._before = Counters(self._read())

    def _read(self) -> dict[bytes, int]:
        counters = parse_flat_keyed(self._file.read())
        return {name: counters[name] for name in (b"pgfault", b"pgmajfault")}

    def sample(self, now_ns: int) -> Batch:
        """Return the machine's faults since the last reading."""
        before = self.context.clock()
        grown = self._before.advance(self._read())
        span = (before, self.context.clock())
        faults, major = grown[b"pgfault"], grown[b"pgmajfault"]
        # The two are summed over the cpus one after the other, so that the part may run ahead of the whole.
        attributes = {"faults": [faults], "minor": [max(faults - major, 0)], "major": [major]}
        return Batch.of_reading(span, self.context.names, {}, attributes)

    def stop(self) -> Batch:
        """Close the file."""
        self._file.close()
        return Batch.empty()

    def facts(self) -> tuple[str, ...]:
        """Say that a counter stepped back, if one did."""
        return self._before.facts()
