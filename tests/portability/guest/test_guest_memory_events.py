"""What the kernel does for want of memory, in a cgroup2 cgroup at its limit, against the cgroup's own account."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omn_kernel.procfs.task import PAGE_BYTES
from omn_kernel.targets import bind_cgroup

from omn_core.api import BoundTarget, ProbeContext, Target
from omn_core.testing.harness import bind_machine, bind_processes

MIB = 1 << 20
LIMIT = 24 * MIB


@pytest.fixture
def group(make_cgroup: Callable[[str], Path]) -> Path:
    """A cgroup of 24 MiB."""
    folder = make_cgroup("unified")
    (folder / "memory.max").write_text(str(LIMIT))
    return folder


def bind(folder: Path) -> BoundTarget:
    return bind_cgroup(Target("cgroup", f"/{folder.name}"), ProbeContext())


def run_inside(folder: Path, code: str) -> int:
    """Run Python in a cgroup, and return how it ended."""
    join = f"import os; open('{folder}/cgroup.procs', 'w').write(str(os.getpid()))"
    return subprocess.run([sys.executable, "-S", "-c", f"{join}\n{code}"], check=False).returncode


@pytest.mark.spec("KRN-9", "SRC-5")
def test_a_process_that_is_killed_is_counted_and_named(drive: Any, group: Path) -> None:
    """Once by the cgroup's count, once by its name: of kernels that hand the victim over and of those that do not."""
    with (
        drive("mem.oom", "fs:cgroup2:events", bind(group), mode="count") as counted,
        drive("mem.oom", "bpf:raw_tp", bind_machine(), "task", "comm", mode="trace") as named,
    ):
        assert run_inside(group, "bytearray(64 << 20)") == -9
        (row,) = counted.sample()
    assert row["kills"] == 1
    (victim,) = named.rows
    assert victim["comm"].startswith("python")
    assert victim["asker_pid"] == victim["task"]
    assert LIMIT // 2 < victim["rss_bytes"] < 3 * LIMIT


def read_stolen(folder: Path) -> int:
    return int(re.findall(r"^pgsteal (\d+)$", (folder / "memory.stat").read_text(), re.MULTILINE)[0])


@pytest.mark.spec("KRN-9", "MEM-1")
def test_reclaim_is_what_was_taken_from_the_cgroup(drive: Any, group: Path) -> None:
    """40 MiB of a file in 24: what each reclaim took is what the cgroup lost, all of it at its limit."""
    before = read_stolen(group)
    code = (
        "file = open('/disk/reclaimed', 'wb')\nfor _ in range(40): file.write(bytes(1 << 20)), os.fsync(file.fileno())"
    )
    with drive("mem.reclaim", "bpf:raw_tp", bind(group), "op", mode="trace") as driver:
        assert run_inside(group, code) == 0
        driver.sample()
    Path("/disk/reclaimed").unlink()
    taken = read_stolen(group) - before
    assert {row["op"] for row in driver.rows} == {"memcg"}
    reclaimed = sum(row["reclaimed_bytes"] for row in driver.rows) // PAGE_BYTES
    assert (40 * MIB - LIMIT) // PAGE_BYTES // 2 <= reclaimed <= taken + 64
    assert all(row["stall_ns"] > 0 for row in driver.rows)
    assert driver.collector.losses().is_empty


@pytest.mark.spec("KRN-9", "MEM-1")
def test_zones_are_compacted_and_pages_handed_out_to_whoever_asks(drive: Any) -> None:
    """The zones that have pages, once each; the pages that a program touches, one by one."""
    zones = re.findall(r"^Node .*?\n +present +(\d+)", Path("/proc/zoneinfo").read_text(), re.MULTILINE | re.DOTALL)
    code = (
        "import sys; sys.stdin.readline(); open('/proc/sys/vm/compact_memory', 'w').write('1'); b = bytearray(8 << 20)"
    )
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, bufsize=0) as child:
        assert child.stdin is not None
        with (
            drive("mem.compaction", "bpf:raw_tp", bind_processes(child.pid), "op", mode="trace") as compacted,
            drive("mem.page_alloc", "bpf:raw_tp", bind_processes(child.pid), mode="poll") as allocated,
        ):
            child.stdin.write(b"\n")
            assert child.wait() == 0
            allocated.sample()
    assert len(compacted.rows) == sum(int(present) > 0 for present in zones)
    assert {row["op"] for row in compacted.rows} == {"sync"}
    assert all(row["result"] for row in compacted.rows)
    assert 8 * MIB <= sum(row["bytes"] for row in allocated.rows) <= 64 * MIB
