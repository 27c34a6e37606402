"""cpu.profile, and the samples of the sources that count: where in the code each so many of an event came."""

from __future__ import annotations

from omn_kernel.perf.sampling import SamplingCollector


class Profile(SamplingCollector):
    """Each sample stands for the time since the last that was due while the task ran."""

    event = "sw:cpu-clock"
    value = "oncpu_ns"


class TaskClockSamples(SamplingCollector):
    """Time on a cpu by the clock that cpu.oncpu_time counts with."""

    event = "sw:task-clock"
    value = "oncpu_ns"


class CycleSamples(SamplingCollector):
    """Cycles of the core's clock."""

    event = "hw:cycles"
    value = "cycles"


class CpuClockSamples(SamplingCollector):
    """Nanoseconds of the cpu clock in place of cycles."""

    event = "sw:cpu-clock"
    value = "cycles"


class InstructionSamples(SamplingCollector):
    """Instructions that were retired."""

    event = "hw:instructions"
    value = "instructions"


class BranchSamples(SamplingCollector):
    """Branches that were retired."""

    event = "hw:branches"
    value = "branches"


class BranchMissSamples(SamplingCollector):
    """Branches that went another way than was predicted."""

    event = "hw:branch-misses"
    value = "branch_misses"


class CacheReferenceSamples(SamplingCollector):
    """What was asked of the last cache before memory."""

    event = "hw:cache-references"
    value = "cache_refs"


class CacheMissSamples(SamplingCollector):
    """What that cache did not hold."""

    event = "hw:cache-misses"
    value = "cache_misses"
