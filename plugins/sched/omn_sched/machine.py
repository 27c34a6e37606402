"""sched.switches and sched.runqlen of the machine: ctxt, procs_running and procs_blocked of /proc/stat (proc(5))."""

from __future__ import annotations

from omn_kernel.counters import Account
from omn_kernel.polling import MachineFileCollector, Rows
from omn_kernel.procfs.machine import find_stat_counter

from omn_core.api import BoundTarget, MachineRefused


class MachineSwitches(MachineFileCollector):
    """One row a reading: switches of every cpu since the last one, those to and from the idle task among them."""

    path = "/proc/stat"

    def open_files(self, target: BoundTarget) -> None:
        """Open the file. Raises MachineRefused where the kernel writes no such line in it."""
        super().open_files(target)
        get_stat_counter(self.read(), "ctxt")
        self._account = Account("the machine", self.misses)

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return the switches since the last reading; none where the counter stepped back."""
        growth = self._account.advance({"ctxt": get_stat_counter(content, "ctxt")}, at_ns)
        return Rows() if growth is None else Rows.of_one({"switches": growth.by["ctxt"]})


class RunQueues(MachineFileCollector):
    """One row a reading: the tasks that run or are ready to, over all cpus, without the thread that reads."""

    reads_at_open = True
    path = "/proc/stat"

    def open_files(self, target: BoundTarget) -> None:
        """Open the file. Raises MachineRefused where the kernel writes no such line in it."""
        super().open_files(target)
        get_stat_counter(self.read(), "procs_running")

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return the tasks of this instant."""
        # The reader runs while it reads. Of captured files nobody is known to have run.
        others = get_stat_counter(content, "procs_running") - (self.context.sysroot in ("/", ""))
        return Rows.of_one({"length": max(others, 0), "blocked": find_stat_counter(content, "procs_blocked")})


def get_stat_counter(content: bytes, name: str) -> int:
    """Return a line of /proc/stat. Raises MachineRefused where the kernel writes none of that name."""
    counter = find_stat_counter(content, name)
    if counter is None:
        raise MachineRefused(f"/proc/stat here has no {name} line")
    return counter
