"""How Linux is asked: procfs, sysfs, cgroups, pressure, BTF, perf events and eBPF, and what a machine has of them."""

__version__ = "0.1.0"
