"""power.cstate by a program on cpu_idle: each period summed where it ends, as cpuidle's own files do."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from omn_kernel.bpf.collecting import ProgramCollector
from omn_kernel.counters import Accounts, Growth, Misses
from omn_kernel.cpus import CpuPresence
from omn_kernel.sysfs import read_cpus

from omn_core.api import Batch, BoundTarget, Losses, MachineRefused
from omn_power.idle_states import ResidencyRows, read_state_names
from omn_power.programs.cstate import STATES, IdlePeriods


class IdleSums(ProgramCollector):
    """A row for each cpu and each state that is asked for; what is not told apart is one row of all together."""

    _unknown = 0

    def open_maps(self) -> None:
        """Open the sums."""
        self._periods = self.hold(IdlePeriods())
        self._misses = Misses()

    def write_programs(self, target: BoundTarget) -> None:
        """Load the program. Raises MachineRefused for a cpu that is offline."""
        self._possible = list(read_cpus("/", "possible"))
        online = read_cpus("/", "online")
        if offline := [str(cpu) for cpu in target.cpus if cpu not in online]:
            raise MachineRefused(f"cpu {', '.join(offline)} is offline, and idles in no state")
        self._presence = CpuPresence(target.cpus, self._misses)
        self._accounts: Accounts[int] = Accounts(self._misses, lambda cpu: f"cpu {cpu}")
        self._names = {cpu: name_states(cpu) for cpu in self._possible}
        self._rows = ResidencyRows(self.resolved, target, ns_per_unit=1)
        self.load_event("cpu_idle", self._periods.write)

    def attach(self, target: BoundTarget) -> None:
        """Attach, and read the baseline."""
        super().attach(target)
        self._advance()

    def sample(self, now_ns: int) -> Batch:
        """Read what ended since the last time."""
        before = self.context.clock()
        grown = self._advance()
        if not grown:
            return Batch.empty()
        rows = self._rows.make(grown, self._names)
        return Batch.of_reading((before, self.context.clock()), self.context.names, rows.keys, rows.attributes)

    def _advance(self) -> dict[int, Growth]:
        sums, at_ns = self._periods.sums.read().values, self.context.clock()
        online = read_cpus("/", "online")
        for cpu in self._presence.observe(online):
            self._misses.note(f"cpu {cpu} went offline, and when it idled since its last reading is unknown")
        readings = {cpu: self._read_cpu(sums, cpu) for cpu in online if self._presence.is_wanted(cpu)}
        return self._accounts.advance(readings, at_ns)

    def _read_cpu(self, sums: np.ndarray[tuple[int, ...], np.dtype[np.void]], cpu: int) -> dict[str, int]:
        own = sums[:, self._possible.index(cpu)]
        return {
            f"{folder}/{file}": int(own[name][int(folder.removeprefix("cpuidle/state"))])
            for folder in self._names[cpu]
            for file, name in (("time", "time_ns"), ("usage", "entries"))
        }

    def detach(self) -> None:
        """Detach the program, and keep how many periods ended that were not seen to begin."""
        super().detach()
        self._unknown = self._periods.unknown.read_count()

    def losses(self) -> Losses:
        """Return the runs that the kernel passed over, and the cpus that were not there to be read."""
        return self.add_missed(self._misses.to_losses())

    def fields(self) -> Mapping[str, int]:
        """Return how many periods had begun before, and in how many intervals a cpu's were longer than these."""
        return {**super().fields(), **self._rows.fields(), "begun_before": self._unknown}

    def facts(self) -> tuple[str, ...]:
        """Say which cpus came and went, and that idle periods were credited late."""
        return (*self._presence.facts(), *self._rows.facts(), *super().facts())


def name_states(cpu: int) -> dict[str, str]:
    """Name a cpu's states by their folders, as cpuidle does; those of a cpu without it by their numbers."""
    named = read_state_names("/", cpu)
    return named or {f"cpuidle/state{number}": f"state {number}" for number in range(STATES)}
