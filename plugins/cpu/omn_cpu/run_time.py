"""cpu.oncpu_time of the tasks of the machine, of cpus and of cgroups, as the scheduler accounts it."""

from __future__ import annotations

from omn_kernel.bpf.traced import TracedEvents

from omn_cpu.programs.run_time import RunTime


class RunTimes(TracedEvents):
    """The sums of what tasks ran in each interval."""

    tracer = RunTime
