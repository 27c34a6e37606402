"""The processes that descend from others, found anew at each reading (/proc/<pid>/task/<tid>/children, proc(5))."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from omn_core.api import ProcessHandle
from omn_kernel.polled import place
from omn_kernel.procfs.process import ProcessGone, find_folder, list_threads
from omn_kernel.procfs.task import TaskStat, parse_stat
from omn_kernel.task_files import DescriptorLoan, TaskFiles, TaskId


@attrs.define(eq=False, repr=False)
class Member:
    """A process of a tree, told from a later one of its number by when it started.

    `stat` is what its stat file said last, `parent` the member that it was a child of then: None for one that the
    target names, and for an orphan that somebody outside the tree adopted.
    """

    pid: int
    stat: TaskStat
    parent: Member | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it is a zombie, whose counters are its last and which holds nothing any more."""
        return self.stat.process_has_ended

    @property
    def faults(self) -> int:
        """What a parent that waits for it now has added to the faults of its waited-for children."""
        return self.stat.minor_faults + self.stat.major_faults + self.waited_faults

    @property
    def waited_faults(self) -> int:
        """The faults of the children that it has waited for, and of theirs."""
        return self.stat.waited_minor_faults + self.stat.waited_major_faults


@attrs.frozen(repr=False)
class Walk:
    """The tree at one reading: its members, parents before their children, and those that went since the last one."""

    members: Sequence[Member]
    gone: Sequence[Member]


class ProcessTree:
    """Some processes and all that descend from them.

    A process that was found once stays in the tree although its parent ended and it was given another one.
    `find_orphans` tells whom omn adopted of a program that it launched: they are of the tree too. An orphan that
    somebody else adopted before any reading found it is missed. Zombies are members until they are waited for.

    What costs least is asked: a stat file and one of children for each process, held open, and children of further
    threads only where there are any. A kernel without the files of children (CONFIG_PROC_CHILDREN) has every process
    of the machine asked for its parent.
    """

    def __init__(
        self,
        sysroot: str,
        processes: Iterable[ProcessHandle],
        find_orphans: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        self.hidden: set[int] = set()
        self._sysroot = sysroot
        self._find_orphans = find_orphans
        # Parents start before their children, so that they are read before them.
        self._named = {one.pid: one.start_ticks for one in sorted(processes, key=lambda one: one.start_ticks)}
        self._members: dict[int, Member] = {}
        self._loan = DescriptorLoan()
        self._stats = TaskFiles(sysroot, "stat", self._loan)
        self._children = TaskFiles(sysroot, "children", self._loan, many_records=True)
        self._asked: set[TaskId] = set()
        self._by_parent: dict[int, list[int]] | None = None

    def walk(self) -> Walk:
        """Find the tree as it is now. One that /proc hides from this user is in `hidden` and is no member."""
        before, found = self._members, dict[int, Member]()
        self._asked, self._by_parent = set(), None
        self._descend(self._named.items(), found)
        # One whose parent ended is nobody's child here, and one may be missing from a list while others leave it.
        self._descend(((pid, member.stat.start_ticks) for pid, member in before.items()), found)
        self._descend(((pid, None) for pid in self._find_orphans()), found)
        for member in found.values():
            if member.stat.parent:  # none of one that is being taken away: it stays its parent's
                member.parent = found.get(member.stat.parent)
        self._members = found
        gone = [member for member in before.values() if found.get(member.pid) is not member]
        self._stats.retain({(pid, None) for pid in found})
        self._children.retain(self._asked)
        return Walk(tuple(found.values()), gone)

    def find_members(self) -> frozenset[int]:
        """Find every living process of the tree; empty when the last has ended."""
        return frozenset(member.pid for member in self.walk().members if not member.has_ended)

    def close(self) -> None:
        """Let go of every file."""
        self._stats.close()
        self._children.close()
        self._loan.close()

    def _descend(self, starts: Iterable[tuple[int, int | None]], found: dict[int, Member]) -> None:
        """Find some processes and what descends from them; one with a start is passed over where another began then."""
        waiting, listed = deque(starts), dict[int, Member]()
        while waiting:
            pid, start_ticks = waiting.popleft()
            member = None if pid in found else self._find_member(pid, start_ticks)
            if member is None:
                continue
            found[pid] = member
            for child in self._iter_children(member):
                waiting.append((child, None))
                listed.setdefault(child, member)
            member.parent = listed.get(pid, member.parent)

    def _find_member(self, pid: int, start_ticks: int | None) -> Member | None:
        try:
            # A second time: the number may have passed to another process, whose file is another.
            content = self._stats.read((pid, None)) or self._stats.read((pid, None))
        except PermissionError:
            self.hidden.add(pid)
            return None
        stat = parse_stat(content) if content else None
        if stat is None or (start_ticks is not None and stat.start_ticks != start_ticks):
            return None
        member = self._members.get(pid)
        if member is None or member.stat.start_ticks != stat.start_ticks:
            return Member(pid, stat)
        member.stat = stat
        return member

    def _iter_children(self, member: Member) -> Iterator[int]:
        """Iterate over the children that a process's threads have now; the kernel gives those of a dead one away."""
        if member.has_ended:
            return
        pid = member.pid
        try:
            threads = [pid] if member.stat.threads <= 1 else list_threads(self._sysroot, pid)
        except ProcessGone:
            return
        for tid in threads:
            self._asked.add((pid, tid))
            content = self._children.read((pid, tid))
            if content is not None:
                yield from map(int, content.split())
            elif self._lists_no_children(pid, tid):
                yield from self._find_by_parent(pid)
                return

    def _lists_no_children(self, pid: int, tid: int) -> bool:
        """Tell whether a thread that is there has no file of its children, as on a kernel that lists none."""
        folder = place(self._sysroot, find_folder(pid, tid))
        return os.path.exists(f"{folder}/stat") and not os.path.exists(f"{folder}/children")

    def _find_by_parent(self, pid: int) -> Sequence[int]:
        """Find the children of a process by the parent that each process of the machine names, read once a walk."""
        if self._by_parent is None:
            self._by_parent = {}
            for name in os.listdir(place(self._sysroot, "/proc")):
                stat = self._find_stat(int(name)) if name.isdigit() else None
                if stat is not None:
                    self._by_parent.setdefault(stat.parent, []).append(int(name))
        return self._by_parent.get(pid, ())

    def _find_stat(self, pid: int) -> TaskStat | None:
        try:
            with open(place(self._sysroot, f"/proc/{pid}/stat"), "rb") as file:
                return parse_stat(file.read())
        except OSError:
            return None
