"""The scheduler's accounts, whatever version of the file this kernel writes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omn_core.testing.harness import bind_machine, bind_processes
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.workloads import spin

Start = Callable[[Workload], Running]
KNOWN_VERSIONS = {15, 16, 17}


def read_waits() -> int:
    """Read by hand what tasks waited on all cpus together: the eighth number of each cpu's line."""
    lines = re.findall(r"^cpu\d+ (.*)$", Path("/proc/schedstat").read_text(), re.M)
    assert len(lines) == os.cpu_count()
    return sum(int(line.split()[7]) for line in lines)


@pytest.mark.spec("KRN-9")
def test_the_version_of_the_file_is_one_that_was_looked_at() -> None:
    """A new one asks for another look at where its numbers stand."""
    head = Path("/proc/schedstat").read_text().split("\n", 1)[0]
    assert int(head.removeprefix("version ")) in KNOWN_VERSIONS


@pytest.mark.spec("KRN-9")
def test_what_was_waited_on_the_machine_lies_between_readings_by_hand(drive: Any, workload: Start) -> None:
    """Two programs on one cpu wait for each other; the machine's account grows by at least what one of them waited."""
    children = [workload(spin(200_000_000, cpu=0)) for _ in range(2)]
    for child in children:
        child.wait("ready")
    before = read_waits()
    with drive("sched.runqlat", "fs:proc:cpu_schedstat", bind_machine()) as driver:
        opened = read_waits()
        for child in children:
            child.release()
        for child in children:
            child.wait("spun")
        closing = read_waits()
        (row,) = driver.sample()
        closed = read_waits()
    assert closing - opened <= row["wait_ns"] <= closed - before
    assert row["wait_ns"] > 100_000_000


@pytest.mark.spec("KRN-9")
def test_what_two_programs_waited_is_about_what_the_other_ran(drive: Any, workload: Start) -> None:
    """Pinned to one cpu each waits while the other runs."""
    one, other = workload(spin(200_000_000, cpu=0)), workload(spin(200_000_000, cpu=0))
    for child in (one, other):
        child.wait("ready")
    with drive("sched.runqlat", "fs:proc:schedstat", bind_processes(one.pid)) as driver:
        for child in (one, other):
            child.release()
        for child in (one, other):
            child.wait("spun")
        (row,) = driver.sample()
        waited = int(Path(f"/proc/{one.pid}/schedstat").read_text().split()[1])
    assert 0 < row["wait_ns"] <= waited
