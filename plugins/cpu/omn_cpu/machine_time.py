"""cpu.util and cpu.steal of the machine and of its cpus: the cpu lines of /proc/stat (proc(5)), in clock ticks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from omn_kernel.cpus import CpuPresence
from omn_kernel.polling import MachineFileCollector, Rows
from omn_kernel.procfs.machine import CPU_FIELDS, parse_cpu_ticks
from omn_kernel.procfs.task import TICK_NS

from omn_core.api import BoundTarget

_RUNNING = ("user", "nice", "system", "irq", "softirq")


@attrs.frozen
class CpuTime:
    """Ticks of one cpu, or of several together, in one interval, and how long that was.

    `idle` and `iowait` are None where the kernel moved time from one to the other in the interval, as it does while a
    cpu sleeps: their sum stands in `waiting`.
    """

    length_ns: int
    fields: Mapping[str, int]
    waiting: int
    idle: int | None
    iowait: int | None

    @property
    def whole(self) -> int:
        """All ticks of the interval, guest time counted once: the kernel keeps it in user and nice too."""
        return sum(self.fields.get(name, 0) for name in (*_RUNNING, "steal")) + self.waiting

    def compute_shares(self) -> dict[str, float | None]:
        """Return the share of each field, and `util`, the share in which something ran."""
        whole = self.whole
        shares: dict[str, float | None] = {
            name: self.fields[name] / whole for name in (*_RUNNING, "steal") if name in self.fields
        }
        for name, ticks in (("idle", self.idle), ("iowait", self.iowait)):
            shares[name] = None if ticks is None else ticks / whole
        if "guest" in self.fields:
            shares["guest"] = (self.fields["guest"] + self.fields.get("guest_nice", 0)) / whole
        shares["util"] = sum(self.fields.get(name, 0) for name in _RUNNING) / whole
        return shares


def compute_cpu_time(before: Sequence[int], after: Sequence[int], length_ns: int) -> CpuTime | str:
    """Return what one cpu did between two readings, or the name of a counter that stepped back.

    Time may pass between idle and iowait in either direction; their sum may not shrink.
    """
    grown = {name: now - then for name, then, now in zip(CPU_FIELDS, before, after, strict=False)}
    waiting = grown.get("idle", 0) + grown.get("iowait", 0)
    for name, ticks in {**grown, "idle": waiting, "iowait": waiting}.items():
        if ticks < 0:
            return name
    is_split = min(grown.get("idle", 0), grown.get("iowait", 0)) >= 0
    return CpuTime(
        length_ns,
        grown,
        waiting,
        grown.get("idle") if is_split else None,
        grown.get("iowait") if is_split else None,
    )


def compute_sum(times: Sequence[CpuTime]) -> CpuTime:
    """Return several cpus' time of one interval as one. What is unknown of one is unknown of the sum."""
    names = [name for name in CPU_FIELDS if all(name in time.fields for time in times)]
    idle = [time.idle for time in times]
    iowait = [time.iowait for time in times]
    return CpuTime(
        max(time.length_ns for time in times),
        {name: sum(time.fields[name] for time in times) for name in names},
        sum(time.waiting for time in times),
        None if None in idle else sum(ticks for ticks in idle if ticks is not None),
        None if None in iowait else sum(ticks for ticks in iowait if ticks is not None),
    )


class MachineTime(MachineFileCollector):
    """The cpu lines read at each tick, the machine's figure made of its cpus' own.

    The line of all cpus is not read: a cpu that goes offline in between takes its ticks out of it, and others' time
    would be mixed with that. A cpu that comes or goes has no interval until it has been read twice; one that the
    target names, and that is gone, is a reading that gave nothing.
    """

    path = "/proc/stat"

    def open_files(self, target: BoundTarget) -> None:
        """Open the file."""
        super().open_files(target)
        self.presence = CpuPresence(target.cpus, self.misses)
        self._is_whole = not target.cpus
        self._by_cpu = bool(target.cpus) or "cpu" in self.resolved.keys
        self._last: dict[int, tuple[tuple[int, ...], int]] = {}

    def read_baseline(self) -> None:
        """Read each cpu as it stands: those that come later are said to have come."""
        lines, at_ns = self._select(self.read()), self.context.clock()
        self._last = {cpu: (ticks, at_ns) for cpu, ticks in lines.items()}
        self.presence.observe(lines)

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return what each cpu did since it was last read, or one row of all together."""
        times = self._advance(self._select(content), at_ns)
        if not times:
            return Rows()
        rows = list(times.values()) if self._by_cpu else [compute_sum(list(times.values()))]
        columns = self.make_columns(rows)
        known = {name: values for name, values in columns.items() if any(value is not None for value in values)}
        lengths = [row.length_ns for row in rows]
        return Rows({"cpu": list(times)} if self._by_cpu else {}, {**known, "interval_ns": lengths})

    def make_columns(self, rows: Sequence[CpuTime]) -> dict[str, list[float | None]]:
        """Return the attributes of some rows: shares of each cpu's time in the interval."""
        shares = [row.compute_shares() for row in rows]
        return {name: [share.get(name) for share in shares] for name in shares[0]}

    def note_offline(self, cpu: int) -> None:
        """Do nothing: a share is of the cpus that are left."""

    def facts(self) -> tuple[str, ...]:
        """Say which cpus came and went."""
        return self.presence.facts()

    def _select(self, content: bytes) -> dict[int, tuple[int, ...]]:
        lines = parse_cpu_ticks(content)
        return {cpu: ticks for cpu, ticks in lines.items() if cpu is not None and self.presence.is_wanted(cpu)}

    def _advance(self, reading: Mapping[int, tuple[int, ...]], at_ns: int) -> dict[int, CpuTime]:
        times: dict[int, CpuTime] = {}
        for cpu in self.presence.observe(reading):
            del self._last[cpu]
            self.note_offline(cpu)
        for cpu, ticks in reading.items():
            if cpu not in self._last:
                self._last[cpu] = (ticks, at_ns)
                continue
            then, then_ns = self._last[cpu]
            time = compute_cpu_time(then, ticks, max(at_ns - then_ns, 1))
            if isinstance(time, str):
                self.misses.note_step_back(f"{time} ticks", f"cpu {cpu}")
            elif time.whole == 0:
                continue  # no tick has passed on it: the next reading's interval begins where this one's did
            else:
                times[cpu] = time
            self._last[cpu] = (ticks, at_ns)
        return times


class MachineUtil(MachineTime):
    """cpu.util: the shares as they are."""


class MachineSteal(MachineTime):
    """cpu.steal: what the hypervisor took, as time and as a share."""

    def make_columns(self, rows: Sequence[CpuTime]) -> dict[str, list[float | None]]:
        """Return the time taken, and its share of each cpu's time."""
        return {
            "steal_ns": [None if "steal" not in row.fields else row.fields["steal"] * TICK_NS for row in rows],
            "steal": [row.compute_shares().get("steal") for row in rows],
        }

    def note_offline(self, cpu: int) -> None:
        """Count what was taken from it since its last reading as not read: amounts add up over the cpus."""
        if self._is_whole:
            self.misses.note(f"cpu {cpu} went offline, and what was taken from it since its last reading is unknown")
