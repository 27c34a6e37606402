"""The kernel's release, capabilities, the loader, and the requirement that asks nothing."""

from __future__ import annotations

from omn_core.api import AVAILABLE, Need, Probe, ProbeContext, State
from omn_kernel.cpu_clock import has_process_clocks
from omn_kernel.polled import read_file
from omn_kernel.privileges import CAPABILITIES, explain, read_privileges
from omn_kernel.release import parse_release, read_release


def probe_kernel(need: Need, context: ProbeContext) -> Probe:
    """Answer `kernel>=5.8` from /proc/sys/kernel/osrelease: for what can be asked no other way."""
    try:
        text = read_release(context.sysroot)
    except OSError as error:
        return Probe(State.UNKNOWN, f"the kernel's release cannot be read: {error.strerror}")
    release, wanted = parse_release(text), parse_release(need.argument)
    if release is None or wanted is None:
        return Probe(State.UNKNOWN, f"the kernel calls itself {text!r}, which names no release")
    if release >= wanted:
        return AVAILABLE
    spelled = text.partition("-")[0]
    return Probe(State.MISSING, f"this is Linux {spelled}, and it takes {need.argument} or later")


def probe_capability(need: Need, context: ProbeContext) -> Probe:
    """Answer `cap:perfmon` from the effective set of this process."""
    if need.argument not in CAPABILITIES:
        return Probe(State.MISSING, f"Linux has no capability CAP_{need.argument.upper()}")
    try:
        if read_privileges(context.sysroot).has(need.argument):
            return AVAILABLE
        return Probe(State.RESTRICTED, *explain(need.argument, context.sysroot))
    except OSError as error:
        return Probe(State.UNKNOWN, f"this process's capabilities cannot be read: {error.strerror}")


def probe_cpu_clock(_need: Need, _context: ProbeContext) -> Probe:
    """Answer `cpu_clock`: a process's cpu clock can be read by its number.

    It is asked of the running kernel whatever stands for `/`: a clock is a system call and no file.
    """
    try:
        if has_process_clocks():
            return AVAILABLE
    except OSError as error:
        return Probe(State.RESTRICTED, f"clock_gettime refuses a process's clock: {error.strerror}")
    return Probe(State.MISSING, "this kernel reads no cpu clock of another process (CONFIG_POSIX_TIMERS)")


def probe_preload(_need: Need, context: ProbeContext) -> Probe:
    """Answer whether programs here are started by a dynamic loader, which is what honours LD_PRELOAD."""
    try:
        maps = read_file(context.sysroot, "/proc/self/maps")
    except OSError as error:
        return Probe(State.UNKNOWN, f"this process's mappings cannot be read: {error.strerror}")
    if b"/ld-" in maps or b"/ld.so" in maps:
        return AVAILABLE
    return Probe(State.MISSING, "no dynamic loader started this process, so that none here honours a preload")


def probe_nothing(_need: Need, _context: ProbeContext) -> Probe:
    """Answer available: the backend needs nothing of the machine."""
    return AVAILABLE
