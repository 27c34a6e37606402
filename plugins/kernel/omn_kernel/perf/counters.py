"""Collectors that count perf events: of processes and what they start, of a thread, of cpus, of a cgroup."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from omn_core.api import BoundTarget, InTargetCost, RequestError, ResolvedRequest, RunContext
from omn_kernel.perf.attributes import EventAttributes
from omn_kernel.perf.counted import CgroupCounters, Counters, CpuCounters, TaskCounters, count_places
from omn_kernel.perf.events import PerfEvent, Raised, get_event
from omn_kernel.perf.opening import EventOpener
from omn_kernel.perf.paranoia import describe_paranoia
from omn_kernel.perf.reading import Counted
from omn_kernel.polled import raise_descriptor_limit, restore_descriptor_limit
from omn_kernel.polling import PolledCollector, Rows
from omn_kernel.procfs.process import find_parent

Amounts = Mapping[str, Counted]
"""What each event of a row grew by, by the name of its attribute."""


@attrs.frozen(eq=False)
class Row:
    """What one row is about, and what its events counted."""

    keys: Mapping[str, Any]
    pid: int | None
    counted: Amounts


class CounterCollector(PolledCollector[Sequence[Row]], ABC):
    """A collector of perf events: a subclass names them by the attributes that their counts are.

    Of several, those are opened that the answer can show: the kernel counts each where it is raised, in the target.

    A process is counted with its threads and with all that these start, ended children included; a thread alone; the
    machine by an event on each cpu, whose counts are one row unless `cpu` divides them; a cgroup by one on each cpu,
    always one row. `oncpu` names the attribute that says how long the counted tasks ran, where the source has one.
    """

    events: Mapping[str, str]
    oncpu: str | None = None

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Refuse keys that what is counted does not have: a process runs on any cpu, and a cpu runs any process."""
        super().prepare(resolved, context)
        kind = resolved.target.kind
        lacking = {"cpu"} if kind not in ("system", "cpu") else {"proc", "task"}
        for key in resolved.keys:
            if key in lacking:
                raise RequestError(f"a count of {resolved.target} is not divided by {key!r}")
        self._totals: dict[str, list[int]] = {}

    def open_files(self, target: BoundTarget) -> None:
        """Open every event wherever the target is. Raises MachineRefused where one cannot be opened."""
        events = self.find_events()
        is_held = self.resolved.begins_held(target)

        def make(event: PerfEvent, is_user_only: bool) -> EventAttributes:
            return EventAttributes(
                event.kind,
                event.config,
                is_disabled=is_held,
                inherits=bool(target.processes) and target.tid is None,
                enable_on_exec=is_held,
                exclude_kernel=is_user_only,
                reads_times=True,
            )

        self._openers = {name: EventOpener(event, make) for name, event in events.items()}
        soft = raise_descriptor_limit(len(events) * count_places(target))
        self._held.callback(restore_descriptor_limit, soft)
        self._counters = self.hold(self._open_counters(target, list(self._openers.values())))

    def _choose_events(self) -> Mapping[str, str]:
        """Return the events that the answer can show, as each costs the target; all where it shows what they time."""
        shown = {name: spelled for name, spelled in self.events.items() if self.resolved.shows(name)}
        return shown or self.events

    def find_events(self) -> Mapping[str, PerfEvent]:
        """Return what is counted, by the names of attributes: of what `events` spells. Raises MachineRefused."""
        return {name: get_event(spelled) for name, spelled in self._choose_events().items()}

    def find_cpus(self, target: BoundTarget) -> Sequence[int]:
        """Return the cpus on which a target that is no process is counted; none for all that are online."""
        return target.cpus

    def _open_counters(self, target: BoundTarget, openers: Sequence[EventOpener]) -> Counters:
        if target.processes:
            return TaskCounters(target, openers, self.context.sysroot)
        if target.place is not None:
            return CgroupCounters(target, openers)
        return CpuCounters(self.find_cpus(target), openers, self.misses)

    def read(self) -> list[Row]:
        """Read every counter once. Raises TargetGone when nothing is left that could count."""
        names = list(self._openers)
        return [
            Row(each.keys, each.pid, dict(zip(names, each.counted, strict=True))) for each in self._counters.advance()
        ]

    def make_rows(self, content: Sequence[Row], at_ns: int) -> Rows:
        """Make a row of each process, cpu or cgroup; of the machine one, unless `cpu` divides it."""
        rows = content
        if isinstance(self._counters, CpuCounters) and not self.resolved.is_divided_by("cpu"):
            rows = [Row({}, None, {name: _add([row.counted[name] for row in content]) for name in self._openers})]
        self.note(rows)
        keys = {name: [row.keys[name] for row in rows] for name in (rows[0].keys if rows else ())}
        return Rows.of_each([{**self.make_amounts(row), **self._name(row)} for row in rows], keys)

    def _name(self, row: Row) -> dict[str, Any]:
        if row.pid is None:
            return {}
        shows_parent = self.resolved.shows("ppid")
        return {"pid": row.pid, "ppid": find_parent(self.context.sysroot, row.pid) if shows_parent else None}

    def make_amounts(self, row: Row) -> dict[str, Any]:
        """Return the measured columns of a row."""
        amounts: dict[str, Any] = {name: counted.value for name, counted in row.counted.items()}
        first = next(iter(row.counted.values()))
        if self.oncpu is not None and row.pid is not None:
            amounts[self.oncpu] = first.enabled_ns
        return amounts

    def note(self, rows: Sequence[Row]) -> None:
        """Keep what the events counted and for how long, and count the readings that tell nothing."""
        for row in rows:
            for name, counted in row.counted.items():
                total = self._totals.setdefault(name, [0, 0, 0])
                for place, amount in enumerate((counted.raw, counted.enabled_ns, counted.running_ns)):
                    total[place] += amount
                if counted.value is None:
                    spelling = self._openers[name].event.spelling
                    self.misses.note(
                        f"the {spelling} had no place on its unit in an interval, and counted nothing there"
                    )

    def fields(self) -> Mapping[str, int]:
        """Return how long the counted tasks ran, and of events on a unit how long they were enabled and ran.

        With what was counted then, where they shared the unit.
        """
        fields: dict[str, int] = {}
        if self.oncpu is not None and isinstance(self._counters, TaskCounters):
            fields[self.oncpu] = max((enabled_ns for _, enabled_ns, _ in self._totals.values()), default=0)
        for name, (raw, enabled_ns, running_ns) in self._totals.items():
            if running_ns < enabled_ns:
                fields |= {f"{name}_counted": raw}
            if not self._openers[name].event.is_software:
                fields |= {f"{name}_enabled_ns": enabled_ns, f"{name}_running_ns": running_ns}
        return fields

    def in_target_cost(self) -> InTargetCost:
        """Return that it is unknown: the kernel keeps the counts while the tasks run, and accounts for none of that."""
        return InTargetCost(None)

    def degradations(self) -> tuple[str, ...]:
        """Say which events left out the kernel's code, and which shared their unit."""
        said: dict[str, None] = {}
        for name, opener in self._openers.items():
            if opener.is_user_only and opener.event.raised is Raised.PROGRAM:
                said[
                    f"what happened in the kernel's own code is not in this count: the {opener.event.spelling} was "
                    f"opened in user mode alone ({describe_paranoia()})"
                ] = None
            _, enabled_ns, running_ns = self._totals.get(name, (0, 0, 0))
            if 0 < running_ns < enabled_ns:
                said[
                    f"the {opener.event.spelling} shared its unit: it ran {running_ns / enabled_ns:.0%} of the time, "
                    "and its count is scaled up to all of it"
                ] = None
        return tuple(said)

    def facts(self) -> tuple[str, ...]:
        """Say which cpus came and went."""
        return self._counters.facts()


def _add(parts: Sequence[Counted]) -> Counted:
    values = [part.value for part in parts if part.value is not None]
    return Counted(
        sum(values) if len(values) == len(parts) else None,
        sum(part.raw for part in parts),
        sum(part.enabled_ns for part in parts),
        sum(part.running_ns for part in parts),
    )
