"""sched.slices: threads on a cpu, each turn from their switch in to their next out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.columns import Columns, make_named_column
from omn_kernel.bpf.hooks import RawTracepoint
from omn_kernel.bpf.loading import LoadedProgram, load
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.spans import SpanRecords
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.tracing import ABSENT
from omn_kernel.sysfs import read_cpus

from omn_core.api import BoundTarget, Column, Losses, MachineRefused
from omn_sched.off_cpu_times import name_state
from omn_sched.programs.slices import FIELDS, GAPS, SlicePrograms

_ON_CPU = 0xFFFFFFFF
"""No state of the kernel's: that of a thread which has not left."""
_HIDDEN = "turns ended where no tracepoint was passed"


class Slices(SpanRecords):
    """An event for each turn of a thread of the target on a cpu, when it leaves.

    A turn that has not ended when the window closes has an event then, of its time until there: so has one that was on
    when the window began, from there on. No gap is known before the latter.
    """

    layout = FIELDS
    began = "began_ns"
    lasted = "slice_ns"

    def open_maps(self) -> None:
        """Open the way that records come, and the threads that are known."""
        super().open_maps()
        self._states = self.hold(TaskStates("slices", self.record))
        self._hidden = self.hold(LostCounter())
        self._cut_short = 0

    def get_spans(self) -> Map:
        """Return the threads that are known."""
        return self._states.table

    def write_programs(self, target: BoundTarget) -> None:
        """Load the programs: what forgets threads first, then what sees them start, switch and wake."""
        self.load_states(self._states)
        self.count_lost(self._hidden, _HIDDEN)
        self._written = SlicePrograms(
            tasks=self.tasks,
            fields=self.task_fields,
            states=self._states,
            transport=self.transport,
            hidden=self._hidden,
        )
        self.load_event("sched_wakeup_new", self._written.write_new)
        self.load_event("sched_switch", self._written.write_switch)
        if self.reads_records or self.resolved.shows("wake_to_run_ns"):
            self.load_event("sched_wakeup", self._written.write_wakeup)
        if self.resolved.begins_held(target):
            self.load_event("sched_process_exec", self._written.write_running)

    def attach(self, target: BoundTarget) -> None:
        """Attach, and begin with who is on a cpu."""
        super().attach(target)
        self._marking = self.hold(self._load("mark_running", self._written.write_marking))
        if not self.resolved.begins_held(target):
            with self._load("find_running", self._written.write_running) as finding:
                _run_everywhere(finding)

    def _load(self, name: str, write: Callable[[TaskAssembly], None]) -> LoadedProgram:
        """Load a program that is run on each cpu, over the thread that is there."""
        program = self.make_raw_program(name, "sched_switch")
        write(program)
        return load(program.assemble(), RawTracepoint("sched_switch"))

    def detach(self) -> None:
        """Mark the turns that are on, and keep them. What is not on a cpu ended where no tracepoint was passed."""
        _run_everywhere(self._marking)
        super().detach()

    def end_at(self, records: npt.NDArray[Any], left: npt.NDArray[Any], closed_ns: int) -> tuple[npt.NDArray[Any], int]:
        """End at the close what had not ended then, for no reason. One that nobody saw end is lost."""
        is_on = left["is_on"] != 0
        self._cut_short = int(np.count_nonzero(~is_on & (left["began_ns"] < closed_ns)))
        left = left[is_on]
        records["state"][(records["ns"] > closed_ns) & (records["began_ns"] < closed_ns)] = _ON_CPU
        left["state"] = _ON_CPU
        return super().end_at(records, left, closed_ns)

    def make_columns(self, records: npt.NDArray[Any]) -> Columns:
        """Make columns of the turns."""
        names = self.context.names
        keys, attributes = self.task_fields.make_columns(records, names)
        measured = {"slice_ns": Column(records["slice_ns"].astype(np.int64))}
        for name in GAPS:
            values = records[name].astype(np.int64)
            measured[name] = Column(values, values != ABSENT)
        state = make_named_column(records["state"], _name_end, names)
        slices = Column(np.ones(len(records), np.int64))
        return Columns(keys, {**measured, "state": state, "slices": slices, **attributes})

    def losses(self) -> Losses:
        """Return the records that found no room, and the turns whose end passed no tracepoint."""
        losses = super().losses()
        if not self._cut_short:
            return losses
        reasons = (*losses.reasons, f"{self._cut_short} turns that no tracepoint ended were on no cpu at the close")
        return attrs.evolve(losses, dropped=losses.dropped + self._cut_short, reasons=reasons)


def _run_everywhere(program: LoadedProgram) -> None:
    """Run a program once on each cpu that is online; one that goes offline meanwhile has no thread on it."""
    for cpu in read_cpus("/", "online"):
        with suppress(MachineRefused):
            program.run_on(cpu)


def _name_end(state: int) -> str | None:
    return None if state == _ON_CPU else name_state(state)
