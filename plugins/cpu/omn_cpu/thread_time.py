"""cpu.oncpu_time through /proc/<pid>/task/<tid>/schedstat: the scheduler's nanoseconds of each thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omn_kernel.procfs.task import parse_schedstat
from omn_kernel.threads import Parse, ThreadCollector, ThreadGrowth


class ThreadTime(ThreadCollector):
    """A row for each thread at each reading, those that did not run included."""

    def list_parts(self) -> Mapping[str, Parse]:
        """Read each thread's schedstat."""
        return {"schedstat": _parse_run}

    def make_amounts(self, grown: Sequence[ThreadGrowth]) -> Mapping[str, Sequence[int]]:
        """Return what each ran."""
        return {"oncpu_ns": [row.by["oncpu_ns"] for row in grown]}


def _parse_run(content: bytes) -> Mapping[str, int]:
    return {"oncpu_ns": parse_schedstat(content).run_ns}
