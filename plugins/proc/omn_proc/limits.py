"""proc.limits: each resource limit of a process, and how much of it is in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from omn_kernel.followed import Followed, Round
from omn_kernel.polling import Rows
from omn_kernel.processes import ProcessCollector
from omn_kernel.procfs.process import ProcessFile
from omn_kernel.procfs.task import parse_stat

from omn_core.api import BoundTarget, MachineRefused
from omn_proc.descriptor_table import DescriptorTable
from omn_proc.limit_table import OPEN_FILES, Limit, compute_used, find_nearest, parse_limits, parse_uses


@attrs.frozen
class Bounds:
    """A process's limits and what it uses of them; `is_closed` where this user may not count its descriptors."""

    limits: Mapping[str, Limit]
    uses: Mapping[str, int]
    is_closed: bool = False


class ProcessLimits:
    """What is read of one process: limits, status, stat, and the number of its descriptors."""

    name = "limits"

    def __init__(self, sysroot: str, pid: int) -> None:
        self._limits, self._status, self._stat = (
            ProcessFile(sysroot, pid, name) for name in ("limits", "status", "stat")
        )
        self._descriptors = DescriptorTable(sysroot, pid, by_kind=False)

    def read(self) -> Bounds | None:
        """Read all four; None for a zombie, which keeps limits and uses nothing. Raises ProcessGone at the end."""
        status, stat = self._status.read(), self._stat.read()
        if parse_stat(stat).process_has_ended:
            return None
        limits, uses = parse_limits(self._limits.read()), parse_uses(status, stat)
        try:
            descriptors = self._descriptors.read()
        except MachineRefused:
            return Bounds(limits, uses, is_closed=True)
        return Bounds(limits, {**uses, OPEN_FILES: sum(descriptors.values())})

    def close(self) -> None:
        """Let go of the files."""
        for file in (self._limits, self._status, self._stat):
            file.close()


class Limits(ProcessCollector[Bounds]):
    """A row for each resource of each process; polled and not divided by it, the one that is nearest to its limit."""

    reads_at_open = True

    def open_files(self, target: BoundTarget) -> None:
        """Follow the processes."""
        self._is_whole = self.resolved.mode == "snapshot" or self.resolved.is_divided_by("resource")
        self._closed: dict[int, None] = {}
        super().open_files(target)

    def open_source(self, pid: int, tid: int | None) -> ProcessLimits:
        """Open what is read of a process; its threads share its limits."""
        return ProcessLimits(self.context.sysroot, pid)

    def make_rows(self, content: Round[Bounds], at_ns: int) -> Rows:
        """Return the rows: without `used` where the kernel tells no use, without a bound where there is none."""
        rows: list[tuple[Followed[Bounds], str, Bounds]] = []
        for process, bounds in zip(content.processes, content.rows, strict=True):
            if bounds.is_closed:
                self._closed[process.pid] = None
            rows += [(process, name, bounds) for name in self._select(bounds)]
        if not rows:
            return Rows()
        keys, named = self.identify([process for process, _, _ in rows])
        columns = _make_columns([(bounds.limits[name], bounds.uses.get(name)) for _, name, bounds in rows])
        return Rows({**keys, "resource": [name for _, name, _ in rows]}, {**columns, **named})

    def _select(self, bounds: Bounds) -> Sequence[str]:
        if self._is_whole:
            return list(bounds.limits)
        nearest = find_nearest(bounds.limits, bounds.uses)
        return [] if nearest is None else [nearest]

    def degradations(self) -> tuple[str, ...]:
        """Say whose descriptors could not be counted."""
        if not self._closed:
            return ()
        listed = ", ".join(map(str, self._closed))
        return (
            f"the descriptors of process {listed} are closed to this user, so that its use of open files is unknown",
        )


def _make_columns(rows: Sequence[tuple[Limit, int | None]]) -> dict[str, list[Any]]:
    return {
        "used": [compute_used(limit, in_use) for limit, in_use in rows],
        "in_use": [in_use for _, in_use in rows],
        "soft": [limit.soft for limit, _ in rows],
        "hard": [limit.hard for limit, _ in rows],
        "measured_in": [limit.unit for limit, _ in rows],
    }
