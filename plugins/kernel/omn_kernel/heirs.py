"""Who waited for processes that went, and has in its own counters what they had counted.

The kernel adds the counters of a child to those that its parent keeps of waited-for children, its threads' io to the
parent's own, and only then takes the child away (wait_task_zombie and release_task of kernel/exit.c). Nothing is added
where a parent ignores SIGCHLD, so that nobody waits. Faults tell the two apart: they are exact, and every program
has some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from omn_kernel.procfs.tree import Member, Walk


@attrs.define(eq=False)
class Heirs:
    """The processes of a tree that went since the last round, until it is known who waited for them."""

    pending: list[Member] = attrs.field(factory=list)
    _waited_faults: dict[Member, int] = attrs.field(factory=dict)

    def settle(self, walk: Walk) -> list[tuple[Member, Member | None]]:
        """Return who went, each with its heir: the nearest of its ancestors that is left, where that one waited for it.

        One that nobody waited for has none. A parent may be read before its child goes: what tells is the first walk
        that begins after the child, and whoever went between the two, were all gone.
        """
        long_gone = frozenset(self.pending)
        left = frozenset(walk.members)
        waiting = sorted([*self.pending, *walk.gone], key=lambda member: len(list(_iter_gone(member, left))))
        self.pending = []
        settled: list[tuple[Member, Member | None]] = []
        for member in waiting:
            heir = _find_ancestor(member, left)
            if heir is not None and member.faults <= heir.waited_faults - self._waited_faults.get(heir, 0):
                self._waited_faults[heir] = self._waited_faults.get(heir, 0) + member.faults
                settled.append((member, heir))
            elif heir is None or long_gone.issuperset([member, *_iter_gone(member, left)]):
                settled.append((member, None))
            else:
                self.pending.append(member)
        return settled

    def end_round(self, members: Sequence[Member]) -> None:
        """Keep what has been waited for so far: what comes on top of it is the next round's.

        Where somebody is pending, what was waited for beyond those that are settled may be its already.
        """
        left = frozenset(members)
        open_ones = {_find_ancestor(member, left) for member in self.pending}
        self._waited_faults = {
            member: self._waited_faults.get(member, 0) if member in open_ones else member.waited_faults
            for member in members
        }


def _iter_gone(member: Member, left: frozenset[Member]) -> Iterator[Member]:
    parent = member.parent
    while parent is not None and parent not in left:
        yield parent
        parent = parent.parent


def _find_ancestor(member: Member, left: frozenset[Member]) -> Member | None:
    return [member, *_iter_gone(member, left)][-1].parent
