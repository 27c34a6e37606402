"""Whether this machine has what the family alone asks for."""

from __future__ import annotations

import os

from omn_kernel.hwmon import HWMON, list_numbered
from omn_kernel.polled import place, read_file
from omn_kernel.privileges import explain, read_privileges
from omn_kernel.procfs.cpuinfo import parse_cpu_clocks

from omn_core.api import AVAILABLE, Need, Probe, ProbeContext, State
from omn_power.cooling_devices import iter_cooling
from omn_power.policies import POLICIES, list_policies
from omn_power.rapl import POWERCAP, list_zones
from omn_power.sensors import THERMAL, list_sensors
from omn_power.supplies import SUPPLIES, list_batteries

CPUS = "/sys/devices/system/cpu"

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


def probe_rapl(_need: Need, context: ProbeContext) -> Probe:
    """Answer `rapl`: the meter of some package is there and this user may read it.

    Since Linux 5.10 energy_uj has mode 0400: its fine readings let one program guess another's secrets.
    """
    if not os.path.isdir(place(context.sysroot, POWERCAP)):
        return Probe(State.MISSING, f"nothing here reports to power capping ({POWERCAP} is not there)")
    packages = [zone for zone in list_zones(context.sysroot) if zone.is_package]
    if not packages:
        return Probe(State.MISSING, f"no package has a RAPL meter here ({POWERCAP}/intel-rapl:0 is not there)")
    path = f"{packages[0].folder}/energy_uj"
    try:
        read_file(context.sysroot, path)
    except PermissionError:
        return _restrict_meter(path)
    except OSError as error:
        return Probe(State.UNKNOWN, f"{path} answers {error.strerror}")
    return AVAILABLE


def _restrict_meter(path: str) -> Probe:
    closed = f"{path} is root's alone since Linux 5.10"
    if read_privileges("/").has("dac_read_search"):
        return Probe(State.RESTRICTED, f"{closed}, and it is closed although CAP_DAC_READ_SEARCH is in effect")
    reason, remedy = explain("dac_read_search")
    return Probe(State.RESTRICTED, f"{closed}: {reason}", remedy)


def probe_temperature(_need: Need, context: ProbeContext) -> Probe:
    """Answer `temperature`: some thermal zone or some chip shows one."""
    if list_sensors(context.sysroot):
        return AVAILABLE
    absent = f"{THERMAL}/thermal_zone0 and {HWMON}/hwmon0/temp1_input are not there"
    return Probe(State.MISSING, f"no sensor of this machine shows a temperature ({absent})")


def probe_thermal_throttle(_need: Need, context: ProbeContext) -> Probe:
    """Answer `thermal_throttle`: some cpu keeps an account of how often its heat slowed it, as Intel's do."""
    name = "thermal_throttle/core_throttle_count"
    if any(
        os.path.exists(place(context.sysroot, f"{cpu}/{name}")) for cpu in list_numbered(context.sysroot, CPUS, "cpu")
    ):
        return AVAILABLE
    return Probe(State.MISSING, f"no cpu here counts how often its heat slowed it ({CPUS}/cpu0/{name} is not there)")


def probe_cooling(_need: Need, context: ProbeContext) -> Probe:
    """Answer `cooling`: the kernel can slow some processor for its heat, whether or not it ever has."""
    if any(iter_cooling(context.sysroot)):
        return AVAILABLE
    absent = f"{THERMAL}/cooling_device0 is not there, or slows none"
    return Probe(State.MISSING, f"the kernel has no way to slow a processor for its heat here ({absent})")


def probe_battery(_need: Need, context: ProbeContext) -> Probe:
    """Answer `battery`: the machine has one of its own."""
    if list_batteries(context.sysroot):
        return AVAILABLE
    return Probe(State.MISSING, f"this machine has no battery ({SUPPLIES}/BAT0 is not there)")
