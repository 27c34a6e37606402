"""io.pressure: time in which tasks waited for a block device, of the machine and of a cgroup."""

from __future__ import annotations

from omn_kernel.pressure import PressureCollector


class IoPressure(PressureCollector):
    """/proc/pressure/io, and io.pressure of a cgroup2 cgroup."""

    resource = "io"
