"""cpu.profile: the cpu clock, sampled."""

from __future__ import annotations

from omn_kernel.perf.sampling import SamplingCollector


class Profile(SamplingCollector):
    """Each sample stands for the time since the last that was due while the task ran."""

    event = "sw:cpu-clock"
    value = "oncpu_ns"
