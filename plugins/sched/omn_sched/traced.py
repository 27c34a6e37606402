"""Collectors of what programs in the kernel measure."""

from __future__ import annotations

from omn_kernel.bpf.traced import TracedEvents

from omn_sched.programs.runqlat import RunQueueWaits
from omn_sched.programs.switches import SwitchesAway


class Waits(TracedEvents):
    """Each wait for a cpu, or the waits that request asks the sums or the histogram of."""

    tracer = RunQueueWaits


class Switches(TracedEvents):
    """Each switch, or the sums of those by choice and by force."""

    tracer = SwitchesAway
