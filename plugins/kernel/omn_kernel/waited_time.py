"""The cpu time of children that a process waited for, beside its own clock, which holds none of it."""

from __future__ import annotations

import os

from omn_kernel.procfs.task import TICK_NS
from omn_kernel.procfs.tree import Member


def read_waited_ns(member: Member, own_ns: int) -> int:
    """Read the cpu nanoseconds of the children that a process waited for, beside `own_ns` of its own.

    Whole clock ticks of user and of system time while it lives, each rounded down (proc(5)). Of a child of this process
    that has ended, the account that comes with its reaping, by the microsecond.
    """
    ticks = member.stat.waited_user_ticks + member.stat.waited_system_ticks
    if member.has_ended and member.waited_faults and member.stat.parent == os.getpid():
        from omn_kernel.native.calls import find_ended_cpu_ns

        whole_ns = find_ended_cpu_ns(member.pid)
        if whole_ns is not None:
            return max(whole_ns - own_ns, ticks * TICK_NS)
    return ticks * TICK_NS
