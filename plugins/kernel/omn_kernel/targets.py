"""Finding cgroups, cpus and block devices. Interfaces and containers have modules of their own, processes the core."""

from __future__ import annotations

from omn_core.api import BoundTarget, MachineRefused, ProbeContext, Target
from omn_kernel.block import get_block_device
from omn_kernel.cgroup import bind_cgroup_path
from omn_kernel.sysfs import read_cpus


def bind_cgroup(target: Target, context: ProbeContext) -> BoundTarget:
    """Find a cgroup by its path; its `place` is a `CgroupPlace`. Raises MachineRefused where it is not there."""
    found = bind_cgroup_path(target.value, context.sysroot)
    return BoundTarget(target, target.scope, place=found, described=found.describe())


def bind_dev(target: Target, context: ProbeContext) -> BoundTarget:
    """Find a block device by its name or by a path; its `place` is a `BlockDevice`. Raises MachineRefused without one.

    A partition is a device of its own, and says which one it is a part of.
    """
    found = get_block_device(context.sysroot, target.value)
    described = {"dev": found.name, "number": found.number}
    if found.whole is not None:
        described["partition_of"] = found.whole
    return BoundTarget(target, target.scope, place=found, described=described)


def bind_cpu(target: Target, context: ProbeContext) -> BoundTarget:
    """Check that cpus are there and online. Raises MachineRefused naming those that are not, and why."""
    try:
        possible = read_cpus(context.sysroot, "possible")
        online = read_cpus(context.sysroot, "online")
    except OSError as error:
        raise MachineRefused(f"which cpus are online cannot be read: {error.strerror}") from error
    absent = [cpu for cpu in target.value if cpu not in possible]
    if absent:
        raise MachineRefused(f"this machine has no cpu {_spell(absent)}", f"its cpus are {_spell(list(online))}")
    offline = [cpu for cpu in target.value if cpu not in online]
    if offline:
        raise MachineRefused(f"cpu {_spell(offline)} is offline", f"the cpus online are {_spell(list(online))}")
    return BoundTarget(target, target.scope, cpus=tuple(target.value), described={"cpus": list(target.value)})


def _spell(cpus: list[int]) -> str:
    return ",".join(map(str, cpus))
