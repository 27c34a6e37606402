"""proc.fd: the open descriptors of a process, together or by kind, and the limit they stand under."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import attrs
from omn_kernel.followed import Round
from omn_kernel.polling import Rows
from omn_kernel.processes import ProcessTreeCollector
from omn_kernel.procfs.process import ProcessFile, ProcessGone

from omn_core.api import BoundTarget, MachineRefused
from omn_proc.descriptor_table import DescriptorTable
from omn_proc.limit_table import OPEN_FILES, Limit, compute_used, parse_limits


@attrs.frozen
class Opened:
    """The descriptors of one or several processes by kind, and the limit of open files where that was read.

    A limit is one process's: of several, that of the one which is nearest to its own, whose descriptors are `fullest`.
    """

    kinds: Mapping[str | None, int]
    limit: Limit | None
    fullest: Mapping[str | None, int]

    @property
    def used(self) -> float:
        """The share of the limit that is in use, 0 where there is none."""
        return compute_used(self.limit or _UNKNOWN, sum(self.fullest.values())) or 0


_UNKNOWN = Limit(None, None, None)


class ProcessDescriptors:
    """What is read of one process: its descriptors, and its limits where the answer can show one."""

    name = "fd"

    def __init__(self, table: DescriptorTable, limits: ProcessFile | None) -> None:
        self._table = table
        self._limits = limits

    def read(self) -> Opened:
        """Read both. Raises ProcessGone at the process's end, MachineRefused where they are closed to this user."""
        limit = None if self._limits is None else parse_limits(self._limits.read()).get(OPEN_FILES)
        kinds = self._table.read()
        return Opened(kinds, limit, kinds)

    def close(self) -> None:
        """Let go of the limits."""
        if self._limits is not None:
            self._limits.close()


class Descriptors(ProcessTreeCollector[Opened]):
    """A row for all processes, for each of them, or for each kind of their descriptors.

    The kinds of one instant add up and those of several instants do not, so that a snapshot is always by kind and a
    poll only where it is asked to be.
    """

    reads_at_open = True

    def open_files(self, target: BoundTarget) -> None:
        """Follow the processes. Raises MachineRefused before anything runs where their descriptors are closed."""
        self._by_kind = self.resolved.mode == "snapshot" or self.resolved.is_divided_by("descriptor")
        self._wants_limit = any(self.resolved.shows(name) for name in ("limit", "hard_limit", "used"))
        super().open_files(target)
        for process in () if target.launched else self.followed.named:
            try:
                process.source.read()
            except ProcessGone as gone:
                raise MachineRefused(str(gone)) from None

    def add_up(self, rows: Sequence[Opened]) -> Opened:
        """Return what several processes have open together; one that they share is a descriptor of each."""
        nearest = max(rows, key=lambda row: row.used)
        kinds: Counter[str | None] = Counter()
        for row in rows:
            kinds.update(row.kinds)
        return Opened(kinds, nearest.limit, nearest.fullest)

    def open_source(self, pid: int, tid: int | None) -> ProcessDescriptors:
        """Open what is read of a process; threads share one table."""
        sysroot = self.context.sysroot
        limits = ProcessFile(sysroot, pid, "limits") if self._wants_limit else None
        return ProcessDescriptors(DescriptorTable(sysroot, pid, by_kind=self._by_kind), limits)

    def make_rows(self, content: Round[Opened], at_ns: int) -> Rows:
        """Return the rows of each process, or of all. Without a limit, or a known one, there is no share of it."""
        pairs = list(zip(content.processes, content.rows, strict=True))
        owners = [process for process, row in pairs for _ in row.kinds]
        keys, named = self.identify(owners)
        if self._by_kind:
            keys = {**keys, "descriptor": [kind for _, row in pairs for kind in row.kinds]}
        attributes = {"descriptors": [count for _, row in pairs for count in row.kinds.values()], **named}
        if self._wants_limit:
            counted = [(row.fullest.get(kind, 0), row.limit or _UNKNOWN) for _, row in pairs for kind in row.kinds]
            attributes["limit"] = [limit.soft for _, limit in counted]
            attributes["hard_limit"] = [limit.hard for _, limit in counted]
            attributes["used"] = [compute_used(limit, count) for count, limit in counted]
        return Rows(keys, attributes)
