"""What the controllers of cgroup2 keep, against workloads in a cgroup on which they are on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omn_kernel.targets import bind_cgroup

from omn_core.api import BoundTarget, ProbeContext, Target
from omn_core.testing.fixtures import remove_cgroup
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.workloads import spin, touch_bytes, transfer_directly

Start = Callable[[Workload], Running]
MIB = 1 << 20
DISK = "/dev/nvme0n2"
"""A disk that nothing else touches."""


@pytest.fixture
def group(make_cgroup: Callable[[str], Path]) -> Path:
    """A cgroup whose files every controller keeps."""
    folder = make_cgroup("unified")
    controllers = set((folder / "cgroup.controllers").read_text().split())
    assert {"cpu", "io", "memory", "pids"} <= controllers
    return folder


def bind(folder: Path) -> BoundTarget:
    return bind_cgroup(Target("cgroup", f"/{folder.name}"), ProbeContext())


def read_keyed(path: Path) -> dict[str, int]:
    """Read a file of lines `name value` by hand."""
    return {name: int(value) for name, value in (line.split() for line in path.read_text().splitlines())}


@pytest.mark.spec("KRN-9", "IO-1")
def test_direct_transfers_are_the_cgroups_to_the_byte(drive: Any, workload: Start, group: Path) -> None:
    """16 MiB read and 8 written in transfers of 64 KiB: bytes and requests, in each direction, of that disk."""
    child = workload(transfer_directly(DISK, 64 << 10, reads=256, writes=128))
    child.wait("ready")
    (group / "cgroup.procs").write_text(str(child.pid))
    with (
        drive("io.bytes", "fs:cgroup2:io.stat", bind(group)) as amounts,
        drive("io.iops", "fs:cgroup2:io.stat", bind(group)) as requests,
    ):
        child.release()
        child.wait("transferred")
        (moved,) = amounts.sample()
        (made,) = requests.sample()
    assert (moved["read_bytes"], moved["write_bytes"], moved["bytes"]) == (16 * MIB, 8 * MIB, 24 * MIB)
    assert (made["reads"], made["writes"], made["requests"]) == (256, 128, 384)


@pytest.mark.spec("KRN-9")
def test_cpu_time_is_what_the_cgroups_program_ran(drive: Any, workload: Start, group: Path) -> None:
    """cpu.stat's usage, between the program's own account and a reading by hand around it."""
    child = workload(spin(300_000_000))
    child.wait("ready")
    (group / "cgroup.procs").write_text(str(child.pid))
    before = read_keyed(group / "cpu.stat")["usage_usec"]
    with drive("cpu.util", "fs:cgroup2:cpu.stat", bind(group)) as driver:
        child.release()
        ran_ns = child.wait("spun")["oncpu_ns"]
        (row,) = driver.sample()
        after = read_keyed(group / "cpu.stat")["usage_usec"]
    assert ran_ns - 20_000_000 <= row["oncpu_ns"] <= (after - before) * 1000


@pytest.mark.spec("KRN-9")
def test_a_limited_cgroup_is_throttled_as_its_own_account_says(drive: Any, workload: Start, group: Path) -> None:
    """10 ms of every 100 ms: what was taken, in how many periods, lies between readings by hand around omn's."""
    (group / "cpu.max").write_text("10000 100000")
    child = workload(spin(60_000_000))
    child.wait("ready")
    by_hand = [read_keyed(group / "cpu.stat")]
    with drive("cpu.throttled", "fs:cgroup2:cpu.stat", bind(group)) as driver:
        by_hand.append(read_keyed(group / "cpu.stat"))
        (group / "cgroup.procs").write_text(str(child.pid))
        child.release()
        child.wait("spun")
        by_hand.append(read_keyed(group / "cpu.stat"))
        (row,) = driver.sample()
        by_hand.append(read_keyed(group / "cpu.stat"))
    names = {"throttled_ns": ("throttled_usec", 1000), "throttled_periods": ("nr_throttled", 1)}
    names["periods"] = ("nr_periods", 1)
    for ours, (theirs, scale) in names.items():
        before, opened, closing, closed = (account[theirs] * scale for account in by_hand)
        assert closing - opened <= row[ours] <= closed - before
    assert row["throttled_periods"] >= 2


@pytest.mark.spec("KRN-9")
def test_memory_is_what_the_cgroups_program_touched(drive: Any, workload: Start, group: Path) -> None:
    """24 MiB of anonymous pages, touched inside."""
    child = workload(touch_bytes(24 * MIB))
    child.wait("ready")
    (group / "cgroup.procs").write_text(str(child.pid))
    with drive("mem.cgroup", "fs:cgroup2:memory", bind(group)) as driver:
        (empty,) = driver.sample()
        child.release()
        child.wait("touched")
        (full,) = driver.sample()
    current = int((group / "memory.current").read_text())
    # The kernel writes what a cpu counted into memory.stat, and charges memory.current, by batches of pages.
    assert full["anon_bytes"] - empty["anon_bytes"] == pytest.approx(24 * MIB, abs=MIB)
    assert full["usage_bytes"] == pytest.approx(current, abs=2 * MIB)


@pytest.mark.spec("KRN-9")
@pytest.mark.parametrize("resource", ["cpu", "io", "mem"])
def test_pressure_of_a_cgroup_is_its_own_account(drive: Any, workload: Start, group: Path, resource: str) -> None:
    """While a limit holds its program back: the stall grows as the file's own total does around it."""
    file = group / f"{'memory' if resource == 'mem' else resource}.pressure"
    (group / "cpu.max").write_text("10000 100000")
    child = workload(spin(40_000_000))
    child.wait("ready")
    before = read_total(file)
    with drive(f"{resource}.pressure", "fs:cgroup2:pressure", bind(group)) as driver:
        (group / "cgroup.procs").write_text(str(child.pid))
        child.release()
        child.wait("spun")
        (row,) = driver.sample()
        after = read_total(file)
    assert 0 <= row["some_ns"] <= (after - before) * 1000
    assert (row["some_ns"] > 0) is (resource == "cpu")


def read_total(path: Path) -> int:
    """Read the microseconds in which something of a cgroup waited, by hand."""
    some = next(line for line in path.read_text().splitlines() if line.startswith("some "))
    return int(some.rpartition("total=")[2])


SPAWNS = """
import os, sys
for folder in sys.argv[1:]:
    if (child := os.fork()) == 0:
        with open(f"{folder}/cgroup.procs", "w") as file:
            file.write("0")
        for _ in range(20): os.getpriority(0, 0)
        for _ in range(3): os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.spec("KRN-9", "KRN-5")
def test_records_tell_the_cgroup_of_the_task_that_runs(
    drive: Any, group: Path, make_cgroup: Callable[[str], Path]
) -> None:
    """Of a cgroup, one below it and one beside it: what is done in the first two, by a helper and no types."""
    below, beside = group / "below", make_cgroup("unified")
    below.mkdir()
    try:
        with (
            drive("proc.fork", "bpf:tp", bind(group), mode="trace") as forks,
            drive("proc.exec", "bpf:tp", bind(group), mode="trace") as execs,
            drive("proc.exit", "bpf:tp", bind(group), mode="trace") as exits,
            drive("proc.calls", "bpf:tp", bind(group), "op", mode="trace") as calls,
            drive("sched.switches", "bpf:tp", bind(group), mode="trace") as switches,
        ):
            subprocess.run([sys.executable, "-S", "-c", SPAWNS, *map(str, (group, below, beside))], check=True)
    finally:
        remove_cgroup(below)
    for driver, made in ((forks, 2 * 3), (execs, 2 * 3), (exits, 2 * 4)):
        assert made - driver.collector.losses().skipped <= len(driver.rows) <= made
    called = sum(row["op"] == "getpriority" for row in calls.rows)
    assert 2 * 20 - calls.collector.losses().skipped <= called <= 2 * 20
    # Every task that ends has left its cpu.
    assert len(switches.rows) >= 2 * 4 - switches.collector.losses().skipped
