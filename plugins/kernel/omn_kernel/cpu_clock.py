"""The cpu clock of another process: nanoseconds its threads ran, those that ended included (clock_getcpuclockid(3))."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping

from omn_kernel.procfs.process import ProcessGone

_CPUCLOCK_SCHED = 2
"""CPUCLOCK_SCHED of <linux/posix-timers.h>: the scheduler's own nanoseconds, not ticks."""


def read_process_clock(pid: int) -> int:
    """Read the nanoseconds that a process has run on cpus since it was made, with every thread it ever had.

    The scheduler's sum of exact increments, the last of a running thread as of its latest tick or switch. It needs no
    privilege, reads a zombie until that is reaped, and a number that names only a thread reads as no process.
    Raises ProcessGone where there is no such process, OSError where the kernel has no such clocks.
    """
    try:
        return time.clock_gettime_ns(~pid << 3 | _CPUCLOCK_SCHED)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ESRCH):
            raise ProcessGone(f"process {pid} is not there") from None
        raise


def has_process_clocks() -> bool:
    """Tell whether this kernel reads a process's clock by the process's number: it reads this process's own.

    Raises OSError as the kernel does where something keeps the call from it.
    """
    try:
        return read_process_clock(os.getpid()) > 0
    except ProcessGone:
        return False


class CpuClock:
    """The clock of one process as a source of its reading: it is read by the process's number, so nothing is held."""

    name = "cpu clock"

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def read(self) -> Mapping[str, int]:
        """Read `oncpu_ns`, the nanoseconds it has run. Raises ProcessGone when the process was reaped."""
        return {"oncpu_ns": read_process_clock(self._pid)}

    def close(self) -> None:
        """Do nothing."""
