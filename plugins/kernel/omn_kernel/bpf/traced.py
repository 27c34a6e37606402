"""Collectors of what tracers measure: each event a record, or all of them added up in the kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from omn_core.api import ABSENT as NO_NAME
from omn_core.api import Batch, BoundTarget, Column, Names, ResolvedRequest, RunContext
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.choosing import ChosenCollector
from omn_kernel.bpf.collecting import Counts, ProgramCollector
from omn_kernel.bpf.columns import Columns, make_named_column, make_text_column
from omn_kernel.bpf.maps import Entries
from omn_kernel.bpf.pieces import compute_bucket, read_clock
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R3, Register
from omn_kernel.bpf.rows import RowCollector
from omn_kernel.bpf.streaming import StreamCollector
from omn_kernel.bpf.tasks import Fields, TaskFields
from omn_kernel.bpf.tracing import ABSENT, Label, Tracer
from omn_kernel.bpf.transport import STAMP

_ROW = np.dtype([("count", np.uint64), ("total", np.uint64)])
_BUCKET = ("bucket", "u4")
_MEASURED = ("measured", "i8")


class TracedPrograms(ProgramCollector, ABC):
    """A tracer's programs for the tasks of a target, whatever becomes of their events."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Find what the answer shows of a task, and open what needs no target."""
        self.task_fields = TaskFields(resolved, {label.name for label in self.tracer.labels})
        self._own_fields: Mapping[str, int] = {}
        super().prepare(resolved, context)

    @abstractmethod
    def reserve(self, program: TaskAssembly) -> Record:
        """Reserve a place for an event's measured values and labels (`tracing.Tracing`)."""

    @abstractmethod
    def write(
        self, program: TaskAssembly, event: Record, task: Register, context: Register, *, at: Register | None = None
    ) -> None:
        """Emit what hands an event over (`tracing.Tracing`)."""

    def write_programs(self, target: BoundTarget) -> None:
        """Load the tracer's programs."""
        self.tracer.load(self)
        self.task_fields.look()

    def read_made(self) -> Counts:
        """Read how many events of the target there ever were by the kernel's own count, where the tracer knows one."""
        made = self.tracer.read_made()
        return {} if made is None else {0: made}

    def read_seen(self) -> Counts:
        """Read how many the tracer's programs saw."""
        return {0: self.tracer.read_seen()}

    def detach(self) -> None:
        """Keep what the tracer tells of at the end."""
        super().detach()
        self._own_fields = self.tracer.read_fields()

    def fields(self) -> Mapping[str, int]:
        """Return what is told of the events, and what the tracer tells of those that are none."""
        return {**super().fields(), **self._own_fields}

    def lay_out(self, labels: Sequence[Label]) -> list[tuple[str, str]]:
        """Lay out the measured values and some labels, in words: a program copies one by one."""
        return [*((name, "i8") for name in self.tracer.measured), *((label.name, label.layout) for label in labels)]

    def make_labels(self, records: npt.NDArray[Any], labels: Sequence[Label]) -> tuple[Fields, Fields]:
        """Make the keys and the attributes that labels are."""
        made = {label.name: make_label(label, records[label.name], self.context.names) for label in labels}
        keys = self.resolved.entry.keys
        return (
            {name: column for name, column in made.items() if name in keys},
            {name: column for name, column in made.items() if name not in keys},
        )

    def make_units(self, length: int) -> dict[str, Column]:
        """Make the attribute of which each event is one, where the source has it."""
        return {} if self.tracer.unit is None else {self.tracer.unit: Column(np.ones(length, np.int64))}


class TracedRecords(TracedPrograms, StreamCollector):
    """Each event handed over by itself."""

    def open_maps(self) -> None:
        """Open the way that records come, with the fields that the answer shows."""
        own = self.lay_out(self.tracer.labels)
        self.record = np.dtype([(STAMP, "u8"), *own, *self.task_fields.layout], align=True)
        super().open_maps()

    def reserve(self, program: TaskAssembly) -> Record:
        """Reserve the record itself, with nothing of the stack left in it."""
        record = program.reserve(self.record)
        program.clear(record)
        return record

    def write(
        self, program: TaskAssembly, event: Record, task: Register, context: Register, *, at: Register | None = None
    ) -> None:
        """Emit what completes the record and hands it over."""
        if at is None:
            read_clock(program, R0)
        program.set(event, STAMP, R0 if at is None else at)
        self.task_fields.write(program, event, task)
        self.transport.write(program, event, context)

    def make_columns(self, records: npt.NDArray[Any]) -> Columns:
        """Make columns of what each record says; a value that its event does not have is absent."""
        keys, attributes = self.task_fields.make_columns(records, self.context.names)
        named, said = self.make_labels(records, self.tracer.labels)
        measured = {name: _make_number(records[name]) for name in self.tracer.measured}
        return Columns({**keys, **named}, {**measured, **self.make_units(len(records)), **said, **attributes})


class TracedRows(TracedPrograms, RowCollector):
    """Events added up in the kernel: a row for each value of what divides the answer, and for each bucket of `hist`."""

    row = _ROW

    def open_maps(self) -> None:
        """Open the maps of rows under what divides the answer."""
        called = self.resolved.labels.values()
        divides = self.resolved.is_divided_by
        self._labels = [one for one in self.tracer.labels if divides(one.name) or one.name in called]
        self._value = self._find_value()
        is_polled = self.resolved.mode == "poll"
        self._has_buckets = (
            not is_polled and self._value is not None and any(emit.name == "hist" for emit in self.resolved.emits)
        )
        # Only of times has a row its exact total beside the mean: what counts has a row for each number that it can be.
        self._is_counted = self._value is not None and self.resolved.entry.attributes.get(self._value) != "ns"
        labels = [(label.name, label.layout) for label in self._labels]
        own = [*labels, *([_MEASURED] if self._is_counted else []), _BUCKET]
        self.key = np.dtype([*own, *self.task_fields.layout], align=True)
        super().open_maps()

    def sample(self, now_ns: int) -> Batch:
        """Take the rows. Of a polled source an interval in which nothing happened is a zero, where nothing divides."""
        batch = super().sample(now_ns)
        if len(batch) or self.resolved.mode != "poll" or self._labels or self.task_fields.shown:
            return batch
        names = [name for name in (self._value, self.tracer.unit) if name is not None]
        zeros = {name: Column(np.zeros(1, np.int64)) for name in names}
        return Batch(np.array([self.context.clock()], np.int64), None, {}, zeros)

    def _find_value(self) -> str | None:
        """Find what rows add up, None where each event counts one and has no other figure."""
        measured = self.tracer.measured
        if self.resolved.value in measured:
            return self.resolved.value
        return measured[0] if measured else None

    def reserve(self, program: TaskAssembly) -> Record:
        """Reserve the measured values and the labels alone, with nothing of the stack left in a text."""
        event = program.reserve(np.dtype(self.lay_out(self.tracer.labels) or [("nothing", "u8")]))
        if any(label.layout.startswith("S") for label in self.tracer.labels):
            program.clear(event)
        return event

    def write(
        self, program: TaskAssembly, event: Record, task: Register, context: Register, *, at: Register | None = None
    ) -> None:
        """Emit what adds the value to its row; an event that does not have it adds nothing."""
        end = program.make_label("added")
        key, empty = program.reserve(self.key), program.reserve(_ROW)
        program.clear(key)
        program.clear(empty)
        if self._value is not None:
            self._set_measured(program, key, event, self._value, end)
        for label in self._labels:
            program.copy_words(key, event, label.name)
        self.task_fields.write(program, key, task)
        self.rows.find_or_make(program, key, empty)
        program.jump_if(R0, "==", 0, end)
        row = Record(R0, _ROW)
        if self._value is not None:
            program.get(R1, event, self._value)
            program.add_to(row, "total", R1)
        program.move(R1, 1)
        program.add_to(row, "count", R1)
        program.label(end)

    def _set_measured(self, program: TaskAssembly, key: Record, event: Record, value: str, otherwise: str) -> None:
        program.get(R2, event, value)
        program.jump_if(R2, "==", ABSENT, otherwise)
        if self._is_counted:
            program.set(key, _MEASURED[0], R2)
        if self._has_buckets:
            compute_bucket(program, R1, R2, R3)
            program.set(key, "bucket", R1)

    def make_columns(self, entries: Entries) -> Columns:
        """Make columns of rows: the mean of what each added up, which lies in its bucket, beside the exact total.

        Of a polled source each is what an interval added up to.
        """
        keys, attributes = self.task_fields.make_columns(entries.keys, self.context.names)
        named, said = self.make_labels(entries.keys, self._labels)
        keys, attributes = {**keys, **named}, {**said, **attributes}
        count, total = (entries.values[name].astype(np.int64) for name in ("count", "total"))
        if self.resolved.mode == "poll":
            values = {} if self._value is None else {self._value: Column(total)}
            units = {} if self.tracer.unit is None else {self.tracer.unit: Column(count)}
            return Columns(keys, {**values, **units, **attributes})
        values = {} if self._value is None else {self._value: Column(total // count), "total_ns": Column(total)}
        return Columns(keys, {**values, **self.make_units(len(entries)), **attributes}, count)


def _make_number(values: npt.NDArray[Any]) -> Column:
    numbers = values.astype(np.int64)
    present = numbers != ABSENT
    return Column(numbers, None if present.all() else present)


def make_label(label: Label, values: npt.NDArray[Any], names: Names) -> Column:
    """Make the column of a label; a text of nothing, and a number that is `tracing.ABSENT`, are absent."""
    if label.spell is not None:
        return make_named_column(values, label.spell, names)
    if values.dtype.kind != "S":
        return _make_number(values)
    texts = make_text_column(values, names)
    return Column(np.where(values == b"", NO_NAME, texts.values), None, names)


def can_add_up(resolved: ResolvedRequest, measured: tuple[str, ...]) -> bool:
    """Return whether the kernel can add up all that a request asks: figures of sums, or nothing but histograms.

    A filter on what is measured, or an emit by it, needs each event, but where what an interval added up to is asked,
    and so does what is read from events' stacks.
    """
    if resolved.mode == "poll":
        return True
    asked = {*resolved.filter_fields, *(emit.attribute for emit in resolved.emits)}
    is_of_sums = resolved.mode == "count" or {emit.name for emit in resolved.emits} == {"hist"}
    return is_of_sums and asked.isdisjoint(measured) and not resolved.stack_keys


class TracedEvents(ChosenCollector):
    """The collector of a source that a tracer measures. A family names the tracer, or makes it for a request."""

    tracer: type[Tracer]

    def make_tracer(self, resolved: ResolvedRequest) -> Tracer:
        """Make the tracer for a request."""
        return self.tracer()

    def choose(self, resolved: ResolvedRequest) -> TracedRecords | TracedRows:
        """Choose rows where the kernel can add up all that is asked, else records."""
        tracer = self.make_tracer(resolved)
        own = (label.name for label in tracer.labels if label.is_own)
        adds_up = can_add_up(resolved, (*tracer.measured, *own))
        # Records of a count would fill their memory until the close, which is the only reading that it takes.
        self.reads_between = not adds_up
        return TracedRows(tracer) if adds_up else TracedRecords(tracer)
