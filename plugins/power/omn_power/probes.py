"""Whether this machine has what the family alone asks for."""

from __future__ import annotations

import os

from omn_kernel.polled import place, read_file
from omn_kernel.procfs.cpuinfo import parse_cpu_clocks

from omn_core.api import AVAILABLE, Need, Probe, ProbeContext, State
from omn_power.policies import POLICIES, list_policies

_CHOSEN_BY_HARDWARE = frozenset({"amd-pstate-epp", "intel_pstate"})
"""Drivers that hand the choice of a frequency to the processor, which announces none (intel_pstate where active)."""


def probe_cpufreq(need: Need, context: ProbeContext) -> Probe:
    """Answer `cpufreq:scaling_cur_freq`, a file of some policy, or `cpufreq:transitions`, changes that are announced.

    The cpu_frequency tracepoint is there on every machine, and silent on one without a driver or whose processor
    chooses by itself: what fires it is asked, the kernel's own count of changes.
    """
    policies = [f"{POLICIES}/{policy}" for policy in list_policies(context.sysroot)]
    if not policies:
        return Probe(State.MISSING, f"no cpufreq driver is at work here ({POLICIES}/policy0 is not there)")
    name = "stats/total_trans" if need.argument == "transitions" else need.argument
    if any(os.path.exists(place(context.sysroot, f"{policy}/{name}")) for policy in policies):
        return AVAILABLE
    if need.argument != "transitions":
        return Probe(State.MISSING, f"the driver of {policies[0]} has no {name}")
    try:
        driver = read_file(context.sysroot, f"{policies[0]}/scaling_driver").decode().strip()
    except OSError as error:
        return Probe(State.UNKNOWN, f"the driver of {policies[0]} cannot be read: {error.strerror}")
    if driver in _CHOSEN_BY_HARDWARE:
        return Probe(State.MISSING, f"under {driver} the processor chooses its frequency and announces no change")
    return Probe(State.UNKNOWN, f"{driver} keeps no count of changes ({policies[0]}/{name})")


def probe_cpu_mhz(_need: Need, context: ProbeContext) -> Probe:
    """Answer whether /proc/cpuinfo states a clock for any cpu, as on x86."""
    try:
        clocks = parse_cpu_clocks(read_file(context.sysroot, "/proc/cpuinfo"))
    except OSError as error:
        return Probe(State.MISSING, f"/proc/cpuinfo cannot be read: {error.strerror}")
    if any(clock is not None for clock in clocks.values()):
        return AVAILABLE
    return Probe(State.MISSING, "/proc/cpuinfo states no `cpu MHz` on this machine")
