"""sched.switches and sched.migrations through the kernel's software events: with all that a process starts."""

from __future__ import annotations

from collections.abc import Mapping

from omn_kernel.perf.counters import CounterCollector
from omn_kernel.perf.sampling import SamplingCollector


class Switches(CounterCollector):
    """Switches away from the tasks that are counted, by choice and by force together.

    An event of a task is enabled while that runs, which is what `oncpu_ns` says. No rate divides by it.
    """

    events: Mapping[str, str] = {"switches": "sw:context-switches"}
    oncpu = "oncpu_ns"


class Migrations(CounterCollector):
    """Moves of the counted tasks to another cpu; of a cpu, moves to it."""

    events: Mapping[str, str] = {"migrations": "sw:cpu-migrations"}


class SwitchRecords(SamplingCollector):
    """Switches one by one, or one for so many: which task gave its cpu up, and where in its code."""

    event = "sw:context-switches"
    value = "switches"


class MigrationRecords(SamplingCollector):
    """Moves one by one, or one for so many: which task came to another cpu, to which, and where in its code it was."""

    event = "sw:cpu-migrations"
    value = "migrations"
