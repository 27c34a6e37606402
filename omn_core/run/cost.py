"""What a run cost and what its target used, cpu nanoseconds. What nothing accounts for is None."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs

from omn_core.model.collector import BoundTarget, InTargetCost
from omn_core.run import linux
from omn_core.run.linux_clock import find_process_cpu_ns, find_thread_cpu_ns, ticks_to_ns
from omn_core.run.tree import Tree

if TYPE_CHECKING:
    from omn_core.model.result import Cost

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

    def read_ns(self) -> int | None:
        """What it has used since the opening until now, None where that cannot be known."""


@attrs.define(eq=False, repr=False)
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
    _highest_ns: int = 0

    def open(self) -> None:
        """Read what the process used before its exec."""
        self._before_ns = find_process_cpu_ns(self.tree.program)

    def close(self) -> None:
        """Read every process of the tree."""
        for member in self.tree.members():
            self._own_ns[member.pid], self._children_ns[member.pid] = _read(member.pid)

    def read_ns(self) -> int | None:
        """Return what the tree has used so far, as the scheduler counts it, and never less than it was before.

        Of children that were waited for it is in clock ticks, as long as the program runs.
        """
        if self._before_ns is None:
            return None
        living = [_read(member.pid) for member in self.tree.members()]
        reaped_ns = sum(process.with_children_ns for process in self.tree.reaped)
        now_ns = sum(own_ns + children_ns for own_ns, children_ns in living) + reaped_ns - self._before_ns
        self._highest_ns = max(self._highest_ns, now_ns)
        return self._highest_ns

    def own_ns(self) -> int | None:
        """Return what the program's own process used, without those it started; None where its clock was not read."""
        own_ns = self._own_ns.get(self.tree.program)
        return None if own_ns is None or self._before_ns is None else max(0, own_ns - self._before_ns)

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


_Identity = tuple[int, int]
"""What tells a process from a later one of its number: the number, and when it started in clock ticks."""


@attrs.frozen(repr=False)
class _Reading:
    """The cpu of a process, and that of the children it has waited for."""

    own_ns: int
    children_ns: int


_NOTHING = _Reading(0, 0)


@attrs.define(eq=False, repr=False)
class ProcessCpu:
    """The cpu of processes that were running already, with their descendants': each process once, whoever's it is.

    None once one of the processes has ended, and where a descendant ended that nobody of these waited for: what it
    used since the opening is then in no account.
    """

    pids: tuple[int, ...]
    is_coarse: bool = False
    _opened: dict[_Identity, _Reading] = attrs.field(factory=dict)
    _closed: dict[_Identity, _Reading] = attrs.field(factory=dict)

    def open(self) -> None:
        """Read the processes and their descendants."""
        self._opened = _read_families(self.pids)

    def close(self) -> None:
        """Read them again, those too that have another parent by now."""
        self._closed = _read_families([*self.pids, *(pid for pid, _ in self._opened)], self._opened)

    def total_ns(self) -> int | None:
        """Return what they used between; a descendant that ended is in the account of the one that waited for it."""
        opened, closed = self._opened, self._closed
        if not set(self.pids) <= {pid for pid, _ in opened.keys() & closed.keys()}:
            return None
        gone = opened.keys() - closed.keys()
        owed_ns = sum(opened[one].own_ns + opened[one].children_ns for one in gone)
        own_ns = sum(now.own_ns - opened.get(one, _NOTHING).own_ns for one, now in closed.items())
        waited_ns = sum(now.children_ns - opened.get(one, _NOTHING).children_ns for one, now in closed.items())
        if waited_ns + ticks_to_ns(2 * len(gone)) < owed_ns:
            return None
        self.is_coarse = waited_ns > 0
        return max(0, own_ns + waited_ns - owed_ns)

    def read_ns(self) -> int | None:
        """Return what they have used so far."""
        self.close()
        return self.total_ns()


@attrs.define(eq=False, repr=False)
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

    def read_ns(self) -> int | None:
        """Return what it has used so far."""
        self.close()
        return self.total_ns()


def _read_families(pids: Iterable[int], before: Container[_Identity] | None = None) -> dict[_Identity, _Reading]:
    """Read processes and all below them; with `before`, of the processes asked for only those that are in it."""
    asked = set(pids)
    waiting = list(asked)
    found: dict[_Identity, _Reading] = {}
    while waiting:
        pid = waiting.pop()
        stat, own_ns = linux.find_stat(pid), find_process_cpu_ns(pid)
        if stat is None or own_ns is None or (pid, stat.start_ticks) in found:
            continue
        if before is not None and pid in asked and (pid, stat.start_ticks) not in before:
            continue
        found[pid, stat.start_ticks] = _Reading(own_ns, ticks_to_ns(stat.children_ticks))
        waiting += linux.read_children(pid)
    return found


def _read(pid: int) -> tuple[int, int]:
    """Return a process's own cpu and that of the children it waited for, zero for one that has just gone."""
    stat = linux.find_stat(pid)
    return find_process_cpu_ns(pid) or 0, 0 if stat is None else ticks_to_ns(stat.children_ticks)


def make_accounts(targets: Iterable[BoundTarget], tree: Tree | None) -> list[TargetCpu]:
    """Return the accounts of the process-like targets, each process in one alone; the machine and its parts have none.

    `tree` is the launched program's, in the account whatever its requests are about: it is what ran.
    """
    targets = list(targets)
    accounts: list[TargetCpu] = []
    if tree is not None and any(bound.launched for bound in targets):
        accounts.append(ProgramCpu(tree))
    pids = tuple(dict.fromkeys(one.pid for bound in targets if bound.target.kind == "pid" for one in bound.processes))
    if pids:
        accounts.append(ProcessCpu(pids))
    threads = {bound.tid: bound.processes[0].pid for bound in targets if bound.tid is not None}
    return accounts + [ThreadCpu(pid, tid) for tid, pid in threads.items() if pid not in pids]


def add_up(parts: Sequence[int | None]) -> int | None:
    """Add up what is known of each part: None where there is no part, or one is not known."""
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


@attrs.define(eq=False, repr=False)
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
        return add_up([target.total_ns() for target in self.targets])

    def notes(self) -> tuple[str, ...]:
        """Return what a reader must know of these figures."""
        return (COARSE,) if any(target.is_coarse for target in self.targets) else ()

    def compute(self, in_target: Iterable[tuple[str, InTargetCost]], one_time_ns: int = 0) -> Cost:
        """Return the run's cost, with what each source's mechanism spent inside the target.

        `one_time_ns` is what collectors spent after the close once, whatever the window: it is told apart.
        """
        from omn_core.model.result import Cost  # loaded after the window: what an answer is made of begins no run

        in_target = list(in_target)
        unknown = tuple(dict.fromkeys(source for source, spent in in_target if spent.cpu_ns is None))
        return Cost(
            window_ns=self._closed_ns - self._opened_ns,
            before_ns=self._opened_ns - self.started_ns,
            after_ns=self.clock() - self._closed_ns - one_time_ns,
            one_time_ns=one_time_ns,
            in_target_ns=None if unknown else sum(spent.cpu_ns or 0 for _, spent in in_target),
            in_target_left_out=sum(spent.left_out for _, spent in in_target),
            in_target_unknown=unknown,
            target_ns=self.target_ns(),
        )
