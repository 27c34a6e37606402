"""Fixtures of the core's testing kit, for the kernel plugin's tests."""

from omn_core.testing.fixtures import catalog, make_cgroup, registry, sysroot, workload

__all__ = ["catalog", "make_cgroup", "registry", "sysroot", "workload"]
