"""power.cstate by programs on cpu_idle: summed in the kernel, or each period by itself."""

from __future__ import annotations

from omn_kernel.bpf.choosing import ChosenCollector

from omn_core.api import Collector, ResolvedRequest
from omn_power.idle_periods import IdleSums
from omn_power.idle_trace import IdleTrace


class IdleEvents(ChosenCollector):
    """Periods one by one where they are traced, their sums otherwise."""

    def choose(self, resolved: ResolvedRequest) -> Collector:
        """Make the collector for a request."""
        return IdleTrace() if resolved.mode == "trace" else IdleSums()
