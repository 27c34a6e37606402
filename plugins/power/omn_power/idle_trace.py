"""power.cstate traced: an event for each idle period, where the cpu wakes from it or at the close."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.columns import Columns, make_named_column, make_number_column
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.spans import Records, Spans
from omn_kernel.cpus import get_cpus

from omn_core.api import BoundTarget, Column
from omn_power.idle_periods import name_states
from omn_power.programs.idle_spans import AWAKE, IDLE, IdleSpans

Instants = npt.NDArray[np.int64]
_STATES = 1 << 16
"""More than there are states of a cpu: one number stands for both."""


class IdleTrace(Spans):
    """Each period with its state and its length, and the share that it is of the time since the cpu last woke.

    A period that had begun when the program came counts from there, and its state is unknown. A cpu that neither went
    to a state nor woke in the window has no event.
    """

    record = IDLE
    began = "began_ns"
    lasted = "idle_ns"
    _unknown = 0

    def open_maps(self) -> None:
        """Open the periods that cpus are in."""
        super().open_maps()
        self._periods = self.hold(IdleSpans(self.transport))

    def write_programs(self, target: BoundTarget) -> None:
        """Load the program. Raises MachineRefused for a cpu that is offline."""
        self._cpus = np.array(get_cpus(target), np.uint32)
        self._names = {int(cpu): name_states(int(cpu)) for cpu in self._cpus}
        self.load_event("cpu_idle", self._periods.write)

    def attach(self, target: BoundTarget) -> None:
        """Attach, and remember when the first periods may begin."""
        super().attach(target)
        self._attached_ns = self.context.clock()

    def get_spans(self) -> Map:
        """Return the periods that cpus are in."""
        return self._periods.now

    def read_left(self) -> Records:
        """Read the period that each cpu is in, once the program is detached."""
        return super().read_left().reshape(-1)

    def end_at(self, records: Records, left: Records, closed_ns: int) -> tuple[Records, int]:
        """End at the close the periods that had not ended, and begin at the attach those that began before.

        A later one without a beginning is one whose beginning the kernel passed over, which is counted there.
        """
        ours = np.compress(np.isin(records["cpu"], self._cpus) & (records["ns"] > self._attached_ns), records)
        is_first = np.zeros(len(ours), bool)
        is_first[np.unique(ours["cpu"], return_index=True)[1]] = True
        kept = np.compress(is_first | (ours[self.began] != 0), ours)
        self._unknown = int((kept[self.began] == 0).sum())
        kept[self.began] = np.maximum(kept[self.began], self._attached_ns)
        kept[self.lasted] = kept["ns"] - kept[self.began]
        return super().end_at(kept, np.compress(np.isin(left["cpu"], self._cpus), left), closed_ns)

    def make_columns(self, records: Records) -> Columns:
        """Make an event of each period."""
        lengths = compute_lengths(records["cpu"], records["ns"].astype(np.int64), self._attached_ns)
        idle_ns = records[self.lasted].astype(np.int64)
        return Columns(
            {"cpu": make_number_column(records["cpu"]), "power.state": self._make_states(records)},
            {
                "residency": Column(idle_ns / lengths),
                "time_ns": Column(idle_ns),
                "entries": Column(np.ones(len(records), np.int64)),
                "interval_ns": Column(lengths),
            },
        )

    def _make_states(self, records: Records) -> Column:
        """Name each period's state as its cpu's driver does."""
        numbers = records["state"].astype(np.int64) + records["cpu"].astype(np.int64) * _STATES
        known = np.where(records["state"] == AWAKE, AWAKE, numbers)
        return make_named_column(known, self._find_name, self.context.names)

    def _find_name(self, number: int) -> str | None:
        cpu, state = divmod(number, _STATES)
        return None if number == AWAKE else self._names[cpu].get(f"cpuidle/state{state}")

    def fields(self) -> Mapping[str, int]:
        """Return how many were delivered, how many had not ended, and how many had begun before."""
        return {**super().fields(), "begun_before": self._unknown}


def compute_lengths(cpus: npt.NDArray[np.uint32], ends_ns: Instants, from_ns: int) -> Instants:
    """Compute how long after its cpu's last end each period ended, of the first after `from_ns`; a nanosecond at least.

    The periods are in the order of their ends.
    """
    order = np.argsort(cpus, kind="stable")
    ends, whose = ends_ns[order], cpus[order]
    before = np.concatenate([[from_ns], ends[:-1]])
    is_first = np.concatenate([[True], whose[1:] != whose[:-1]])
    lengths = np.empty(len(ends), np.int64)
    lengths[order] = np.maximum(ends - np.where(is_first, from_ns, before), 1)
    return lengths
