"""cpu.load: the kernel's decaying averages of running and uninterruptible tasks (/proc/loadavg, proc(5))."""

from __future__ import annotations

from omn_kernel.polled import PolledFile, place
from omn_kernel.procfs.machine import parse_loadavg

from omn_core.api import Batch, BoundTarget, CollectorBase, ResolvedRequest, RunContext


class Load(CollectorBase):
    """One row a reading: the averages stand for themselves, so the opening of the window is no baseline."""

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Open the file."""
        super().prepare(resolved, context)
        self._file = PolledFile(place(context.sysroot, "/proc/loadavg"))

    def attach(self, target: BoundTarget) -> None:
        """Do nothing: the target is the machine."""

    def sample(self, now_ns: int) -> Batch:  # noqa: ARG002  # the contract's signature
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

    def stop(self) -> Batch:
        """Let go of the file."""
        self._file.close()
        return Batch.empty()
