"""What /proc/<pid>/{stat,statm,status,schedstat,io} say of a task. Pure functions from bytes; see proc(5)."""

from __future__ import annotations

import os

import attrs

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
"""Bytes of a page, the unit of statm and of every page counter."""

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
"""Nanoseconds of a clock tick, the unit of cpu time in /proc/stat and /proc/<pid>/stat."""

ENDED = frozenset({"Z", "X", "x"})
"""Task states after the end of a life: a zombie waits for its parent, a dead task is on its way out."""

KERNEL_THREAD = 0x0020_0000
"""PF_KTHREAD of <linux/sched.h>: a task without an address space of a program."""


@attrs.frozen(repr=False)
class TaskStat:
    """Fields of /proc/<pid>/stat. `comm` is bytes as the task set them; ticks are of 1/`SC_CLK_TCK` seconds.

    `waited_` counts what children had counted when this process waited for them, their own waited-for children
    included: the kernel adds it as it takes a child away.
    """

    comm: bytes
    state: str
    parent: int
    flags: int
    minor_faults: int
    waited_minor_faults: int
    major_faults: int
    waited_major_faults: int
    user_ticks: int
    system_ticks: int
    waited_user_ticks: int
    waited_system_ticks: int
    threads: int
    start_ticks: int

    @property
    def has_ended(self) -> bool:
        """Whether this task, a thread, is a zombie or dead."""
        return self.state in ENDED

    @property
    def process_has_ended(self) -> bool:
        """Whether every thread is: a first thread that ended beside live ones is a zombie, and its process is not."""
        return self.has_ended and self.threads <= 1

    @property
    def is_kernel_thread(self) -> bool:
        """Whether the kernel made it, so that it has no memory of its own."""
        return bool(self.flags & KERNEL_THREAD)


def parse_stat(content: bytes) -> TaskStat:
    """Parse /proc/<pid>/stat. Raises ValueError for anything else.

    The name stands in parentheses unescaped and may hold any byte, a closing parenthesis among them: what follows it
    starts after the last one.
    """
    start, end = content.find(b"("), content.rfind(b")")
    fields = content[end + 2 :].split(b" ", 20)
    if start < 0 or end < start or len(fields) < 20:
        raise ValueError(f"no stat of a task: {content[:80]!r}")
    return TaskStat(
        comm=content[start + 1 : end],
        state=chr(fields[0][0]),
        parent=int(fields[1]),
        flags=int(fields[6]),
        minor_faults=int(fields[7]),
        waited_minor_faults=int(fields[8]),
        major_faults=int(fields[9]),
        waited_major_faults=int(fields[10]),
        user_ticks=int(fields[11]),
        system_ticks=int(fields[12]),
        waited_user_ticks=int(fields[13]),
        waited_system_ticks=int(fields[14]),
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
    )


def parse_faults(content: bytes) -> tuple[int, int]:
    """Parse the minor and the major faults of /proc/<pid>/stat (fields 10 and 12), nothing else."""
    fields = content[content.rindex(b")") + 2 :].split(b" ", 10)
    return int(fields[7]), int(fields[9])


def parse_statm(content: bytes) -> tuple[int, int, int]:
    """Parse pages of address space, resident pages, and resident pages of files and shared memory of statm.

    All three are zero for a task without an address space: a kernel thread, a zombie.
    """
    size, resident, shared, _ = content.split(b" ", 3)
    return int(size), int(resident), int(shared)


def find_status_field(content: bytes, name: str) -> str | None:
    """Find a field of /proc/<pid>/status by its name, None where this kernel writes none.

    The kernel escapes newlines in the task's name, so that a line is a field whatever the task calls itself.
    """
    label = b"\n" + name.encode() + b":"
    start = (b"\n" + content).find(label)
    if start < 0:
        return None
    start += len(label) - 1
    end = content.find(b"\n", start)
    return content[start : None if end < 0 else end].strip().decode("utf-8", "surrogateescape")


def parse_switches(content: bytes) -> tuple[int, int]:
    """Parse how often a task left its cpu by itself, and how often it was made to, of /proc/<pid>/status.

    Raises ValueError where a line of either is not there.
    """
    voluntary = find_status_field(content, "voluntary_ctxt_switches")
    involuntary = find_status_field(content, "nonvoluntary_ctxt_switches")
    if voluntary is None or involuntary is None:
        raise ValueError(f"no switches in the status of a task: {content[:80]!r}")
    return int(voluntary), int(involuntary)


def find_sched_counter(content: bytes, name: str) -> int | None:
    """Find a whole number of /proc/<pid>/sched by its name (`se.nr_migrations`), None where this kernel writes none.

    The first line is the task's name, unescaped: it may hold anything, newlines among it, and ends before the rule.
    """
    rule = content.find(b"\n----")
    start = content.find(b"\n" + name.encode() + b" ", max(rule, 0))
    if start < 0:
        return None
    line = content[start + 1 :].split(b"\n", 1)[0]
    return int(line.rpartition(b":")[2])


@attrs.frozen(repr=False)
class SchedulerAccount:
    """Nanoseconds on a cpu, nanoseconds runnable and waiting for one, and times put on one."""

    run_ns: int
    wait_ns: int
    slices: int


def parse_schedstat(content: bytes) -> SchedulerAccount:
    """Parse /proc/<pid>/schedstat, or a task's. Raises ValueError where the kernel wrote something else."""
    run_ns, wait_ns, slices = content.split()
    return SchedulerAccount(int(run_ns), int(wait_ns), int(slices))


def parse_io(content: bytes) -> dict[str, int]:
    """Parse /proc/<pid>/io, or a task's, by the kernel's names: bytes, and system calls (syscr, syscw)."""
    lines = (line.partition(b": ") for line in content.split(b"\n"))
    return {name.decode(): int(value) for name, colon, value in lines if colon}
