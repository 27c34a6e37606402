"""Interrupts and deferred interrupt work, from where a cpu begins to serve one to where it is done with it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.filters import OnCpus
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.records import RecordedAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R3, R6, R7, R8, R9
from omn_kernel.bpf.tracing import ABSENT, Label, Tracer, Tracing
from omn_kernel.polled import read_file
from omn_kernel.procfs.interrupts import compute_total, parse_interrupts

from omn_sched.softirqs import SOFTIRQS, name_softirq

_SERVED = np.dtype([("begun_ns", np.uint64), ("raised_ns", np.uint64), ("waited_ns", np.int64), ("ended", np.uint64)])
_PLACE = np.dtype([("place", np.uint32)])
_INTEGER = 0x7FFFFFFF
_NAME_BYTES = 32


class ServedInterrupts(Tracer):
    """What a cpu serves, one at a time: nothing of its kind comes between. `places` is how many a cpu may be in.

    `counts` is the file in which the kernel counts them itself. What comes over a task that it hides from tracepoints
    is in that count alone.
    """

    places = 1
    tracepoint: str
    counts: str
    served = _SERVED

    def load(self, tracing: Tracing) -> None:
        """Load what sees one begun and done with, the end first."""
        self._served = tracing.hold(Map(MapType.PERCPU_ARRAY, "served", _PLACE, self.served, self.places))
        self._unknown = tracing.hold(LostCounter())
        keeper = tracing.tasks.filter
        self._cpus = keeper.cpus if isinstance(keeper, OnCpus) else ()
        tracing.load_event(f"{self.tracepoint}_exit", lambda program: self.write_exit(program, tracing))
        tracing.load_event(f"{self.tracepoint}_entry", self.write_entry)

    def write_entry(self, program: TaskAssembly) -> None:
        """Write the beginning, which stands in place of one whose end was not told."""
        program.move(R6, R1)
        self.find(program)
        program.jump_if(R0, "==", 0, "done")
        program.move(R8, R0)
        served = Record(R8, self.served)
        self.go_on(program, served, "done")
        read_clock(program, R9)
        program.set(served, "begun_ns", R9)
        self.keep(program, served)
        program.label("done")
        program.leave(0)

    def write_exit(self, program: TaskAssembly, tracing: Tracing) -> None:
        """Write the end."""
        event = tracing.reserve(program)
        program.move(R6, R1)
        self.pass_over(program, "done")
        keep_cpu(program, tracing)
        self.find(program)
        program.jump_if(R0, "==", 0, "done")
        program.move(R8, R0)
        served = Record(R8, self.served)
        program.get(R1, served, "ended")
        program.compute(R1, "+=", 1)
        program.set(served, "ended", R1)
        program.get(R9, served, "begun_ns")
        program.jump_if(R9, "==", 0, "unknown")
        read_clock(program, R0)
        program.compute(R0, "-=", R9)
        program.set(event, "time_ns", R0)
        self.describe(program, event, served)
        program.set(served, "begun_ns", 0)
        tracing.write(program, event, R6, R6)
        program.jump("done")
        program.label("unknown")
        self._unknown.emit_count(program)
        program.label("done")
        program.leave(0)

    def find(self, program: TaskAssembly) -> None:
        """Emit what sets R0 to what this cpu serves there, R6 holding the tracepoint's arguments; zero for no place."""
        place = program.reserve(_PLACE)
        program.set(place, "place", 0)
        program.look_up(self._served, place)

    def go_on(self, program: TaskAssembly, served: Record, otherwise: str) -> None:
        """Emit what goes to a label where this is not the beginning, but a part of what has begun."""

    def keep(self, program: TaskAssembly, served: Record) -> None:
        """Emit what keeps of one that begins what is not told at its end, R9 holding when it did."""

    def pass_over(self, program: TaskAssembly, otherwise: str) -> None:
        """Emit what goes to a label where this is not the end yet."""

    def describe(self, program: TaskAssembly, event: Record, served: Record) -> None:
        """Emit what sets the labels and the other values of an event, R9 holding when it began."""

    def read_made(self) -> int:
        """Read what the file counts of the target's cpus; of interrupts those of lines, which alone are served so."""
        table = parse_interrupts(read_file("/", self.counts))
        return compute_total(table, filter(self.is_counted, table.lines), self._cpus)

    def is_counted(self, label: str) -> bool:
        """Tell whether what a line of the file counts passes the tracepoint."""
        return True

    def read_seen(self) -> int:
        """Read how many ended."""
        return int(self._served.read().values["ended"].sum())

    def read_fields(self) -> Mapping[str, int]:
        """Return how many ended that had begun before anybody looked; they are in no event."""
        return {"begun_before": self._unknown.read_count()}


def keep_cpu(program: TaskAssembly, tracing: Tracing) -> None:
    """Emit what goes to `done` on a cpu that is not the target's, whatever task is there."""
    keeper = tracing.tasks.filter
    if isinstance(keeper, OnCpus):
        keeper.keep_cpu(program, "done")


class LineInterrupts(ServedInterrupts):
    """Interrupts of lines, each from its first handler to its last one's end."""

    measured = ("time_ns",)
    unit = "interrupts"
    labels = (Label("irq", spell=str), Label("description", f"S{_NAME_BYTES}"))
    tracepoint = "irq_handler"
    counts = "/proc/interrupts"
    served = np.dtype([*_SERVED.descr, ("description", f"S{_NAME_BYTES}")])

    def is_counted(self, label: str) -> bool:
        """Tell a line's number from the name of what the architecture counts, which has no handler."""
        return label.isdigit()

    def go_on(self, program: TaskAssembly, served: Record, otherwise: str) -> None:
        """Leave the second handler of a shared line to what the first began; where records are read each is its own."""
        if isinstance(program, KernelAssembly):
            program.get(R1, served, "begun_ns")
            program.jump_if(R1, "!=", 0, otherwise)

    def pass_over(self, program: TaskAssembly, otherwise: str) -> None:
        """Wait for the last handler of a line that devices share; no record tells which it is."""
        if isinstance(program, KernelAssembly):
            program.read_argument(R7, R6, 1)
            program.read_field(R1, R7, "irqaction", "next")
            program.jump_if(R1, "!=", 0, otherwise)

    def keep(self, program: TaskAssembly, served: Record) -> None:
        """Keep what the handler is called where the record says it, which it does of the beginning alone."""
        if not isinstance(program, RecordedAssembly):
            return
        program.copy_text(served, "description", R6, program.fields["name"])

    def describe(self, program: TaskAssembly, event: Record, served: Record) -> None:
        """Set the line, and what its handler is called."""
        program.read_argument(R1, R6, 0)
        program.compute(R1, "&=", _INTEGER)
        program.set(event, "irq", R1)
        if isinstance(program, KernelAssembly):
            program.read_field(R3, R7, "irqaction", "name")
            program.move(R2, _NAME_BYTES)
            program.point_at(R1, event, "description")
            program.call("probe_read_kernel_str")
        else:
            program.copy_words(event, served, "description")


class DeferredInterrupts(ServedInterrupts):
    """Deferred interrupt work by its kind."""

    measured: tuple[str, ...] = ("time_ns",)
    unit = "softirqs"
    labels = (Label("softirq", spell=name_softirq),)
    tracepoint = "softirq"
    counts = "/proc/softirqs"
    places = len(SOFTIRQS)

    def find(self, program: TaskAssembly) -> None:
        """Look the kind up, the tracepoint's only argument."""
        place = program.reserve(_PLACE)
        program.read_argument(R1, R6, 0)
        program.set(place, "place", R1)
        program.look_up(self._served, place)

    def describe(self, program: TaskAssembly, event: Record, served: Record) -> None:
        """Set the kind."""
        program.read_argument(R1, R6, 0)
        program.compute(R1, "&=", _INTEGER)
        program.set(event, "softirq", R1)


class RaisedInterrupts(DeferredInterrupts):
    """Deferred interrupt work with how long it waited since it was first raised on its cpu."""

    measured = ("time_ns", "raised_to_served_ns")

    def load(self, tracing: Tracing) -> None:
        """Load what sees work raised too."""
        super().load(tracing)
        tracing.load_event("softirq_raise", self.write_raise)

    def write_raise(self, program: TaskAssembly) -> None:
        """Write softirq_raise(number): raised again before it is served, it waits since the first time."""
        program.move(R6, R1)
        self.find(program)
        program.jump_if(R0, "==", 0, "done")
        program.move(R8, R0)
        served = Record(R8, self.served)
        program.get(R1, served, "raised_ns")
        with program.when(R1, "==", 0):
            read_clock(program, R0)
            program.set(served, "raised_ns", R0)
        program.label("done")
        program.leave(0)

    def keep(self, program: TaskAssembly, served: Record) -> None:
        """Keep how long it waited since it was raised: what is raised while it is served is of the next time."""
        program.get(R1, served, "raised_ns")
        program.set(served, "waited_ns", ABSENT)
        with program.when(R1, "!=", 0):
            program.compute(R9, "-=", R1)
            program.set(served, "waited_ns", R9)
        program.set(served, "raised_ns", 0)

    def describe(self, program: TaskAssembly, event: Record, served: Record) -> None:
        """Set the kind, and how long it waited."""
        super().describe(program, event, served)
        program.get(R1, served, "waited_ns")
        program.set(event, "raised_to_served_ns", R1)
