"""power.freq by a program on cpu_frequency: each frequency that a cpu's driver set, and how long it was held."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from omn_kernel.bpf.columns import Columns, keep_where, make_number_column
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.spans import Records, Spans
from omn_kernel.cpus import get_cpus
from omn_kernel.sysfs import read_cpus

from omn_core.api import BoundTarget, Column
from omn_power.clocks import HZ_PER_KHZ
from omn_power.programs.frequency import HELD, HeldFrequencies


class FrequencyEvents(Spans):
    """An event for each frequency that was held, where it gave way to the next, or at the close.

    What a cpu held until its first change in the window nobody announced: that event has no frequency of its own, and
    says what came next.
    """

    record = HELD
    began = "began_ns"
    lasted = "held_ns"
    _unknown = 0

    def open_maps(self) -> None:
        """Open what cpus hold."""
        super().open_maps()
        self._held_now = self.hold(HeldFrequencies(self.transport))

    def write_programs(self, target: BoundTarget) -> None:
        """Load the program, with every cpu at what is unknown. Raises MachineRefused for a cpu that is offline."""
        self._cpus = np.array(get_cpus(target), np.uint32)
        self._held_now.begin(self.context.clock())
        self.load_event("cpu_frequency", self._held_now.write)

    def get_spans(self) -> Map:
        """Return what each cpu holds."""
        return self._held_now.now

    def read_left(self) -> Records:
        """Read what the cpus hold that are online, where it is known."""
        left: Records = super().read_left()
        is_known: Records = np.isin(left["cpu"], read_cpus("/", "online")) & (left["khz"] != 0)
        return np.compress(is_known, left)

    def end_at(self, records: Records, left: Records, closed_ns: int) -> tuple[Records, int]:
        """End at the close what was held then; nothing came next."""
        kept = [part[np.isin(part["cpu"], self._cpus)] for part in (records, left)]
        whole, count = super().end_at(kept[0], kept[1], closed_ns)
        whole["next_khz"][whole["ns"] == closed_ns] = 0
        self._unknown = int((whole["khz"] == 0).sum())
        return whole, count

    def make_columns(self, records: Records) -> Columns:
        """Make an event of each frequency."""
        return Columns(
            {"cpu": make_number_column(records["cpu"])},
            {
                "freq_hz": _make_hertz(records["khz"]),
                "next_hz": _make_hertz(records["next_khz"]),
                "interval_ns": make_number_column(records["held_ns"]),
            },
        )

    def fields(self) -> Mapping[str, int]:
        """Return how many were delivered, how many were held still at the close, and of how many it is unknown what."""
        return {**super().fields(), "begun_before": self._unknown}


def _make_hertz(khz: Records) -> Column:
    return keep_where(make_number_column(khz.astype(np.int64) * HZ_PER_KHZ), khz != 0)
