"""The processes a run started: found, and ended with it.

A process belongs to the launched program's tree when it descends from it, or from an orphan that omn, as subreaper,
took over from it. A program attached to by its number is nobody's tree and is never signalled.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Mapping

import attrs

from omn_core.model.watched import Adopted
from omn_core.run import linux
from omn_core.run.linux_clock import find_process_cpu_ns

_FREEZE_PASSES = 500
_FREEZE_PASS_S = 0.001
_DEATH_NS = 5_000_000_000
_MOST_ENDED = 256
"""How many orphans may wait, ended, for their last reading."""
_KILLED_AT_ONCE = 64
"""How many processes are held by a descriptor each while they die: a tree may have more than may be opened."""


@attrs.frozen(repr=False)
class Member:
    """A process of the tree. `is_orphan` says that the program that started its part of the tree had ended."""

    pid: int
    is_orphan: bool
    is_zombie: bool


@attrs.frozen(repr=False)
class Reaped:
    """A process reaped by omn: the cpu of it and of all it waited for, and of itself alone, in nanoseconds."""

    pid: int
    with_children_ns: int
    own_ns: int


@attrs.frozen(repr=False)
class _Frozen:
    pid: int
    start_ticks: int
    name: str
    is_orphan: bool


@attrs.define(eq=False, repr=False)
class Tree:
    """The tree of one launched program, told from a later process of its number by `start_ticks`.

    Where omn `adopts` orphans, every child of omn but those it had before (`set_aside`) is one; where it does not, its
    children are the caller's and are left alone.

    `end` fills `adopted` with every orphan that was still alive, `reaped` with what omn reaped, `ended` with the
    number of processes killed, and `survivors` with those omn was not allowed to signal or that would not die.
    """

    program: int
    start_ticks: int
    adopts: bool
    set_aside: frozenset[int] = frozenset()
    adopted: list[Adopted] = attrs.field(factory=list)
    reaped: list[Reaped] = attrs.field(factory=list)
    survivors: dict[int, str] = attrs.field(factory=dict)
    ended: int = 0
    _ended_ns: dict[int, int] = attrs.field(factory=dict)

    def members(self) -> list[Member]:
        """Return every process of the tree that can be found now, the program first, zombies among them."""
        found: list[Member] = []
        waiting = [(self.program, False), *((pid, True) for pid in self.find_orphans())]
        seen: set[int] = set()
        while waiting:
            pid, is_orphan = waiting.pop(0)
            stat = None if pid in seen else linux.find_stat(pid)
            seen.add(pid)
            is_other = stat is not None and pid == self.program and stat.start_ticks != self.start_ticks
            if stat is not None and not is_other:
                found.append(Member(pid, is_orphan, stat.is_zombie))
                waiting += [(child, is_orphan) for child in linux.read_children(pid)]
        return found

    def end(self) -> None:
        """End every process of the tree and reap those that are omn's to reap, the program itself excepted.

        All are stopped first, until a search finds no new one, so that none can start another while they are killed.
        What was started all the same, by one that was dying, is found by the next round.
        """
        while frozen := self._freeze():
            self._kill(frozen)
        for member in self.members():
            if member.is_zombie and member.pid != self.program:
                self.reap(member.pid)

    def reap_orphans(self, read_ns: int) -> None:
        """Reap the orphans that have ended by themselves, so that a long run does not fill the process table.

        Each is left until it was seen ended before `read_ns`, when everybody had last read it: what a process counted
        goes with it. Where too many wait, none does any longer.
        """
        now_ns = time.monotonic_ns()
        ended = [pid for pid in self.find_orphans() if linux.find_exit(pid) is not None]
        self._ended_ns = {pid: self._ended_ns.get(pid, now_ns) for pid in ended}
        for pid in ended:
            if self._ended_ns[pid] < read_ns or len(ended) > _MOST_ENDED:
                self.reap(pid)

    def find_orphans(self) -> list[int]:
        """Return the orphans that omn has adopted and not reaped, none where it adopts none."""
        if not self.adopts:
            return []
        return [pid for pid in linux.read_children() if pid != self.program and pid not in self.set_aside]

    def reap(self, pid: int) -> None:
        """Reap a process that has ended and is omn's child, and keep what cpu it used."""
        own_ns = find_process_cpu_ns(pid)
        total_ns = linux.reap(pid)
        if total_ns is not None and own_ns is not None:
            self.reaped.append(Reaped(pid, total_ns, own_ns))

    def _freeze(self) -> list[_Frozen]:
        frozen: dict[int, _Frozen] = {}
        for _ in range(_FREEZE_PASSES):
            living = [member for member in self.members() if not (member.is_zombie or member.pid in self.survivors)]
            new = [member for member in living if member.pid not in frozen]
            for member in new:
                process = self._stop(member)
                if process is not None:
                    frozen[member.pid] = process
            if not new and all(_stands_still(member.pid) for member in living):
                break
            time.sleep(_FREEZE_PASS_S)  # a signal takes effect when its process next runs
        return list(frozen.values())

    def _stop(self, member: Member) -> _Frozen | None:
        try:
            pidfd = linux.open_pidfd(member.pid)
        except ProcessLookupError:
            return None
        try:
            stat = linux.find_stat(member.pid)
            if stat is None:
                return None
            name = linux.escape_comm(stat.comm)
            if linux.send_signal(pidfd, signal.SIGSTOP):
                return _Frozen(member.pid, stat.start_ticks, name, member.is_orphan)
        except PermissionError:
            self._survive(member.pid, name, member.is_orphan)
        finally:
            os.close(pidfd)
        return None

    def _kill(self, frozen: list[_Frozen]) -> None:
        dead: set[int] = set()
        # The last found are the deepest: whoever starts a process anew when it dies stands still until its own turn.
        for end in range(len(frozen), 0, -_KILLED_AT_ONCE):
            dead |= _kill_together(frozen[max(end - _KILLED_AT_ONCE, 0) : end])
        for process in frozen:
            if process.pid not in dead:
                self._survive(process.pid, process.name, process.is_orphan)
                continue
            self.ended += 1
            if process.is_orphan:
                self.adopted.append(Adopted(process.pid, process.name, True))
            if process.pid != self.program:
                self.reap(process.pid)

    def _survive(self, pid: int, name: str, is_orphan: bool) -> None:
        self.survivors[pid] = name
        if is_orphan:
            self.adopted.append(Adopted(pid, name, False))


def _stands_still(pid: int) -> bool:
    """Tell whether a process can start no other: it is neither running nor merely asleep."""
    stat = linux.find_stat(pid)
    return stat is None or stat.state not in "RS"


def _kill_together(frozen: Iterable[_Frozen]) -> set[int]:
    """Kill some processes, wait for them, and say which are dead. A number that passed to another is let be."""
    held: dict[int, int] = {}
    dead: set[int] = set()
    try:
        for process in frozen:
            try:
                pidfd = linux.open_pidfd(process.pid)
            except ProcessLookupError:
                dead.add(process.pid)
                continue
            stat = linux.find_stat(process.pid)
            if stat is not None and stat.start_ticks == process.start_ticks:
                held[pidfd] = process.pid
                linux.send_signal(pidfd, signal.SIGKILL)
            else:
                os.close(pidfd)
                dead.add(process.pid)
        return dead | _wait_for_all(held)
    finally:
        for pidfd in held:
            os.close(pidfd)


def _wait_for_all(held: Mapping[int, int]) -> set[int]:
    """Wait until all are dead, and say which are. One in an uninterruptible sleep may take longer than anyone waits."""
    poll = select.poll()
    for pidfd in held:
        poll.register(pidfd, select.POLLIN)
    dead: set[int] = set()
    deadline_ns = time.monotonic_ns() + _DEATH_NS
    while len(dead) < len(held) and time.monotonic_ns() < deadline_ns:
        for pidfd, _ in poll.poll(max(1, (deadline_ns - time.monotonic_ns()) // 1_000_000)):
            poll.unregister(pidfd)
            dead.add(held[pidfd])
    return dead
