"""What the machine-wide files of /proc hold: stat, meminfo, vmstat, loadavg. Pure functions from bytes; see proc(5)."""

from __future__ import annotations

import attrs

from omn_kernel.procfs.task import SchedulerAccount

CPU_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
"""The columns of a cpu line, in ticks. A kernel that writes fewer lacks the last ones."""


def parse_cpu_ticks(content: bytes) -> dict[int | None, tuple[int, ...]]:
    """Parse the cpu lines of /proc/stat: ticks in the order of `CPU_FIELDS`, None for the line of all cpus.

    A cpu that is offline has no line. User and nice already hold guest and guest_nice.
    """
    ticks: dict[int | None, tuple[int, ...]] = {}
    for line in content.split(b"\n"):
        if not line.startswith(b"cpu"):
            break
        name, *numbers = line.split()
        ticks[int(name[3:]) if len(name) > 3 else None] = tuple(map(int, numbers[: len(CPU_FIELDS)]))
    return ticks


def parse_cpu_accounts(content: bytes) -> dict[int, SchedulerAccount]:
    """Parse the cpu lines of /proc/schedstat (sched-stats.rst): what tasks ran and waited on each cpu that is online.

    The last three of a line's nine fields, in every version of the file since 14 (2.6.20).
    """
    accounts: dict[int, SchedulerAccount] = {}
    for line in content.split(b"\n"):
        if line.startswith(b"cpu"):
            name, *numbers = line.split()
            accounts[int(name[3:])] = SchedulerAccount(*map(int, numbers[6:9]))
    return accounts


def find_stat_counter(content: bytes, name: str) -> int | None:
    """Find a one-number line of /proc/stat (processes, ctxt, procs_running, btime), None where there is none."""
    start = content.find(b"\n" + name.encode() + b" ")
    return None if start < 0 else int(content[start + len(name) + 2 :].split(None, 1)[0])


def parse_meminfo(content: bytes) -> dict[bytes, int]:
    """Parse /proc/meminfo by the kernel's names: bytes where it writes kB, plain counts elsewhere (HugePages_Total)."""
    amounts: dict[bytes, int] = {}
    for line in content.split(b"\n"):
        name, colon, rest = line.partition(b":")
        if colon:
            amounts[name] = int(rest[:-3]) * 1024 if rest.endswith(b" kB") else int(rest)
    return amounts


def parse_flat_keyed(content: bytes) -> dict[bytes, int]:
    """Parse `name value` lines: /proc/vmstat, a node's numastat, memory.stat, memory.events, cpu.stat."""
    counters: dict[bytes, int] = {}
    for line in content.split(b"\n"):
        name, space, value = line.partition(b" ")
        if space:
            counters[name] = int(value)
    return counters


@attrs.frozen
class LoadAverage:
    """The kernel's decaying averages of tasks running or in uninterruptible sleep, and the tasks of this instant."""

    one_minute: float
    five_minutes: float
    fifteen_minutes: float
    runnable: int
    tasks: int


def parse_loadavg(content: bytes) -> LoadAverage:
    """Parse /proc/loadavg."""
    one, five, fifteen, tasks, _ = content.split(None, 4)
    runnable, _, total = tasks.partition(b"/")
    return LoadAverage(float(one), float(five), float(fifteen), int(runnable), int(total))
