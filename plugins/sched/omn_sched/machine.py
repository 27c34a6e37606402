"""sched.switches, sched.runqlen and sched.runqlat of the machine, from /proc/stat and /proc/schedstat (proc(5))."""

from __future__ import annotations

from omn_kernel.counters import Account, Accounts
from omn_kernel.cpus import CpuPresence
from omn_kernel.polling import MachineFileCollector, Rows
from omn_kernel.procfs.machine import find_stat_counter, parse_cpu_accounts

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


class CpuWaits(MachineFileCollector):
    """How long tasks waited on each cpu in each interval, and beside it how long they ran, in how many turns.

    One row, or a row for each cpu. A wait counts on the cpu that ends it.
    """

    path = "/proc/schedstat"
    many_records = True

    def open_files(self, target: BoundTarget) -> None:
        """Open the file."""
        super().open_files(target)
        self._presence = CpuPresence(target.cpus, self.misses)
        self._by_cpu = bool(target.cpus) or self.resolved.is_divided_by("cpu")
        self._accounts: Accounts[int] = Accounts(self.misses, lambda cpu: f"cpu {cpu}")

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return what each cpu counted since its last reading, or their sum."""
        found = parse_cpu_accounts(content)
        for cpu in self._presence.observe(found):
            if self._presence.is_wanted(cpu):
                self.misses.note(f"cpu {cpu} went offline, and what waited on it since its last reading is unknown")
        readings = {
            cpu: {"wait_ns": one.wait_ns, "slices": one.slices, "oncpu_ns": one.run_ns}
            for cpu, one in found.items()
            if self._presence.is_wanted(cpu)
        }
        grown = self._accounts.advance(readings, at_ns)
        if not grown:
            return Rows()
        columns = {name: [one.by[name] for one in grown.values()] for name in ("wait_ns", "slices", "oncpu_ns")}
        if self._by_cpu:
            return Rows({"cpu": list(grown)}, columns)
        return Rows.of_one({name: sum(amounts) for name, amounts in columns.items()})

    def facts(self) -> tuple[str, ...]:
        """Say which cpus came and went."""
        return self._presence.facts()


def get_stat_counter(content: bytes, name: str) -> int:
    """Return a line of /proc/stat. Raises MachineRefused where the kernel writes none of that name."""
    counter = find_stat_counter(content, name)
    if counter is None:
        raise MachineRefused(f"/proc/stat here has no {name} line")
    return counter
