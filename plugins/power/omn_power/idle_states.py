"""power.cstate: how long cpus were in the idle states that the kernel put them in (cpuidle in sysfs).

/sys/devices/system/cpu/cpu<N>/cpuidle/state<M>/{name,time,usage}: Documentation/admin-guide/pm/cpuidle.rst. The time
is in microseconds, and the kernel adds an idle period to it when the cpu wakes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import attrs
from omn_kernel.counters import Growth
from omn_kernel.cpus import FOLDER, CpuCounterCollector
from omn_kernel.polled import place, read_file
from omn_kernel.polling import Rows

from omn_core.api import BoundTarget, ResolvedRequest

_NS_PER_US = 1000


@attrs.define
class Residency:
    """Time that some cpus were in some states in one interval: which cpus, and how long the interval was.

    `entries` is None where nobody counts them.
    """

    length_ns: int
    cpus: set[int] = attrs.field(factory=set)
    time_ns: int = 0
    entries: int | None = None

    def to_attributes(self) -> dict[str, int | float | None]:
        """Return the attributes of its row. A share is one at most: a period counts at its end, whenever it began."""
        return {
            "residency": min(self.time_ns / (self.length_ns * len(self.cpus)), 1.0),
            "time_ns": self.time_ns,
            "entries": self.entries,
            "interval_ns": self.length_ns,
        }


def compute_residencies(
    grown: Mapping[int, Growth],
    names: Mapping[int, Mapping[str, str]],
    *,
    by_cpu: bool,
    by_state: bool,
    ns_per_unit: int = _NS_PER_US,
) -> dict[tuple[int | None, str | None], Residency]:
    """Compute the residency of each cpu and state, or of those together that nothing tells apart."""
    parts: dict[tuple[int | None, str | None], Residency] = {}
    for cpu, growth in grown.items():
        for folder, name in names[cpu].items():
            if f"{folder}/time" not in growth.by:
                continue
            key = (cpu if by_cpu else None, name if by_state else None)
            part = parts.setdefault(key, Residency(growth.length_ns))
            part.cpus.add(cpu)
            part.time_ns += growth.by[f"{folder}/time"] * ns_per_unit
            if f"{folder}/usage" in growth.by:
                part.entries = (part.entries or 0) + growth.by[f"{folder}/usage"]
    return parts


class ResidencyRows:
    """Makes the rows of what counters of each cpu's states grew by, times in units of so many nanoseconds."""

    def __init__(self, resolved: ResolvedRequest, target: BoundTarget, *, ns_per_unit: int) -> None:
        self._by_cpu = bool(target.cpus) or resolved.is_divided_by("cpu")
        self._by_state = resolved.is_divided_by("power.state")
        self._ns_per_unit = ns_per_unit
        self._late = 0

    def make(self, grown: Mapping[int, Growth], names: Mapping[int, Mapping[str, str]]) -> Rows:
        """Make a row for each cpu and each state that is asked for; what is not told apart is one of all together."""
        whole = compute_residencies(grown, names, by_cpu=True, by_state=False, ns_per_unit=self._ns_per_unit)
        self._late += sum(part.time_ns > part.length_ns for part in whole.values())
        parts = compute_residencies(
            grown, names, by_cpu=self._by_cpu, by_state=self._by_state, ns_per_unit=self._ns_per_unit
        )
        keys: dict[str, list[int | str | None]] = {}
        if self._by_cpu:
            keys["cpu"] = [cpu for cpu, _ in parts]
        if self._by_state:
            keys["power.state"] = [state for _, state in parts]
        return Rows.of_each([part.to_attributes() for part in parts.values()], keys)

    def fields(self) -> dict[str, int]:
        """Return `late_credits`: in so many intervals a cpu was credited with more idle time than they were long."""
        return {"late_credits": self._late}

    def facts(self) -> tuple[str, ...]:
        """Say that idle periods were credited late."""
        late = (
            "an idle period that began before the interval it ended in is credited there whole: its share is kept to "
            "1, and the intervals before it read short"
        )
        return (late,) if self._late else ()


class IdleStates(CpuCounterCollector):
    """A row for each cpu and each state that is asked for; what is not told apart is one row of all together."""

    counted = "idle states (cpuidle/state0/time in its folder of /sys/devices/system/cpu)"

    def open_files(self, target: BoundTarget) -> None:
        """Open the files of each cpu's states."""
        self._names: dict[int, dict[str, str]] = {}
        self._rows = ResidencyRows(self.resolved, target, ns_per_unit=_NS_PER_US)
        super().open_files(target)

    def list_names(self, cpu: int) -> Sequence[str]:
        """List the two files of each state, and remember what the states are called."""
        self._names[cpu] = read_state_names(self.context.sysroot, cpu)
        return [f"{folder}/{file}" for folder in self._names[cpu] for file in ("time", "usage")]

    def make_rows(self, content: Mapping[int, Mapping[str, int]], at_ns: int) -> Rows:
        """Return the residencies of the interval."""
        return self._rows.make(self.advance(content, at_ns), self._names)

    def fields(self) -> dict[str, int]:
        """Return in how many intervals a cpu was credited late."""
        return self._rows.fields()

    def facts(self) -> tuple[str, ...]:
        """Say which cpus came and went, and that idle periods were credited late."""
        return (*super().facts(), *self._rows.facts())


def read_state_names(sysroot: str, cpu: int) -> dict[str, str]:
    """Read what a cpu's idle states are called, by their folders in its own; two of one name are told apart by those.

    Empty where the cpu has none, or is offline.
    """
    try:
        states = sorted(os.listdir(place(sysroot, f"{FOLDER}/cpu{cpu}/cpuidle")))
    except OSError:
        return {}
    named: dict[str, str] = {}
    for state in states:
        if not state.removeprefix("state").isdigit():
            continue  # `driver`, where the cpu has a driver of its own
        try:
            content = read_file(sysroot, f"{FOLDER}/cpu{cpu}/cpuidle/{state}/name")
        except OSError:
            content = state.encode()
        name = content.decode("utf-8", "backslashreplace").strip()
        named[f"cpuidle/{state}"] = f"{name} ({state})" if name in named.values() else name
    return named
