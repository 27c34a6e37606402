"""proc.fork of the machine: the `processes` line of /proc/stat (proc(5)), which counts every task ever made."""

from __future__ import annotations

from omn_kernel.counters import Account
from omn_kernel.polling import MachineFileCollector, Rows
from omn_kernel.procfs.machine import find_stat_counter

from omn_core.api import BoundTarget, MachineRefused


class Forks(MachineFileCollector):
    """One row a reading: tasks made since the last one, in every pid namespace, threads among them."""

    path = "/proc/stat"

    def open_files(self, target: BoundTarget) -> None:
        """Open the file. Raises MachineRefused where the kernel writes no such line in it."""
        super().open_files(target)
        if find_stat_counter(self.read(), "processes") is None:
            raise MachineRefused("/proc/stat here has no processes line, so that nothing counts forks")
        self._account = Account("the machine", self.misses)

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return the tasks made since the last reading; none where the counter stepped back or its line is gone."""
        made = find_stat_counter(content, "processes")
        if made is None:
            self.misses.note("/proc/stat was read without its processes line")
            return Rows()
        growth = self._account.advance({"processes": made}, at_ns)
        return Rows() if growth is None else Rows.of_one({"forks": growth.by["processes"]})
