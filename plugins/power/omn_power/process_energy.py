"""power.process_energy: an estimate, the packages' energy by a process's share of the time that cpus were busy.

Nothing meters a process. Its cpu clock and all cpus' busy time (/proc/stat) are known over the interval in which the
meters counted, and the energy is divided by them, idle draw included.
"""

from __future__ import annotations

from collections.abc import Mapping

from omn_kernel.cpu_clock import CpuClock
from omn_kernel.cpus import CpuPresence
from omn_kernel.followed import Round
from omn_kernel.polling import Rows
from omn_kernel.processes import ProcessCounterCollector
from omn_kernel.procfs.machine import CPU_FIELDS, parse_cpu_ticks
from omn_kernel.procfs.task import TICK_NS
from omn_kernel.procfs.tree import Member
from omn_kernel.waited_time import read_waited_ns

from omn_core.api import BoundTarget
from omn_power.energy import Meters, get_packages

_AT_REST = tuple(CPU_FIELDS.index(name) for name in ("idle", "iowait", "steal"))

ESTIMATE = "by cpu time"
"""What every event says of itself."""


def compute_rest_ns(content: bytes) -> dict[int, int]:
    """Compute how long each cpu of /proc/stat has been at rest since boot: idle, waiting for storage, or taken away."""
    return {
        cpu: sum(ticks[place] for place in _AT_REST if place < len(ticks)) * TICK_NS
        for cpu, ticks in parse_cpu_ticks(content).items()
        if cpu is not None
    }


def compute_busy_ns(before: Mapping[int, int], after: Mapping[int, int], length_ns: int) -> int:
    """Compute how long the cpus of both readings were busy together, from how long each was at rest."""
    return sum(min(max(length_ns - (after[cpu] - before[cpu]), 0), length_ns) for cpu in after.keys() & before.keys())


class ProcessEnergy(ProcessCounterCollector):
    """A row for each process in each interval, every one an estimate.

    Where less busy time was counted than the target's processes ran (ticks of 10 ms are coarse), what they ran is
    taken for it, so that no share passes one.
    """

    def open_files(self, target: BoundTarget) -> None:
        """Follow the processes, and open the meters. Raises MachineRefused where there is none, or it is closed."""
        super().open_files(target)
        packages = get_packages(self.context.sysroot)
        self._meters = Meters(packages, lambda path: self.open_file(path, size=64), self.misses)
        self._stat = self.open_file("/proc/stat", many_records=True)
        self._rest: dict[int, int] | None = None
        self._presence = CpuPresence((), self.misses)

    def open_source(self, pid: int, tid: int | None) -> CpuClock:
        """Take the process's clock, every thread it ever had included."""
        return CpuClock(pid)

    def find_processes_root(self) -> str:
        """Find the machine's own: a clock is a system call and no file, and of captured processes there is none."""
        return "/"

    def add_waited(self, member: Member, row: Mapping[str, int]) -> Mapping[str, int]:
        """Return the process's time with that of the children it waited for."""
        return {"oncpu_ns": row["oncpu_ns"] + read_waited_ns(member, row["oncpu_ns"])}

    def read(self) -> Round[Mapping[str, int]]:
        """Read the meters and the machine right after the processes. Raises TargetGone when none is left."""
        processes = super().read()
        self._energy_uj = self._meters.read()
        self._rest_now = compute_rest_ns(self._stat.read())
        return processes

    def make_rows(self, content: Round[Mapping[str, int]], at_ns: int) -> Rows:
        """Return each process's part of what the meters counted since their last reading."""
        energy = self._meters.advance_together(self._energy_uj, at_ns)
        before, self._rest = self._rest, self._rest_now
        self._presence.observe(self._rest)
        grown = self.advance(content)
        if energy is None or before is None or not grown:
            return Rows()
        ran = sum(growth.by["oncpu_ns"] for growth in grown.values())
        busy_ns = max(compute_busy_ns(before, self._rest, energy.length_ns), ran)
        if not busy_ns:
            return Rows()
        keys, named = self.identify(list(grown))
        shares = [growth.by["oncpu_ns"] / busy_ns for growth in grown.values()]
        count = len(shares)
        return Rows(
            keys,
            {
                "joules": [energy.joules * share for share in shares],
                "share": shares,
                "package_joules": [energy.joules] * count,
                "oncpu_ns": [growth.by["oncpu_ns"] for growth in grown.values()],
                "busy_ns": [busy_ns] * count,
                "interval_ns": [energy.length_ns] * count,
                "estimate": [ESTIMATE] * count,
                **named,
            },
        )

    def facts(self) -> tuple[str, ...]:
        """Say that it is an estimate, and what is in doubt."""
        said = (
            "every figure is an estimate: nothing meters a process, so that the packages' energy, idle draw included, "
            "is divided by the time that cpus were busy"
        )
        return (*super().facts(), said, *self._meters.facts(), *self._presence.facts())
