"""power.freq by APERF and MPERF: cycles at the clock that a cpu had over those at its reference clock, of an interval.

Both stand still while the cpu idles deeply, so that the figure is of the time that it ran. The reference clock is the
timestamp counter's (Intel's manual, "Hardware coordination feedback"), which is counted beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omn_kernel.perf.counters import CounterCollector, Row
from omn_kernel.perf.events import PerfEvent
from omn_kernel.perf.reading import Counted
from omn_kernel.perf.units import read_unit_event
from omn_kernel.polling import Rows

from omn_core.api import MachineRefused

_UNIT = "msr"
_NS_PER_SECOND = 1_000_000_000


class CountedClocks(CounterCollector):
    """A row for each cpu that ran in the interval."""

    def find_events(self) -> Mapping[str, PerfEvent]:
        """Return the three counters. Raises MachineRefused where one is not there."""
        return {name: get_unit_event(self.context.sysroot, _UNIT, name) for name in ("aperf", "mperf", "tsc")}

    def make_rows(self, content: Sequence[Row], at_ns: int) -> Rows:
        """Return each cpu's clock, those left out that never ran."""
        self.note(content)
        clocks = {row.keys["cpu"]: compute_clock(row.counted) for row in content}
        known = {cpu: clock for cpu, clock in clocks.items() if clock is not None}
        attributes = [
            {"freq_hz": known[row.keys["cpu"]], "interval_ns": row.counted["tsc"].enabled_ns}
            for row in content
            if row.keys["cpu"] in known
        ]
        return Rows.of_each(attributes, {"cpu": list(known)})


def get_unit_event(sysroot: str, unit: str, name: str) -> PerfEvent:
    """Return what an event of a unit is opened by. Raises MachineRefused where it is not there."""
    try:
        return read_unit_event(sysroot, unit, name).event
    except (OSError, ValueError, KeyError) as error:
        raise MachineRefused(f"event {name} of the {unit} unit cannot be read: {error}") from None


def compute_clock(counted: Mapping[str, Counted]) -> int | None:
    """Compute a cpu's clock in hertz; None where it never ran, or a counter did not."""
    actual, reference, stamps = (counted[name].value for name in ("aperf", "mperf", "tsc"))
    if actual is None or not reference or not stamps or not counted["tsc"].enabled_ns:
        return None
    return round(actual / reference * stamps * _NS_PER_SECOND / counted["tsc"].enabled_ns)
