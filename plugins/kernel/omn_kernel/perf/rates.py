"""How often an event is sampled: as was asked, as the kernel allows, and what is taken where nobody said."""

from __future__ import annotations

from omn_core.api import MachineRefused, RequestError, ResolvedRequest
from omn_kernel.perf.attributes import DEFAULT_HZ, Sampling
from omn_kernel.perf.events import PerfEvent, Raised
from omn_kernel.polled import read_file
from omn_kernel.unwind.choosing import NONE, StackWalk

DEFAULT_PERIOD = 13
"""Of a software event that is no clock, where neither is asked: what one sample stands for is then known exactly, where
a frequency has the kernel search for a period from sample to sample. A prime, for the same reason."""

_LEAST_CLOCK_NS = 10_000
"""The kernel's own least period of a clock (perf_swevent_start_hrtimer): it takes a shorter one, and keeps to this."""


def choose_sampling(resolved: ResolvedRequest, event: PerfEvent, walk: StackWalk, *, has_accesses: bool) -> Sampling:
    """Choose how an event is sampled. Raises RequestError for a period that the kernel takes and does not keep to."""
    request = resolved.request
    if event.raised is Raised.CLOCK and request.period is not None and request.period < _LEAST_CLOCK_NS:
        raise RequestError(f"a clock is sampled every {_LEAST_CLOCK_NS} ns at most, not every {request.period}")
    # Of a software event, and not of a clock, a frequency makes the kernel change the period as it goes.
    is_counted = event.is_software and event.raised is not Raised.CLOCK
    period = 1 if resolved.mode == "trace" else request.period
    hz = request.hz
    if hz is None and period is None:
        hz, period = (None, DEFAULT_PERIOD) if is_counted else (DEFAULT_HZ, None)
    return Sampling(
        hz,
        period,
        has_chains=walk != NONE,
        excludes_user_chains=not walk.has_user_chains,
        copies_registers=walk.copies_registers,
        stack_bytes=walk.stack_bytes,
        has_accesses=has_accesses,
        has_streams=hz is not None and is_counted,
        records_tasks=True,
    )


def check_rate(sampling: Sampling) -> None:
    """Raise MachineRefused for a rate that the kernel does not allow."""
    try:
        allowed = int(read_file("/", "/proc/sys/kernel/perf_event_max_sample_rate"))
    except (OSError, ValueError):
        return
    if sampling.hz is not None and sampling.hz > allowed:
        raise MachineRefused(
            f"{sampling.hz} samples a second are more than this kernel takes (kernel.perf_event_max_sample_rate is "
            f"{allowed})",
            "ask for fewer, or raise the setting",
        )
