"""The processes that descend from a target's, as they come, end and are orphaned."""

from __future__ import annotations

import os

import pytest
from omn_kernel.procfs.tree import ProcessTree, read_children

from omn_core.api import ProcessHandle
from omn_core.testing.sysroot import Sysroot


def write(sysroot: Sysroot, pid: int, children: str = "", *, start_ticks: int = 100, state: str = "S") -> None:
    sysroot.write_process(pid, start_ticks=start_ticks, state=state)
    sysroot.write(f"/proc/{pid}/task/{pid}/children", children)


@pytest.fixture
def tree(sysroot: Sysroot) -> ProcessTree:
    """The tree of process 1, with two levels below it."""
    write(sysroot, 1, "2 3 ")
    write(sysroot, 2, "4 ")
    write(sysroot, 3)
    write(sysroot, 4)
    return ProcessTree.of(str(sysroot), [ProcessHandle(1, None, 100)])


@pytest.mark.spec("SRC-6")
def test_all_that_descend_are_found_at_each_reading(sysroot: Sysroot, tree: ProcessTree) -> None:
    """One that comes is found by the next reading, of whatever thread it is the child."""
    assert tree.find_members() == {1, 2, 3, 4}
    sysroot.write("/proc/3/task/33/children", "5 ")
    write(sysroot, 5)
    assert tree.find_members() == {1, 2, 3, 4, 5}


def test_an_orphan_that_was_seen_stays(sysroot: Sysroot, tree: ProcessTree) -> None:
    """Its parent ended, and it is no child of the tree any more."""
    tree.find_members()
    sysroot.remove("/proc/2")
    sysroot.write("/proc/1/task/1/children", "3 ")
    assert tree.find_members() == {1, 3, 4}


def test_a_later_process_of_a_number_is_another_one(sysroot: Sysroot, tree: ProcessTree) -> None:
    """It is told by when it started; a zombie is no member."""
    tree.find_members()
    sysroot.write("/proc/1/task/1/children", "")
    write(sysroot, 2, start_ticks=999)
    write(sysroot, 3, state="Z")
    assert tree.find_members() == {1, 4}


def test_the_end_of_the_last_leaves_none(sysroot: Sysroot) -> None:
    """Empty, for the caller to say that the target is gone."""
    tree = ProcessTree.of(str(sysroot), [ProcessHandle(1, None, 100)])
    assert tree.find_members() == frozenset()


def test_the_kernel_lists_a_child_of_this_process() -> None:
    """A real one, held between its fork and its end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    try:
        if not os.path.exists("/proc/thread-self/children"):
            pytest.skip("this kernel lists no children (CONFIG_PROC_CHILDREN)")
        assert child in read_children("/", os.getpid())
    finally:
        os.close(writing)
        os.waitpid(child, 0)
    assert child not in read_children("/", os.getpid())
