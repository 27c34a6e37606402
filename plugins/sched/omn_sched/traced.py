"""Collectors of what programs in the kernel measure."""

from __future__ import annotations

from omn_kernel.bpf.record_arguments import reads_records
from omn_kernel.bpf.traced import TracedEvents
from omn_kernel.bpf.tracing import Tracer

from omn_core.api import ResolvedRequest
from omn_sched.programs import wakeups
from omn_sched.programs.interrupts import DeferredInterrupts, LineInterrupts, RaisedInterrupts
from omn_sched.programs.migrations import TaskMigrations
from omn_sched.programs.numa_balance import NodeDecisions
from omn_sched.programs.runqlat import RunQueueWaits
from omn_sched.programs.switches import SwitchesAway


class Waits(TracedEvents):
    """Each wait for a cpu, or the waits that request asks the sums or the histogram of."""

    tracer = RunQueueWaits


class Switches(TracedEvents):
    """Each switch, or the sums of those by choice and by force."""

    tracer = SwitchesAway


class Wakeups(TracedEvents):
    """Each wakeup, or the sums of those by who woke whom."""

    def make_tracer(self, resolved: ResolvedRequest) -> Tracer:
        """Make what follows woken threads until they run only where that time is asked for."""
        untold = wakeups.UNRECORDED if reads_records(resolved) else ()
        labels = [label for label in wakeups.LABELS if resolved.shows(label.name) and label.name not in untold]
        return (wakeups.WakeupTimes if resolved.shows("wake_to_run_ns") else wakeups.Wakeups)(labels)


class Migrations(TracedEvents):
    """Each move of a task to another cpu, or the sums of them."""

    tracer = TaskMigrations


class NodeBalance(TracedEvents):
    """Each decision about the memory node of a task, or the sums of them."""

    tracer = NodeDecisions


class Interrupts(TracedEvents):
    """Each interrupt of a line that was served, or the sums or the histogram of them."""

    tracer = LineInterrupts


class SoftInterrupts(TracedEvents):
    """Each piece of deferred interrupt work that was served, or the sums or the histogram of them."""

    def make_tracer(self, resolved: ResolvedRequest) -> Tracer:
        """Make what sees work raised only where it is asked how long that waited."""
        return RaisedInterrupts() if resolved.shows("raised_to_served_ns") else DeferredInterrupts()
