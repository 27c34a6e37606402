"""What a run cost and what its target used, cpu nanoseconds. What nothing accounts for is None."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol

import attrs

from omn_core.model.collector import BoundTarget, InTargetCost
from omn_core.model.result import Cost
from omn_core.run import linux
from omn_core.run.linux_clock import find_process_cpu_ns, find_thread_cpu_ns, ticks_to_ns
from omn_core.run.tree import Tree

COARSE = (
    "the cpu of processes that the target had already waited for was read in clock ticks (10 ms), not in nanoseconds"
)


class TargetCpu(Protocol):
    """The account of one target's cpu."""

    is_coarse: bool

    def open(self) -> None:
        """Read what it had used before the window."""

    def close(self) -> None:
        """Read what it has used at the close."""

    def total_ns(self) -> int | None:
        """What it used between, None where that cannot be known."""


@attrs.define(eq=False)
class ProgramCpu:
    """The cpu of a launched program's whole tree: itself, its live descendants, its orphans, and all those waited for.

    Of each process the kernel's own clock at the close, less what the program's process used before its exec; of the
    children it waited for, the exact account that comes with its reaping. A process that omn does not reap (no
    subreaper, or not omn's to end) leaves theirs in clock ticks.
    """

    tree: Tree
    is_coarse: bool = False
    _before_ns: int | None = None
    _own_ns: dict[int, int] = attrs.field(factory=dict)
    _children_ns: dict[int, int] = attrs.field(factory=dict)

    def open(self) -> None:
        """Read what the process used before its exec."""
        self._before_ns = find_process_cpu_ns(self.tree.program)

    def close(self) -> None:
        """Read every process of the tree."""
        for member in self.tree.members():
            self._own_ns[member.pid], self._children_ns[member.pid] = _read(member.pid)

    def total_ns(self) -> int | None:
        """Return the tree's cpu. Meant for after the tree was ended and the program reaped."""
        program = self.tree.program
        if self._before_ns is None or program not in self._own_ns:
            return None
        reaped = {process.pid: process for process in self.tree.reaped}
        counted = set(self._own_ns)
        if self.tree.adopts:
            # One that is gone and was not reaped here was reaped by its parent, whose own account holds it.
            counted &= {program, *reaped, *self.tree.survivors}
        total_ns = sum(self._own_ns[pid] for pid in counted) - self._before_ns
        for pid, process in reaped.items():
            # One reaped before the close is in no reading there: all of it is counted here.
            children_ns = max(0, process.with_children_ns - process.own_ns)
            total_ns += children_ns if pid in self._own_ns else process.with_children_ns
        coarse_ns = sum(self._children_ns[pid] for pid in counted - set(reaped))
        self.is_coarse = coarse_ns > 0
        return max(0, total_ns + coarse_ns)


@attrs.define(eq=False)
class ProcessCpu:
    """The cpu of a process that was running already, with its descendants'. None once it has ended."""

    pid: int
    is_coarse: bool = False
    _opened: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    _closed: dict[int, tuple[int, int]] = attrs.field(factory=dict)

    def open(self) -> None:
        """Read the process and its descendants."""
        self._opened = dict(_iter_family(self.pid))

    def close(self) -> None:
        """Read them again."""
        self._closed = dict(_iter_family(self.pid))

    def total_ns(self) -> int | None:
        """Return what they used between; a descendant that ended is in the account of the one that waited for it."""
        if self.pid not in self._opened or self.pid not in self._closed:
            return None
        own_ns = sum(own for own, _ in self._closed.values()) - sum(own for own, _ in self._opened.values())
        waited_ns = sum(children - self._opened.get(pid, (0, 0))[1] for pid, (_, children) in self._closed.items())
        self.is_coarse = waited_ns > 0
        return max(0, own_ns + waited_ns)


@attrs.define(eq=False)
class ThreadCpu:
    """The cpu of one thread. None once it has ended, and on a kernel without the account."""

    pid: int
    tid: int
    is_coarse: bool = False
    _opened_ns: int | None = None
    _closed_ns: int | None = None

    def open(self) -> None:
        """Read the thread's account."""
        self._opened_ns = find_thread_cpu_ns(self.pid, self.tid)

    def close(self) -> None:
        """Read it again."""
        self._closed_ns = find_thread_cpu_ns(self.pid, self.tid)

    def total_ns(self) -> int | None:
        """Return what it used between."""
        if self._opened_ns is None or self._closed_ns is None:
            return None
        return self._closed_ns - self._opened_ns


def _iter_family(pid: int) -> Iterable[tuple[int, tuple[int, int]]]:
    waiting = [pid]
    while waiting:
        process = waiting.pop()
        if find_process_cpu_ns(process) is not None:
            yield process, _read(process)
            waiting += linux.read_children(process)


def _read(pid: int) -> tuple[int, int]:
    """Return a process's own cpu and that of the children it waited for, zero for one that has just gone."""
    stat = linux.find_stat(pid)
    return find_process_cpu_ns(pid) or 0, 0 if stat is None else ticks_to_ns(stat.children_ticks)


def make_accounts(targets: Iterable[BoundTarget], tree: Tree | None) -> list[TargetCpu]:
    """Return an account for each process-like target, each process once; the machine and its parts have none.

    `tree` is the launched program's, in the account whatever its requests are about: it is what ran.
    """
    accounts: dict[tuple[str, int], TargetCpu] = {}
    for bound in targets:
        if bound.launched and tree is not None:
            accounts["launch", tree.program] = ProgramCpu(tree)
        elif bound.tid is not None:
            accounts["tid", bound.tid] = ThreadCpu(bound.processes[0].pid, bound.tid)
        elif bound.target.kind == "pid":
            accounts.update({("pid", handle.pid): ProcessCpu(handle.pid) for handle in bound.processes})
    return list(accounts.values())


@attrs.define(eq=False)
class CostAccount:
    """Omn's own cpu before, in and after the window, beside the targets'.

    `started_ns` is the reading of omn's process clock from which `before` counts: 0 for a command line, whose start
    is part of what it costs; the reading at the call for a library's caller.
    """

    started_ns: int
    targets: list[TargetCpu] = attrs.field(factory=list)
    clock: Callable[[], int] = time.process_time_ns
    _opened_ns: int = 0
    _closed_ns: int = 0

    def open(self, targets: list[TargetCpu]) -> None:
        """Read every target's baseline, then mark the opening."""
        self.targets = targets
        for target in targets:
            target.open()
        self._opened_ns = self.clock()

    def close(self) -> None:
        """Mark the close, then read every target."""
        self._closed_ns = self.clock()
        for target in self.targets:
            target.close()

    def target_ns(self) -> int | None:
        """Return the cpu of all targets together: None where there is none (the machine) or one is not known."""
        parts = [target.total_ns() for target in self.targets]
        known = [part for part in parts if part is not None]
        return sum(known) if known and len(known) == len(parts) else None

    def notes(self) -> tuple[str, ...]:
        """Return what a reader must know of these figures."""
        return (COARSE,) if any(target.is_coarse for target in self.targets) else ()

    def compute(self, in_target: Iterable[tuple[str, InTargetCost]]) -> Cost:
        """Return the run's cost, with what each source's mechanism spent inside the target."""
        in_target = list(in_target)
        unknown = tuple(dict.fromkeys(source for source, spent in in_target if spent.cpu_ns is None))
        return Cost(
            window_ns=self._closed_ns - self._opened_ns,
            before_ns=self._opened_ns - self.started_ns,
            after_ns=self.clock() - self._closed_ns,
            in_target_ns=None if unknown else sum(spent.cpu_ns or 0 for _, spent in in_target),
            in_target_left_out=sum(spent.left_out for _, spent in in_target),
            in_target_unknown=unknown,
            target_ns=self.target_ns(),
        )
