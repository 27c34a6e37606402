"""What tasks' block requests moved, held against programs that count their own and against the kernel's counters."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest
from event_backends import EACH_BACKEND, RECORDED, TYPED
from loop_devices import Loop
from omn_io.request_sums import Bytes, Requests
from omn_kernel.polled import read_file
from omn_kernel.procfs.disks import SECTOR_BYTES

from omn_core.api import BoundTarget
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, bind_processes, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_typed_programs")
MIB = 1 << 20
# Past the page cache: a child writes a device's first 2 MiB in blocks of 64 KiB, and the parent reads 1 MiB of 16 KiB.
MOVING = """
import mmap, os, sys
memory = mmap.mmap(-1, 1 << 16)
file = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
if os.fork() == 0:
    for block in range(32): os.pwritev(file, [memory], block << 16)
    os._exit(0)
os.wait()
for block in range(64): os.preadv(file, [memoryview(memory)[:1 << 14]], block << 14)
"""


def read_counters(device: str) -> dict[str, int]:
    """Return what the kernel counted of a device (Documentation/admin-guide/iostats.rst)."""
    (line,) = [
        line.split() for line in read_file("/", "/proc/diskstats").decode().splitlines() if f" {device} " in line
    ]
    reads, _, read_sectors, _, writes, _, written_sectors = (int(number) for number in line[3:10])
    return {
        "reads": reads,
        "writes": writes,
        "read_bytes": read_sectors * SECTOR_BYTES,
        "write_bytes": written_sectors * SECTOR_BYTES,
    }


def drive(
    catalog: Catalog, source: str, target: BoundTarget, *keys: str, mode: str = "count", backend: str = TYPED
) -> Driver:
    resolved = resolve_onto(catalog.entries[source], backend, target.target, keys=keys, mode=mode)
    return Driver(Bytes() if source == "io.bytes" else Requests(), resolved, target)


@pytest.mark.spec("SRC-3", "IO-1")
@pytest.mark.parametrize("backend", EACH_BACKEND)
@pytest.mark.parametrize(
    ("source", "moved"), [("io.bytes", {"read": MIB, "write": 2 * MIB}), ("io.iops", {"read": 64, "write": 32})]
)
def test_a_program_is_told_with_what_it_starts(
    loop: Loop, omn: Command, source: str, moved: dict[str, int], backend: str
) -> None:
    """By direction, to the byte and to the request, less at most what was lost or passed over."""
    asked = ["-m", "count", "-e", "count", "--keys", "dev,dir", "--backend", f"force:{backend}", "--format", "json"]
    ran = omn(source, *asked, "--", sys.executable, "-S", "-c", MOVING, loop.path)
    assert ran.code == 0, ran.stderr
    told = {tuple(one["key"].values()): one["emits"]["count"]["value"] for one in ran.result["series"]}
    seen, losses = {way: told[loop.name, way] for way in moved}, ran.result["losses"]
    is_short = losses["skipped"] or losses["dropped"]
    assert seen == moved or (is_short and all(seen[way] <= moved[way] for way in moved))
    assert backend == RECORDED or losses["skipped"] == 0


@pytest.mark.spec("SRC-3")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_the_machines_tasks_are_told_apart(loop: Loop, catalog: Catalog, backend: str) -> None:
    """Each under its number, in an undivided row with its parts; together they are what the kernel counted."""
    before = read_counters(loop.name)
    with drive(catalog, "io.bytes", bind_machine(), "dev", "task", mode="poll", backend=backend) as driver:
        child = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-S", "-c", MOVING, loop.path])
        os.waitpid(child, 0)
        driver.sample()
    grown = {name: value - before[name] for name, value in read_counters(loop.name).items()}
    rows = [row for row in driver.rows if row.get("dev") == loop.name]
    losses = driver.collector.losses()
    for part in ("read_bytes", "write_bytes"):
        seen = sum(row[part] for row in rows)
        assert seen == grown[part] or (not losses.is_empty and seen < grown[part])
    assert all(row["bytes"] == row["read_bytes"] + row["write_bytes"] for row in rows)
    (own,) = [row for row in rows if row["task"] == child]
    assert not losses.is_empty or own["bytes"] >= own["read_bytes"] >= MIB
    assert backend == RECORDED or losses.skipped == 0


def test_a_device_that_stands_on_a_file_is_left_out_of_one_figure(loop: Loop, omn: Command) -> None:
    """Since what it does is done again below; the answer names it, and a figure of nothing is a zero."""
    ran = omn(
        "io.bytes", "-m", "count", "-e", "count", "--format", "json", "--",
        sys.executable, "-S", "-c", MOVING, loop.path,
    )  # fmt: skip
    assert ran.code == 0, ran.stderr
    assert any(fact.startswith(f"{loop.name} is left out of the figure") for fact in ran.result["facts"])
    assert ran.result["series"][0]["emits"]["count"]["value"] < 3 * MIB


def test_nothing_moved_is_a_zero(catalog: Catalog) -> None:
    """Where nothing divides the answer; divided there is no row."""
    counted: dict[tuple[str, ...], list[Any]] = {}
    for keys in [(), ("dev",)]:
        with drive(catalog, "io.iops", bind_processes(os.getpid()), *keys) as driver:
            counted[keys] = [row["requests"] for row in driver.sample()]
    assert counted == {(): [0], ("dev",): []}
