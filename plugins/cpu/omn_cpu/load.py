"""cpu.load: the kernel's decaying averages of running and uninterruptible tasks (/proc/loadavg, proc(5))."""

from __future__ import annotations

from omn_kernel.polling import MachineFileCollector, Rows
from omn_kernel.procfs.machine import parse_loadavg


class Load(MachineFileCollector):
    """One row a reading: the averages stand for themselves, so that the window's opening is read like any tick."""

    reads_at_open = True
    path = "/proc/loadavg"

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return the averages and the tasks of this instant."""
        load = parse_loadavg(content)
        return Rows.of_one(
            {
                "load1": load.one_minute,
                "load5": load.five_minutes,
                "load15": load.fifteen_minutes,
                "runnable": load.runnable,
                "entities": load.tasks,
            }
        )
