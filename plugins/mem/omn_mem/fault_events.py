"""mem.faults through the kernel's software events: with all that a process starts, and of each cpu."""

from __future__ import annotations

from collections.abc import Mapping

from omn_kernel.perf.counters import CounterCollector
from omn_kernel.perf.sampling import SamplingCollector

from omn_core.api import BoundTarget
from omn_mem.processes import check_memory


class EventCollector(CounterCollector):
    """Faults, and those that were served without a device and with one.

    The kernel raises the first as a fault comes and one of the others as it is served: one that ends in a signal is in
    the first alone. What the kernel faults in on its own account (the arguments of an execve) is in none of them,
    where the counters of /proc have it among the minor ones.
    """

    events: Mapping[str, str] = {"faults": "sw:page-faults", "minor": "sw:minor-faults", "major": "sw:major-faults"}

    def open_files(self, target: BoundTarget) -> None:
        """Open the events. A kernel thread is refused."""
        check_memory(target, self.context.sysroot)
        super().open_files(target)


class FaultRecords(SamplingCollector):
    """Faults one by one, or one for so many: whose access, to which address (`addr`), from where in the code.

    Whether a device was waited for the kernel decides after it has written the record: that is in the counts alone.
    """

    event = "sw:page-faults"
    value = "faults"
    has_accesses = True

    def attach(self, target: BoundTarget) -> None:
        """Open the event. A kernel thread is refused."""
        check_memory(target, self.context.sysroot)
        super().attach(target)
