"""Processes' lives from the records of classic tracepoints, where the kernel publishes no types."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.columns import Columns, make_number_column, make_text_column
from omn_kernel.bpf.hooks import Tracepoint
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import RecordAssembly
from omn_kernel.bpf.recorded import OWN_FIELDS, RecordedCollector
from omn_kernel.bpf.registers import R0, R1, R6
from omn_kernel.bpf.traced import make_label
from omn_kernel.bpf.tracing import Label
from omn_kernel.bpf.transport import STAMP
from omn_kernel.tracepoints import read_format

from omn_core.api import BoundTarget, Column, ResolvedRequest, RunContext
from omn_proc.programs import records
from omn_proc.programs.makings import TaskMakings
from omn_proc.programs.signals import SentSignals


class RecordedLives(RecordedCollector, ABC):
    """An event for each record of a tracepoint: `unit` is what each is one of, `labels` what it is."""

    tracepoint: str
    unit: str
    labels: Sequence[Label] = ()

    @abstractmethod
    def write_event(self, program: RecordAssembly, event: Record, fields: records.Fields) -> None:
        """Emit what sets an event from the record, or goes to `done`."""

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Open what needs no target."""
        # A count's only reading is that of the close, until when its records would fill their memory.
        self.reads_between = resolved.mode == "count"
        super().prepare(resolved, context)

    def open_maps(self) -> None:
        """Open the way that records come."""
        labels = [(label.name, label.layout) for label in self.labels]
        self.record = np.dtype([(STAMP, "u8"), *labels, *OWN_FIELDS], align=True)
        super().open_maps()

    def write_programs(self, target: BoundTarget) -> None:
        """Load the program."""
        program = RecordAssembly(f"omn_{self.unit}")
        event = program.reserve(self.record)
        program.clear(event)
        program.move(R6, R1)
        self.write_event(program, event, read_format(self.tracepoint))
        read_clock(program, R0)
        program.set(event, STAMP, R0)
        self.transport.write(program, event, R6)
        program.label("done")
        program.leave(0)
        self.programs.load(program, Tracepoint(self.tracepoint))

    def make_columns(self, rows: npt.NDArray[Any]) -> Columns:
        """Make columns of events; a process that nobody told is absent."""
        names = self.context.names
        made = {label.name: make_label(label, rows[label.name], names) for label in self.labels}
        process = make_number_column(rows["pid"])
        made["pid"] = Column(process.values, process.values != 0)
        made[self.unit] = Column(np.ones(len(rows), np.int64))
        made["task"] = make_number_column(rows["task"])
        made["comm"] = make_text_column(rows["comm"], names)
        keys = {name: column for name, column in made.items() if name in self.resolved.entry.keys}
        return Columns(keys, {name: column for name, column in made.items() if name not in keys})


class Execs(RecordedLives):
    """Programs that were executed."""

    tracepoint, unit = "sched/sched_process_exec", "execs"

    def write_event(self, program: RecordAssembly, event: Record, fields: records.Fields) -> None:
        """Emit it."""
        records.write_exec(program, self, event, fields)


class Forks(RecordedLives):
    """Tasks that were made."""

    tracepoint, unit = "task/task_newtask", "forks"
    labels = TaskMakings.labels

    def write_event(self, program: RecordAssembly, event: Record, fields: records.Fields) -> None:
        """Emit it."""
        records.write_making(program, self, event, fields)


class Exits(RecordedLives):
    """Processes that ended."""

    tracepoint, unit = "sched/sched_process_exit", "exits"

    def write_event(self, program: RecordAssembly, event: Record, fields: records.Fields) -> None:
        """Emit it."""
        records.write_end(program, self, event, fields)


class Signals(RecordedLives):
    """Signals that were sent."""

    tracepoint, unit = "signal/signal_generate", "signals"
    labels = SentSignals.labels

    def write_event(self, program: RecordAssembly, event: Record, fields: records.Fields) -> None:
        """Emit it."""
        records.write_signal(program, self, event, fields)
