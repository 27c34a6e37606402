"""Following a target's processes and all that descend from them, with what ended ones left to those that waited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic

from omn_core.api import BoundTarget, ProcessHandle, RunContext, TargetGone
from omn_kernel.counters import Misses
from omn_kernel.followed import Followed, Round, Row, Source, follow_named, read_source
from omn_kernel.heirs import Heirs
from omn_kernel.polled import raise_descriptor_limit, restore_descriptor_limit
from omn_kernel.procfs.process import ProcessGone, find_process_key
from omn_kernel.procfs.task import TaskStat
from omn_kernel.procfs.tree import Member, ProcessTree

_MOST_PASSES = 3
"""How often the tree is read in one round where processes go while it is."""

_REAPED = "a process was reaped by its parent before its last reading"
_NOBODYS = "a process that the target started was waited for by nobody of its tree, and its last interval is in no row"


class FollowedTree(Generic[Row]):
    """The processes of a target and all that descend from them, found anew at each reading; `sysroot` has their files.

    With `complete` they are followed for counters, of which a process keeps those of children that it waited for: a
    zombie is read once, for its last words, `complete` adds to a row what the stat file says of waited-for children,
    and each round names the heirs of those that went. What one did since its last reading that nobody of the tree
    waited for is lost, and that is counted.
    """

    def __init__(
        self,
        target: BoundTarget,
        context: RunContext,
        misses: Misses,
        open_source: Callable[[int, int | None], Source[Row]],
        *,
        sysroot: str,
        complete: Callable[[Member, Row], Row] | None = None,
        wants_keys: bool = False,
    ) -> None:
        self._context = context
        self._misses = misses
        self._open_source = open_source
        self._complete = complete
        self._wants_keys = wants_keys
        self._room = len(target.processes)
        self._descriptor_limit = raise_descriptor_limit(self._room)
        self.tree = ProcessTree(sysroot, target.processes, target.find_orphans)
        self.named = follow_named(target, context, open_source)
        self.started = 0
        self._members: dict[Member, Followed[Row]] = {}
        self._found: dict[Followed[Row], Member] = {}
        self._final: set[Followed[Row]] = set()
        self._heirs = Heirs()
        self._latest: dict[Followed[Row], tuple[Row, int]] = {}
        self._withheld: dict[Followed[Row], tuple[Row, int]] = {}
        self._is_begun = False

    def read(self) -> Round[Row]:
        """Read every process. Raises TargetGone when the last one has ended.

        A read that failed although its process runs is counted and leaves that process out of this round.
        """
        self._latest, self._withheld = self._withheld, {}
        self._inherited: list[tuple[Followed[Row], Followed[Row]]] = []
        self._lost: list[Followed[Row]] = []
        self._was_final = frozenset(self._final)
        members: Sequence[Member] = ()
        for _ in range(_MOST_PASSES):
            members = self._walk()
            went = self._read_all(members)
            if self._complete is None or not (went or self._heirs.pending):
                break
        else:
            # What those did that went meanwhile is in the next round, with their heirs.
            members = self._walk()
            going = [self._members[member] for member in self._heirs.pending]
            self._withheld = {process: self._latest.pop(process) for process in going if process in self._latest}
        self._heirs.end_round(members)
        self._is_begun = True
        if not self._latest and all(self._members[member] in self._final for member in members):
            raise TargetGone
        rows, read_ns = [row for row, _ in self._latest.values()], [at_ns for _, at_ns in self._latest.values()]
        return Round(list(self._latest), rows, read_ns, self._inherited, self._lost)

    def find_stat(self, process: Followed[Row]) -> TaskStat | None:
        """Find what the last reading's walk read of a process, None for one that it never found."""
        member = self._found.get(process)
        return None if member is None else member.stat

    def _walk(self) -> Sequence[Member]:
        """Find the tree, follow who is new, and let go of who went. At first it is found twice: a list may miss one."""
        walk = self.tree.walk()
        if not self._is_begun and len(walk.members) > len(self.named):
            walk = self.tree.walk()
        self._make_room(len(walk.members))
        for member in walk.members:
            if member not in self._members:
                followed = self._members[member] = self._follow(member)
                self._found[followed] = member
        for member, heir in self._heirs.settle(walk):
            process = self._members.pop(member, None)
            if process is not None:
                self._let_go(process, None if heir is None else self._members[heir])
        return walk.members

    def _let_go(self, process: Followed[Row], heir: Followed[Row] | None) -> None:
        process.source.close()
        self._found.pop(process, None)
        if heir is not None:
            self._inherited.append((process, heir))
            self._latest.pop(process, None)  # what it did since its last round is in its heir's
        else:
            self._lost.append(process)
            if self._complete is not None and process not in self._final:
                self._misses.note(_REAPED if process in self.named else _NOBODYS)
        self._final.discard(process)

    def _follow(self, member: Member) -> Followed[Row]:
        pid, start_ticks = member.pid, member.stat.start_ticks
        for process in self.named:
            if process.pid == pid and process.handle.start_ticks == start_ticks:
                return process
        self.started += 1
        key = find_process_key(self._context.sysroot, pid) if self._wants_keys else None
        handle = ProcessHandle(pid, None, start_ticks)
        return Followed(handle, None, key, self._open_source(pid, None), came=self._is_begun)

    def _make_room(self, processes: int) -> None:
        """Have a descriptor for what is read of each process, as far as this user may."""
        if processes > self._room:
            self._room = 2 * processes
            raise_descriptor_limit(self._room)

    def _read_all(self, members: Sequence[Member]) -> bool:
        """Read each process that has something to say. Returns whether one went between the walk and its turn."""
        went = False
        for member in members:
            process = self._members[member]
            if self._complete is None:
                self._read_level(process, member)
                continue
            try:
                row = read_source(process.source, self._misses)
            except ProcessGone:
                went = True
                continue
            # One that was final is read to know that its parent, read before it, did not have its counters yet.
            if row is not None and process not in self._was_final:
                self._latest[process] = self._complete(member, row), self._context.clock()
                if member.has_ended:
                    self._final.add(process)
        return went

    def _read_level(self, process: Followed[Row], member: Member) -> None:
        """Read what a process holds; one that ended holds nothing."""
        if process in self._final:
            return
        try:
            row = None if member.has_ended else read_source(process.source, self._misses)
        except ProcessGone:
            self._final.add(process)
            return
        if row is not None:
            self._latest[process] = row, self._context.clock()
        elif member.has_ended:
            self._final.add(process)

    def close(self) -> None:
        """Let go of every process."""
        self.tree.close()
        for process in {*self.named, *self._members.values()}:
            process.source.close()
        restore_descriptor_limit(self._descriptor_limit)
