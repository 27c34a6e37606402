"""The machine a session was resolved on, so that a difference between two machines is explained from two records."""

from __future__ import annotations

import os
import time
from typing import Any

from omn_core.run import linux_machine as machine


def read_environment(sysroot: str = "/") -> dict[str, Any]:
    """Return the record of this machine, as plain values. What could not be read is None.

    `cpus` are numbers of cpus with the online ones as the kernel lists them; `clock_resolution_ns` is CLOCK_MONOTONIC's
    (clock_getres); `sysroot` is not None where a folder stood in for `/`.
    """
    system = os.uname()
    chosen = machine.find_text(sysroot, "sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "kernel": system.release,
        "kernel_version": system.version,
        "arch": system.machine,
        "cpus": _read_cpus(sysroot),
        "privileges": machine.read_privileges(sysroot),
        "virtualization": machine.find_hypervisor(sysroot),
        "container": machine.find_container(sysroot),
        "clocksource": machine.find_text(sysroot, "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "clock": "CLOCK_MONOTONIC",
        "clock_resolution_ns": round(time.clock_getres(time.CLOCK_MONOTONIC) * 1e9),
        "transparent_hugepages": None if chosen is None else machine.parse_chosen(chosen),
        "perf_event_paranoid": machine.find_number(sysroot, "proc/sys/kernel/perf_event_paranoid"),
        "page_size": os.sysconf("SC_PAGE_SIZE"),
        "boot_id": machine.find_text(sysroot, "proc/sys/kernel/random/boot_id"),
        "sysroot": None if sysroot == "/" else sysroot,
    }


def _read_cpus(sysroot: str) -> dict[str, Any]:
    lists = {name: machine.find_text(sysroot, f"sys/devices/system/cpu/{name}") for name in ("possible", "online")}
    counts = {name: None if text is None else len(machine.parse_cpu_list(text)) for name, text in lists.items()}
    return {**counts, "online_list": lists["online"]}
