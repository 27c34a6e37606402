"""sched.irq and sched.softirq: counts of /proc/interrupts and /proc/softirqs (proc(5)), by line and by cpu."""

from __future__ import annotations

from abc import ABC
from collections import Counter
from collections.abc import Iterator, Mapping

import attrs
from omn_kernel.counters import Account
from omn_kernel.cpus import CpuPresence
from omn_kernel.polling import MachineFileCollector, Rows
from omn_kernel.procfs.interrupts import WRAP, InterruptTable, parse_counts, parse_description, parse_interrupts

from omn_core.api import BoundTarget


@attrs.define(eq=False)
class Line:
    """One line of the table: what it looked like when last read, its account, and each cpu that it ever came to.

    `grown` is what it counted on each cpu since the reading before, a cpu left out where that is nothing; None where it
    is unknown.
    """

    content: bytes
    account: Account
    cpus: frozenset[int] = frozenset()
    grown: Mapping[int, int] | None = None


class InterruptCounts(MachineFileCollector, ABC):
    """Interrupts of the target's cpus in each interval: one row, or a row for each line, each cpu, or each pair.

    A line or a pair that never came since the machine started has no row; one that came, and not in this interval,
    is a zero.
    """

    many_records = True
    key: str
    value: str

    def open_files(self, target: BoundTarget) -> None:
        """Open the file."""
        super().open_files(target)
        self._presence = CpuPresence(target.cpus, self.misses)
        self._by_line = self.resolved.is_divided_by(self.key)
        self._by_cpu = bool(target.cpus) or self.resolved.is_divided_by("cpu")
        self._describes = self._by_line and self.resolved.shows("description")
        self._lines: dict[str, Line] = {}
        self._read_cpus: tuple[int, ...] | None = None

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return the rows; the first reading, the baseline, makes none."""
        table = parse_interrupts(content)
        before, self._read_cpus = self._read_cpus, table.cpus
        for cpu in self._presence.observe(table.cpus):
            if self._presence.is_wanted(cpu):
                self.misses.note(f"cpu {cpu} went offline, and what came to it since its last reading is unknown")
        self._advance(table, before, at_ns)
        if before is None:
            return Rows()
        counted: Counter[tuple[str | None, int | None]] = Counter()
        for label, cpu, count in self._iter_counts(table, before):
            counted[label if self._by_line else None, cpu if self._by_cpu else None] += count
        return self._make_rows(counted, table) if counted else Rows()

    def _make_rows(self, counted: Mapping[tuple[str | None, int | None], int], table: InterruptTable) -> Rows:
        labels, cpus = zip(*counted, strict=True)
        keys = ({self.key: labels} if self._by_line else {}) | ({"cpu": cpus} if self._by_cpu else {})
        attributes: dict[str, list[int] | list[str]] = {self.value: list(counted.values())}
        if self._describes:
            width = len(table.cpus)
            attributes["description"] = [parse_description(table.lines[label], width) for label in labels]
        return Rows(keys, attributes)

    def _iter_counts(self, table: InterruptTable, before: tuple[int, ...]) -> Iterator[tuple[str, int, int]]:
        """Iterate over the count of each line on each cpu that was read twice, in the table's order."""
        for label in table.lines:
            line = self._lines[label]
            for cpu in before if line.grown is not None else ():
                if cpu in line.cpus and self._presence.is_wanted(cpu):
                    yield label, cpu, (line.grown or {}).get(cpu, 0)

    def _advance(self, table: InterruptTable, before: tuple[int, ...] | None, at_ns: int) -> None:
        """Take a reading in. A line whose bytes are those of the last reading did not move, and is not parsed."""
        for label in self._lines.keys() - table.lines.keys():
            del self._lines[label]
        for label, content in table.lines.items():
            line = self._lines.get(label)
            if line is not None and line.content == content and before == table.cpus:
                line.grown = {}
                continue
            counts = dict(zip(table.cpus, parse_counts(content, len(table.cpus)), strict=False))
            if line is None:
                wraps = dict.fromkeys(map(str, table.cpus), WRAP)
                line = self._lines[label] = Line(content, Account(f"line {label}", self.misses, wraps))
                if before is not None:
                    # A line comes with its first handler or its first interrupt: it had none when last read.
                    line.account.advance(dict.fromkeys(map(str, before), 0), at_ns)
            self._advance_line(line, content, counts, at_ns)

    def _advance_line(self, line: Line, content: bytes, counts: Mapping[int, int], at_ns: int) -> None:
        growth = line.account.advance({str(cpu): count for cpu, count in counts.items()}, at_ns)
        line.content = content
        line.cpus = frozenset(cpu for cpu, count in counts.items() if count)
        line.grown = None if growth is None else {int(cpu): count for cpu, count in growth.by.items()}

    def facts(self) -> tuple[str, ...]:
        """Say which cpus came and went."""
        return self._presence.facts()


class Interrupts(InterruptCounts):
    """/proc/interrupts: devices' lines by number, and the architecture's own (LOC, RES, CAL, TLB) by name."""

    path = "/proc/interrupts"
    key = "irq"
    value = "interrupts"


class SoftInterrupts(InterruptCounts):
    """/proc/softirqs: how often each kind of deferred interrupt work was served."""

    path = "/proc/softirqs"
    key = "softirq"
    value = "softirqs"
