"""cpu.cycles and its relatives: what a processor's own counters say. Without them, cycles are cpu time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omn_kernel.perf.counters import CounterCollector, Row


class HardwareCounter(CounterCollector):
    """One hardware event. How long it was enabled and how long it ran stand beside it, in nanoseconds."""

    def make_amounts(self, row: Row) -> dict[str, Any]:
        """Return the count and its times."""
        (counted,) = row.counted.values()
        times = {"enabled_ns": counted.enabled_ns, "running_ns": counted.running_ns}
        return {**super().make_amounts(row), **times}


class Cycles(HardwareCounter):
    """Cycles of the core's clock."""

    events: Mapping[str, str] = {"cycles": "hw:cycles"}


class Instructions(HardwareCounter):
    """Instructions that were retired."""

    events: Mapping[str, str] = {"instructions": "hw:instructions"}


class Branches(HardwareCounter):
    """Branches that were retired."""

    events: Mapping[str, str] = {"branches": "hw:branches"}


class BranchMisses(HardwareCounter):
    """Branches that went another way than was predicted."""

    events: Mapping[str, str] = {"branch_misses": "hw:branch-misses"}


class CacheReferences(HardwareCounter):
    """What was asked of the last cache before memory, as the processor's maker defines it."""

    events: Mapping[str, str] = {"cache_refs": "hw:cache-references"}


class CacheMisses(HardwareCounter):
    """What that cache did not hold."""

    events: Mapping[str, str] = {"cache_misses": "hw:cache-misses"}


class CpuClock(CounterCollector):
    """Nanoseconds of the cpu clock in place of cycles: how long ran what would have counted them."""

    events: Mapping[str, str] = {"cycles": "sw:cpu-clock"}


class TaskClock(CounterCollector):
    """Nanoseconds that a process ran, with what it started."""

    events: Mapping[str, str] = {"oncpu_ns": "sw:task-clock"}
