"""power.cstate by Intel's counters of the time that cores were in idle states (the cstate_core unit).

They count at the timestamp counter's rate, which is counted beside them: states are the processor's own, by its numbers
(c6-residency), and what it never entered although the kernel asked for it is not in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omn_kernel.counters import Growth
from omn_kernel.cpus import FOLDER
from omn_kernel.perf.counters import CounterCollector, Row
from omn_kernel.perf.events import PerfEvent
from omn_kernel.perf.units import find_unit_cpus, list_unit_events
from omn_kernel.polled import read_file
from omn_kernel.polling import Rows
from omn_kernel.sysfs import parse_number_list, read_cpus

from omn_core.api import BoundTarget, MachineRefused
from omn_power.counted_clocks import get_unit_event
from omn_power.idle_states import ResidencyRows

_UNIT = "cstate_core"
_SUFFIX = "-residency"
_STAMPS = "tsc"


class CoreStates(CounterCollector):
    """A row for each cpu and each state that is asked for; every cpu of a core was in the states of that core."""

    def find_events(self) -> Mapping[str, PerfEvent]:
        """Return the counter of each state. Raises MachineRefused where there is none."""
        sysroot = self.context.sysroot
        states = [name for name in list_unit_events(sysroot, _UNIT) if name.endswith(_SUFFIX)]
        if not states:
            raise MachineRefused(f"the {_UNIT} unit counts no state here")
        counters = {name.removesuffix(_SUFFIX).upper(): get_unit_event(sysroot, _UNIT, name) for name in states}
        self._states = list(counters)
        return {**counters, _STAMPS: get_unit_event(sysroot, "msr", _STAMPS)}

    def find_cpus(self, target: BoundTarget) -> Sequence[int]:
        """Return the cpus that stand for their cores, of those cores that the target has cpus of."""
        sysroot = self.context.sysroot
        self._rows = ResidencyRows(self.resolved, target, ns_per_unit=1)
        self._wanted = target.cpus or read_cpus(sysroot, "online")
        standing = find_unit_cpus(sysroot, _UNIT) or ()
        self._cores = {cpu: find_core(sysroot, cpu) for cpu in standing}
        return [cpu for cpu, core in self._cores.items() if not core.isdisjoint(self._wanted)]

    def make_rows(self, content: Sequence[Row], at_ns: int) -> Rows:
        """Return the residencies of the interval, each core's for every cpu of it."""
        self.note(content)
        grown: dict[int, Growth] = {}
        for row in content:
            growth = compute_residence(row)
            if growth is not None:
                grown |= {cpu: growth for cpu in sorted(self._cores[row.keys["cpu"]]) if cpu in self._wanted}
        names = {name: name for name in self._states}
        return self._rows.make(grown, dict.fromkeys(grown, names)) if grown else Rows()


def find_core(sysroot: str, cpu: int) -> frozenset[int]:
    """Find the cpus of a cpu's core (topology/thread_siblings_list), itself alone where the kernel does not say."""
    try:
        content = read_file(sysroot, f"{FOLDER}/cpu{cpu}/topology/thread_siblings_list")
    except OSError:
        return frozenset({cpu})
    return frozenset(parse_number_list(content))


def compute_residence(row: Row) -> Growth | None:
    """Compute the nanoseconds that a core was in each state; None where the timestamps did not count.

    A state whose counter found no place is left out.
    """
    stamps = row.counted[_STAMPS]
    if not stamps.value or not stamps.enabled_ns:
        return None
    ticks = {name: counted.value for name, counted in row.counted.items() if name != _STAMPS}
    return Growth(
        stamps.enabled_ns,
        {
            f"{name}/time": min(round(value * stamps.enabled_ns / stamps.value), stamps.enabled_ns)
            for name, value in ticks.items()
            if value is not None
        },
    )
