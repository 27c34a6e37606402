"""Which process a pid is: when it began, whose it is, what it is called in its own namespace."""

from __future__ import annotations

import os
import time

import attrs

from omn_kernel.polled import place, read_file
from omn_kernel.procfs.process import ProcessGone, read_stat
from omn_kernel.procfs.task import find_status_field


@attrs.frozen(repr=False)
class Identity:
    """A process as it was when it was read. `begun_ns` is on CLOCK_MONOTONIC, exact to a clock tick, never late."""

    pid: int
    inner_pid: int
    owner: int
    begun_ns: int


def find_identity(sysroot: str, pid: int) -> Identity | None:
    """Find who a pid is now, from its stat and status files, None where it is gone or closed to this user."""
    try:
        stat = read_stat(sysroot, pid)
        status = read_file(sysroot, f"/proc/{pid}/status")
    except (OSError, ProcessGone):
        return None
    inner, owner = find_status_field(status, "NSpid"), find_status_field(status, "Uid")
    # The boot clock counts suspended time and the monotonic one does not.
    asleep_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return Identity(
        pid=pid,
        inner_pid=int(inner.split()[-1]) if inner else pid,
        owner=int(owner.split()[1]) if owner else -1,
        begun_ns=stat.start_ticks * tick_ns - asleep_ns,
    )


def find_root(sysroot: str, pid: int) -> str:
    """Return the folder that is a process's own `/`: its mount namespace, and its root within it."""
    return place(sysroot, f"/proc/{pid}/root")
