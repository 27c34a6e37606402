"""The kernel's accounts of a thread and the time that they are of, read as one moment."""

from __future__ import annotations

from pathlib import Path

from omn_kernel.procfs.task import TICK_NS

READ_MOMENT = """
import os, resource, time
def count_switches():
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_nvcsw, used.ru_nivcsw
def read_moment():
    while True:
        time.sleep(0.001)
        switches = count_switches()
        with open("/proc/stat") as file:
            stolen = int(file.readline().split()[8]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        with open("/proc/thread-self/schedstat") as file:
            ran, waited, _ = file.read().split()
        now_ns = time.monotonic_ns()
        if count_switches() == switches:
            return [now_ns, *switches, int(ran), int(waited), stolen]
"""
"""Python that a test's program begins with: `read_moment()` is the time (CLOCK_MONOTONIC), the thread's switches by
choice and by force, what it ran and waited, and what hypervisors took of all cpus, nanoseconds.

All but the last change where a thread is switched to or away from, and its account of what it ran with each tick, which
a sleep before has just renewed. A thread that lost its cpu between two of them would say them of two moments, a whole
wait apart: it reads again until it kept its cpu throughout.
"""


def read_stolen() -> int:
    """Read what hypervisors took of all cpus, nanoseconds, a tick and more late: proc(5), /proc/stat.

    The scheduler leaves it out of what a task ran, other clocks do not, and no timer is served meanwhile.
    """
    return int(Path("/proc/stat").read_text().split("\n")[0].split()[8]) * TICK_NS
