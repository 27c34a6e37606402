"""mem.pressure: time in which tasks waited for memory, of the machine and of a cgroup."""

from __future__ import annotations

from omn_kernel.pressure import PressureCollector


class MemoryPressure(PressureCollector):
    """/proc/pressure/memory, and memory.pressure of a cgroup2 cgroup."""

    resource = "memory"
