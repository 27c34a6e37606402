"""cpufreq's policies in sysfs: which there are, and for which cpus (Documentation/admin-guide/pm/cpufreq.rst)."""

from __future__ import annotations

import os

from omn_kernel.polled import place, read_file

POLICIES = "/sys/devices/system/cpu/cpufreq"


def list_policies(sysroot: str) -> list[str]:
    """List the policies by the names of their folders, in the order of their numbers. Empty without cpufreq."""
    try:
        names = os.listdir(place(sysroot, POLICIES))
    except OSError:
        return []
    policies = [name for name in names if name.removeprefix("policy").isdigit()]
    return sorted(policies, key=lambda name: int(name.removeprefix("policy")))


def read_policy(sysroot: str, policy: str) -> tuple[int, ...]:
    """Read which online cpus a policy is for: none where they all are offline."""
    try:
        # Numbers between spaces, unlike the lists of the folder above.
        return tuple(map(int, read_file(sysroot, f"{POLICIES}/{policy}/affected_cpus").split()))
    except (OSError, ValueError):
        return ()
