"""cpu.pressure: time in which runnable tasks waited for a cpu (Documentation/accounting/psi)."""

from __future__ import annotations

from omn_kernel.pressure import PressureCollector


class CpuPressure(PressureCollector):
    """/proc/pressure/cpu, and cpu.pressure of a cgroup2 cgroup.

    A task that waits for a cpu means that another runs on it, so that the machine is never stalled in full: since
    5.13 the kernel writes zeros there (before, nothing), and no figure is made of them.
    """

    resource = "cpu"
    machine_lines = ("some",)
