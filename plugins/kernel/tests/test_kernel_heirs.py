"""Who has the counters of a process that went, and that its parent's are not counted twice for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from omn_kernel.counters import Misses
from omn_kernel.followed import Followed, Round
from omn_kernel.heirs import Heirs
from omn_kernel.procfs.task import TaskStat, parse_stat
from omn_kernel.procfs.tree import Member, Walk
from omn_kernel.tree_accounts import TreeAccounts

from omn_core.api import ProcessHandle


def make_stat(faults: int = 0, waited: int = 0, state: str = "S") -> TaskStat:
    fields = [state, "1", *["0"] * 48]
    fields[7], fields[8], fields[17], fields[19] = str(faults), str(waited), "1", "100"
    return parse_stat(f"7 (x) {' '.join(fields)}\n".encode())


def begin(*members: Member) -> Heirs:
    heirs = Heirs()
    assert heirs.settle(Walk(members, ())) == []
    heirs.end_round(members)
    return heirs


def test_whoever_waited_for_a_child_is_its_heir() -> None:
    """Its count of waited-for faults grew by the child's."""
    parent = Member(1, make_stat(waited=1000))
    child = Member(2, make_stat(faults=50), parent)
    heirs = begin(parent, child)
    parent.stat = make_stat(waited=1060)
    assert heirs.settle(Walk([parent], [child])) == [(child, parent)]
    assert heirs.pending == []


def test_a_child_that_went_after_its_parent_was_read_is_settled_at_the_next_walk() -> None:
    """Until then nothing of its parent says so; one that still has no heir was waited for by nobody."""
    parent = Member(1, make_stat())
    waited_for, ignored = (Member(pid, make_stat(faults=50), parent) for pid in (2, 3))
    heirs = begin(parent, waited_for, ignored)
    assert heirs.settle(Walk([parent], [waited_for, ignored])) == []
    parent.stat = make_stat(waited=60)
    assert heirs.settle(Walk([parent], [])) == [(waited_for, parent), (ignored, None)]


def test_a_child_of_one_that_went_too_comes_to_their_nearest_ancestor() -> None:
    """A shell waits for make, which had waited for its compiler: the shell has both."""
    shell = Member(1, make_stat())
    make = Member(2, make_stat(faults=10), shell)
    compiler = Member(3, make_stat(faults=500), make)
    heirs = begin(shell, make, compiler)
    shell.stat = make_stat(waited=700)
    assert heirs.settle(Walk([shell], [make, compiler])) == [(make, shell), (compiler, shell)]


def test_one_whose_parent_goes_before_it_is_settled_waits_for_the_parents_own_heir() -> None:
    """The grandparent too was read before it waited for the parent."""
    shell = Member(1, make_stat())
    make = Member(2, make_stat(faults=10), shell)
    compiler = Member(3, make_stat(faults=500), make)
    heirs = begin(shell, make, compiler)
    assert heirs.settle(Walk([shell, make], [compiler])) == []
    assert heirs.settle(Walk([shell], [make])) == []
    shell.stat = make_stat(waited=700)
    assert heirs.settle(Walk([shell], [])) == [(make, shell), (compiler, shell)]


def test_an_orphan_that_somebody_outside_reaped_has_no_heir() -> None:
    """Its parent is no member, and its end is at once nobody's."""
    program, orphan = Member(1, make_stat()), Member(2, make_stat(faults=5))
    heirs = begin(program, orphan)
    assert heirs.settle(Walk([program], [orphan])) == [(orphan, None)]


class Nothing:
    """A source of which nothing is read here."""

    name = "nothing"

    def read(self) -> Mapping[str, int] | None:
        return None

    def close(self) -> None:
        return None


Process = Followed[Mapping[str, int]]


def make_process(pid: int, *, came: bool = False) -> Process:
    return Followed(ProcessHandle(pid, None, 100), None, None, Nothing(), came)


def read(
    rows: Mapping[Process, int],
    inherited: Sequence[tuple[Process, Process]] = (),
    lost: Sequence[Process] = (),
    at_ns: int = 0,
) -> Round[Mapping[str, int]]:
    return Round(list(rows), [{"n": value} for value in rows.values()], [at_ns] * len(rows), inherited, lost)


@pytest.fixture
def accounts() -> TreeAccounts:
    """Accounts of nobody yet."""
    return TreeAccounts(Misses())


def test_what_a_child_had_counted_is_taken_off_once_its_heirs_counters_hold_it(accounts: TreeAccounts) -> None:
    """What is left is what the child did since it was last read, beside what its heir did: nothing twice, none lost."""
    parent, child = make_process(1), make_process(2, came=True)
    assert accounts.advance(read({parent: 1000})) == {}
    grown = accounts.advance(read({parent: 1001, child: 40}, at_ns=10))
    assert {one.pid: growth.by["n"] for one, growth in grown.items()} == {1: 1, 2: 40}
    grown = accounts.advance(read({parent: 1001 + 2 + 47}, [(child, parent)], at_ns=20))
    assert {one.pid: (growth.by["n"], growth.length_ns) for one, growth in grown.items()} == {1: (9, 10)}


def test_an_heir_whose_counters_are_coarser_gives_the_rest_later(accounts: TreeAccounts) -> None:
    """Whole ticks hold less than the nanoseconds that were counted already: no negative figure, and no loss either."""
    parent, child = make_process(1), make_process(2, came=True)
    accounts.advance(read({parent: 0}))
    accounts.advance(read({parent: 0, child: 12}))
    assert [growth.by["n"] for growth in accounts.advance(read({parent: 10}, [(child, parent)])).values()] == [0]
    assert [growth.by["n"] for growth in accounts.advance(read({parent: 20})).values()] == [8]
    assert accounts.misses.count == 0


def test_what_an_heir_still_owes_passes_on_with_it(accounts: TreeAccounts) -> None:
    """The child's, the parent's: all is in the grandparent's counters in the end, and counted once."""
    shell, make, compiler = make_process(1), make_process(2, came=True), make_process(3, came=True)
    accounts.advance(read({shell: 0}))
    accounts.advance(read({shell: 0, make: 5, compiler: 12}))
    accounts.advance(read({shell: 0, make: 15}, [(compiler, make)]))
    (growth,) = accounts.advance(read({shell: 20}, [(make, shell)])).values()
    assert growth.by["n"] == 20 - 5 - 12


def test_an_heir_that_goes_in_the_same_round_hands_on_what_came_to_it(accounts: TreeAccounts) -> None:
    """The order of their ends is that of the pairs, whatever the order of the processes."""
    shell, make, compiler = make_process(1), make_process(2, came=True), make_process(3, came=True)
    accounts.advance(read({shell: 0}))
    accounts.advance(read({shell: 0, make: 5, compiler: 12}))
    (growth,) = accounts.advance(read({shell: 20}, [(compiler, make), (make, shell)])).values()
    assert growth.by["n"] == 20 - 5 - 12


def test_one_that_nobody_waited_for_keeps_what_was_counted(accounts: TreeAccounts) -> None:
    """Nothing is taken off anybody for it."""
    parent, child = make_process(1), make_process(2, came=True)
    accounts.advance(read({parent: 0}))
    accounts.advance(read({parent: 3, child: 40}))
    (growth,) = accounts.advance(read({parent: 5}, lost=[child])).values()
    assert growth.by["n"] == 2
