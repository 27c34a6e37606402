"""The processes that descend from a target's, as they come, end and are orphaned."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from omn_kernel.procfs.tree import ProcessTree

from omn_core.api import ProcessHandle
from omn_core.testing.harness import bind_processes, release
from omn_core.testing.stepped import Running, Workload, make_workload
from omn_core.testing.sysroot import Sysroot

Start = Callable[[Workload], Running]


def write(
    sysroot: Sysroot, pid: int, children: str = "", *, start_ticks: int = 100, state: str = "S", threads: int = 1
) -> None:
    sysroot.write_process(pid, start_ticks=start_ticks, state=state, threads=threads)
    sysroot.write_process(pid, tid=pid).write(f"/proc/{pid}/task/{pid}/children", children)


@pytest.fixture
def tree(sysroot: Sysroot) -> ProcessTree:
    """The tree of process 1, with two levels below it."""
    write(sysroot, 1, "2 3 ")
    write(sysroot, 2, "4 ")
    write(sysroot, 3)
    write(sysroot, 4)
    return ProcessTree(str(sysroot), [ProcessHandle(1, None, 100)])


@pytest.mark.spec("SRC-6", "KRN-5")
def test_all_that_descend_are_found_at_each_reading(sysroot: Sysroot, tree: ProcessTree) -> None:
    """One that comes is found by the next reading, of whatever thread it is the child."""
    assert tree.find_members() == {1, 2, 3, 4}
    write(sysroot, 3, threads=2)
    sysroot.write_process(3, tid=33).write("/proc/3/task/33/children", "5 ")
    write(sysroot, 5)
    assert tree.find_members() == {1, 2, 3, 4, 5}


def test_parents_are_read_before_their_children(sysroot: Sysroot, tree: ProcessTree) -> None:
    """What is waited for in the middle of a reading is then in one account at most."""
    assert [member.pid for member in tree.walk().members] == [1, 2, 3, 4]


def test_an_orphan_that_was_seen_stays(sysroot: Sysroot, tree: ProcessTree) -> None:
    """Its parent ended, and it is no child of the tree any more."""
    tree.find_members()
    sysroot.remove("/proc/2")
    sysroot.write("/proc/1/task/1/children", "3 ")
    walk = tree.walk()
    assert {member.pid for member in walk.members} == {1, 3, 4}
    assert [member.pid for member in walk.gone] == [2]


def test_an_orphan_that_omn_adopted_is_of_the_tree(sysroot: Sysroot) -> None:
    """Whether or not a reading found it before its parent ended."""
    write(sysroot, 1)
    write(sysroot, 9, "10 ")
    write(sysroot, 10)
    tree = ProcessTree(str(sysroot), [ProcessHandle(1, None, 100)], lambda: [9])
    assert tree.find_members() == {1, 9, 10}


def test_a_later_process_of_a_number_is_another_one(sysroot: Sysroot, tree: ProcessTree) -> None:
    """It is told by when it started; a zombie holds nothing any more."""
    tree.find_members()
    sysroot.write("/proc/1/task/1/children", "")
    write(sysroot, 2, start_ticks=999)
    write(sysroot, 3, state="Z")
    assert tree.find_members() == {1, 4}


def test_the_end_of_the_last_leaves_none(sysroot: Sysroot) -> None:
    """Empty, for the caller to say that the target is gone."""
    tree = ProcessTree(str(sysroot), [ProcessHandle(1, None, 100)])
    assert tree.find_members() == frozenset()


def test_a_kernel_that_lists_no_children_has_every_process_asked_for_its_parent(sysroot: Sysroot) -> None:
    """Without CONFIG_PROC_CHILDREN the whole table is read: nobody is missed, and nobody else's is taken."""
    for pid, parent in ((1, 0), (2, 1), (3, 2), (4, 99)):
        sysroot.write_process(pid, ppid=parent).write_process(pid, tid=pid)
    assert ProcessTree(str(sysroot), [ProcessHandle(1, None, 100)]).find_members() == {1, 2, 3}


FAMILY = make_workload(
    "a child of each of two threads, one with a child of its own",
    """
import threading

alive, held = os.pipe()  # the end of this process closes the last writing end, and ends those that read

def start():
    os.posix_spawn(
        sys.executable, ["reader", "-S", "-c", "import os; os.read(0, 1)"], {},
        file_actions=[(os.POSIX_SPAWN_DUP2, alive, 0)],
    )

def start_and_stay(started, leave):
    start()
    started.set()
    leave.wait()

started, leave = threading.Event(), threading.Event()
other = threading.Thread(target=start_and_stay, args=(started, leave))
other.start()
started.wait()
reading, writing = os.pipe()
child = os.fork()
if child == 0:
    os.close(held)
    start()
    os.write(writing, b"x")
    os.read(alive, 1)
    os._exit(0)
os.read(reading, 1)
step("started", child=child)
leave.set()
""",
)


def test_the_kernels_own_lists_lead_to_all(workload: Start) -> None:
    """A real tree of two levels, below two threads: four processes, each a child of the one that started it."""
    running = workload(FAMILY)
    child = running.wait("started")["child"]
    target = bind_processes(running.pid)
    tree = ProcessTree("/", target.processes)
    try:
        if not os.path.exists("/proc/thread-self/children"):
            pytest.skip("this kernel lists no children (CONFIG_PROC_CHILDREN)")
        members = {member.pid: member for member in tree.walk().members}
    finally:
        tree.close()
        release(target)
    assert len(members) == 4
    parents = [None if member.parent is None else member.parent.pid for member in members.values()]
    assert sorted(str(parent) for parent in parents) == sorted(map(str, (None, running.pid, running.pid, child)))
