"""Whether this kernel has what the family alone asks for."""

from __future__ import annotations

from omn_kernel.cpu_clock import has_process_clocks

from omn_core.api import AVAILABLE, Need, Probe, ProbeContext, State


def probe_cpu_clock(need: Need, context: ProbeContext) -> Probe:  # the hook's signature
    """Answer `cpu_clock`: a process's cpu clock can be read by its number.

    It is asked of the running kernel whatever stands for `/`: a clock is a system call and no file.
    """
    try:
        if has_process_clocks():
            return AVAILABLE
    except OSError as error:
        return Probe(State.RESTRICTED, f"clock_gettime refuses a process's clock: {error.strerror}")
    return Probe(State.MISSING, "this kernel reads no cpu clock of another process (CONFIG_POSIX_TIMERS)")
