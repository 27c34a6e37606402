"""cpu.load: the kernel's decaying averages of running and uninterruptible tasks (/proc/loadavg, proc(5))."""

from __future__ import annotations

from omn_kernel.polled import PolledFile, place
from omn_kernel.procfs.machine import parse_loadavg

from omn_core.api import Batch, BoundTarget, ResolvedRequest, RunContext
from omn_cpu.accounts import AccountCollector


class Load(AccountCollector):
    """One row a reading: the averages stand for themselves, so that the window's opening is read like any tick."""

    reads_at_open = True

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Open the file."""
        super().prepare(resolved, context)
        self._file = PolledFile(place(context.sysroot, "/proc/loadavg"))
        self.files.callback(self._file.close)

    def attach(self, target: BoundTarget) -> None:
        """Do nothing: the target is the machine."""

    def sample(self, now_ns: int) -> Batch:  # the contract's signature
        """Return the averages and the tasks of this instant."""
        before = self.context.clock()
        load = parse_loadavg(self._file.read())
        return Batch.of_reading(
            (before, self.context.clock()),
            self.context.names,
            {},
            {
                "load1": [load.one_minute],
                "load5": [load.five_minutes],
                "load15": [load.fifteen_minutes],
                "runnable": [load.runnable],
                "entities": [load.tasks],
            },
        )
