"""sched.numa_balance where there is one node, and which node a cpu is of. Guests of two nodes decide something."""

from __future__ import annotations

import os

import pytest
from event_backends import EACH_BACKEND
from omn_kernel.sysfs import find_cpu_nodes, read_nodes

from omn_core.testing.fixtures import Command
from omn_core.testing.sysroot import Sysroot

NODES = "/sys/devices/system/node"


@pytest.mark.spec("SCH-1")
@pytest.mark.parametrize("backend", EACH_BACKEND)
@pytest.mark.usefixtures("loads_typed_programs")
def test_a_machine_of_one_node_decides_nothing(omn: Command, backend: str) -> None:
    """Which is a count of none: programs hear every decision."""
    if os.path.exists(NODES) and len(read_nodes("/")) > 1:
        pytest.skip("this machine has several memory nodes")
    asked = ["-m", "count", "-e", "count", "--backend", f"force:{backend}", "--format", "json", "--", "true"]
    ran = omn("sched.numa_balance", *asked)
    if ran.code == 1 and "sched_move_numa" in ran.stderr:
        pytest.skip("this kernel has no tracepoint sched_move_numa")
    assert ran.code == 0, ran.stderr
    assert [series["emits"]["count"]["value"] for series in ran.result["series"]] == [0]


def test_the_node_of_a_cpu_is_the_one_that_lists_it(sysroot: Sysroot) -> None:
    """Of cpus that are online; none where the kernel knows no nodes."""
    assert find_cpu_nodes(str(sysroot)) == {}
    sysroot.write(f"{NODES}/online", "0,2\n")
    sysroot.write(f"{NODES}/node0/cpulist", "0-1\n")
    sysroot.write(f"{NODES}/node2/cpulist", "4\n")
    assert find_cpu_nodes(str(sysroot)) == {0: 0, 1: 0, 4: 2}
