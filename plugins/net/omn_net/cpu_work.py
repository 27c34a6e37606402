"""net.backlog and net.softirq: what each cpu did with packets, from /proc/net/softnet_stat and /proc/softirqs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from omn_kernel.counters import Accounts, Growth
from omn_kernel.cpus import FOLDER, CpuPresence
from omn_kernel.polling import MachineFileCollector, Rows
from omn_kernel.procfs.interrupts import WRAP, parse_counts, parse_interrupts
from omn_kernel.procfs.net import SOFTNET_COUNTERS, SOFTNET_WRAP, parse_softnet
from omn_kernel.sysfs import parse_number_list

from omn_core.api import BoundTarget, MachineRefused

_LINES = {"rx": "NET_RX", "tx": "NET_TX"}


class CpuWork(MachineFileCollector, ABC):
    """A row for each cpu in each interval. One that never did any of it has none, unless the target names it.

    What a cpu did between its last reading and its going offline is a reading that gave nothing.
    """

    many_records = True
    wraps: Mapping[str, int]

    def open_files(self, target: BoundTarget) -> None:
        """Open the file, and an account for each cpu."""
        super().open_files(target)
        self._cpus = target.cpus
        self._presence = CpuPresence(target.cpus, self.misses)
        self._accounts: Accounts[int] = Accounts(self.misses, lambda cpu: f"cpu {cpu}", self.wraps)

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return the rows of each cpu that has an interval."""
        work = {cpu: counters for cpu, counters in self.parse(content).items() if self._presence.is_wanted(cpu)}
        for cpu in self._presence.observe(work):
            if not self._cpus:
                self.misses.note(f"cpu {cpu} went offline, and what it did since its last reading is in no row")
        counters = {cpu: {name: counts[name] for name in self.wraps if name in counts} for cpu, counts in work.items()}
        grown = self._accounts.advance(counters, at_ns)
        grown = {cpu: growth for cpu, growth in grown.items() if self._cpus or any(counters[cpu].values())}
        return self.make_cpu_rows(grown, work) if grown else Rows()

    def facts(self) -> tuple[str, ...]:
        """Say which cpus came and went."""
        return self._presence.facts()

    @abstractmethod
    def parse(self, content: bytes) -> Mapping[int, Mapping[str, int]]:
        """Parse the counters of each cpu, and levels that are not among `wraps`."""

    @abstractmethod
    def make_cpu_rows(self, grown: Mapping[int, Growth], work: Mapping[int, Mapping[str, int]]) -> Rows:
        """Make rows of what each cpu did, and of the reading itself, never of nothing."""


class Backlog(CpuWork):
    """net.backlog: packets that cpus took in, those for which the backlog had no room, and what waits in it."""

    path = "/proc/net/softnet_stat"
    wraps = dict.fromkeys(SOFTNET_COUNTERS.values(), SOFTNET_WRAP)

    def open_files(self, target: BoundTarget) -> None:
        """Open the file, and that of the cpus that are online. Raises MachineRefused where no line tells its cpu."""
        super().open_files(target)
        self._online = self.open_file(f"{FOLDER}/online")
        if not self.parse(self.read()):
            raise MachineRefused(f"{self.path} does not tell which cpu each line is of")

    def parse(self, content: bytes) -> Mapping[int, Mapping[str, int]]:
        """Parse the line of each cpu."""
        return parse_softnet(content, parse_number_list(self._online.read()))

    def make_cpu_rows(self, grown: Mapping[int, Growth], work: Mapping[int, Mapping[str, int]]) -> Rows:
        """Return what each cpu counted, and the packets that wait at its reading (Linux 5.10)."""
        columns = {name: [growth.by.get(name) for growth in grown.values()] for name in self.wraps}
        columns["backlog"] = [work[cpu].get("backlog") for cpu in grown]
        known = {name: column for name, column in columns.items() if any(value is not None for value in column)}
        return Rows({"cpu": list(grown)}, known)


class NetworkSoftInterrupts(CpuWork):
    """net.softirq: how often each cpu served packets received and sent, as deferred interrupt work."""

    path = "/proc/softirqs"
    wraps = dict.fromkeys(_LINES, WRAP)

    def open_files(self, target: BoundTarget) -> None:
        """Open the file."""
        super().open_files(target)
        self._by_direction = self.resolved.is_divided_by("dir")

    def parse(self, content: bytes) -> Mapping[int, Mapping[str, int]]:
        """Parse the two lines of the network."""
        table = parse_interrupts(content)
        counts = {way: parse_counts(table.lines[label], len(table.cpus)) for way, label in _LINES.items()}
        return {cpu: {way: column[place] for way, column in counts.items()} for place, cpu in enumerate(table.cpus)}

    def make_cpu_rows(self, grown: Mapping[int, Growth], work: Mapping[int, Mapping[str, int]]) -> Rows:
        """Return a row for each cpu, or for each direction of each."""
        if self._by_direction:
            rows = [(cpu, way, growth.by[way]) for cpu, growth in grown.items() for way in _LINES]
            cpus, ways, counts = zip(*rows, strict=True)
            return Rows({"cpu": cpus, "dir": ways}, {"softirqs": counts})
        parts = {f"{way}_softirqs": [growth.by[way] for growth in grown.values()] for way in _LINES}
        whole = [sum(growth.by.values()) for growth in grown.values()]
        return Rows({"cpu": list(grown)}, {"softirqs": whole, **parts})
