"""The machine's memory: meminfo, pressure, swap, huge pages, slabs, nodes; from captured files and live."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from omn_core.api import BoundTarget, MachineRefused, ProcessHandle, Target
from omn_core.model.catalog import Catalog
from omn_core.model.request import EmitSpec
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, bind_machine, bind_processes, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import touch_bytes

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
Start = Callable[[Workload], Running]
Drive = Callable[..., Driver]


@pytest.fixture
def drive(registry: Registry, catalog: Catalog) -> Drive:
    """Make the driver of a source's backend on the machine."""

    def make(
        source: str,
        backend: str,
        *,
        target: BoundTarget | None = None,
        sysroot: object = "/",
        emits: tuple[EmitSpec, ...] = (),
        **how: Any,
    ) -> Driver:
        target = target or bind_machine()
        resolved = resolve_onto(catalog.entries[source], backend, target.target, **how)
        if emits:
            resolved = attrs.evolve(resolved, emits=emits)
        factory = registry.load(registry.collectors[source, backend].factory)
        return Driver(factory(), resolved, target, sysroot=str(sysroot))

    return make


def test_meminfo_is_the_kernels_in_bytes(sysroot: Sysroot, drive: Drive) -> None:
    """Used is the total less what is available; a field that this kernel lacks is absent."""
    sysroot.write("/proc/meminfo", "MemTotal:  1000 kB\nMemFree:  200 kB\nMemAvailable:  600 kB\nHugePages_Total: 4\n")
    with drive("mem.meminfo", "fs:proc:meminfo", sysroot=sysroot) as driver:
        (row,) = driver.sample()
    row.pop("ts_ns")
    assert row == {
        "total_bytes": 1000 * 1024,
        "free_bytes": 200 * 1024,
        "available_bytes": 600 * 1024,
        "used_bytes": 400 * 1024,
    }


@pytest.mark.spec("EVT-5")
def test_without_an_estimate_what_is_used_is_absent(sysroot: Sysroot, drive: Drive) -> None:
    """Total less free is another quantity, and is not put in its place."""
    sysroot.write("/proc/meminfo", "MemTotal:  1000 kB\nMemFree:  200 kB\n")
    with drive("mem.meminfo", "fs:proc:meminfo", sysroot=sysroot) as driver:
        assert "used_bytes" not in driver.sample()[0]


def test_every_attribute_of_meminfo_is_declared(drive: Drive, catalog: Catalog) -> None:
    """What this machine writes is what the catalog says can come."""
    with drive("mem.meminfo", "fs:proc:meminfo") as driver:
        (row,) = driver.sample()
    assert set(row) - {"ts_ns"} <= set(catalog.entries["mem.meminfo"].attributes)


def test_pressure_of_the_machine_is_what_its_total_grew_by(sysroot: Sysroot, drive: Drive) -> None:
    """The kernel's microseconds, as nanoseconds."""
    line = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n"
    sysroot.write("/proc/pressure/memory", line.format(5))
    with drive("mem.pressure", "fs:proc:pressure", sysroot=sysroot) as driver:
        sysroot.write("/proc/pressure/memory", line.format(25))
        (row,) = driver.sample()
    assert (row["some_ns"], row["full_ns"]) == (20_000, 0)
    assert 0 < row["stall_ratio"] <= 1


def write_thp(sysroot: Sysroot, allocated: int, small: int) -> None:
    base = "/sys/kernel/mm/transparent_hugepage"
    sysroot.write(f"{base}/hpage_pmd_size", "2097152\n")
    for size, count in ((64, small), (2048, allocated)):
        sysroot.write(f"{base}/hugepages-{size}kB/stats/anon_fault_alloc", f"{count}\n")
        sysroot.write(f"{base}/hugepages-{size}kB/stats/split", "0\n")
    sysroot.write("/proc/vmstat", f"nr_free_pages 1\nthp_fault_alloc {allocated}\nthp_split_page 0\npswpin 1\n")


@pytest.mark.spec("MEM-1", "CAT-11")
def test_one_counter_has_one_name_on_both_backends(sysroot: Sysroot, drive: Drive) -> None:
    """The largest size reads alike; the smaller ones are on the first backend alone."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for backend in ("fs:sys:thp", "fs:proc:vmstat"):
        write_thp(sysroot, 10, 100)
        with drive("mem.thp", backend, sysroot=sysroot) as driver:
            write_thp(sysroot, 13, 120)
            rows[backend] = [{k: v for k, v in row.items() if k != "ts_ns"} for row in driver.sample()]
    assert rows["fs:sys:thp"] == [
        {"size": 65536, "fault_alloc": 20, "split": 0},
        {"size": 2097152, "fault_alloc": 3, "split": 0},
    ]
    assert rows["fs:proc:vmstat"] == [{"size": 2097152, "fault_alloc": 3, "split": 0}]


def test_a_kernel_without_huge_pages_refuses(sysroot: Sysroot, drive: Drive) -> None:
    """Neither backend reads nothing as zero."""
    sysroot.write("/proc/vmstat", "nr_free_pages 1\n")
    sysroot.write("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152\n")
    for backend in ("fs:sys:thp", "fs:proc:vmstat"):
        with pytest.raises(MachineRefused, match="huge pages"):
            drive("mem.thp", backend, sysroot=sysroot).__enter__()


@pytest.mark.spec("MEM-1")
def test_huge_pages_that_a_program_gets_are_counted(drive: Drive) -> None:
    """A program that asks for eight and touches them: what both accounts of the kernel grew by at least."""
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not enabled.exists() or "[never]" in enabled.read_text():
        pytest.skip("transparent huge pages are off here")
    source = (
        "import mmap\n"
        "area = mmap.mmap(-1, 18 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "area.madvise(mmap.MADV_HUGEPAGE)\n"
        "area.write(bytes(18 << 20))\n"
    )
    with drive("mem.thp", "fs:sys:thp") as sizes, drive("mem.thp", "fs:proc:vmstat") as largest:
        subprocess.run([sys.executable, "-c", source], check=True)
        by_size = {row["size"]: row for row in sizes.sample()}
        (row,) = largest.sample()
    assert row["fault_alloc"] + row["fault_fallback"] >= 8
    assert by_size[row["size"]]["fault_alloc"] + by_size[row["size"]]["fault_fallback"] >= 8


SLABINFO = """slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> ...
dentry               210    225    192   21    1 : tunables    0    0    0 : slabdata     11     11      0
kmalloc-8k            28     32   8192    4    8 : tunables    0    0    0 : slabdata      8      8      0
"""


@pytest.mark.spec("MEM-1")
def test_slab_caches_are_rows_where_they_are_asked_apart(sysroot: Sysroot, drive: Drive) -> None:
    """A snapshot lists them, a series over time holds their sum unless it is divided or filtered by them."""
    sysroot.write("/proc/slabinfo", SLABINFO)
    with drive("mem.slab", "fs:proc:slabinfo", sysroot=sysroot, mode="snapshot") as driver:
        dentry, large = driver.sample()
    assert (dentry["cache"], dentry["slab_bytes"], dentry["active_bytes"]) == ("dentry", 11 * PAGE, 210 * 192)
    assert (large["slab_bytes"], large["active_objects"], large["object_bytes"]) == (64 * PAGE, 28, 8192)
    with drive("mem.slab", "fs:proc:slabinfo", sysroot=sysroot, mode="poll") as driver:
        (row,) = driver.sample()
    assert (row["slab_bytes"], row["objects"]) == (75 * PAGE, 257)
    assert not {"cache", "object_bytes"} & set(row)
    with drive("mem.slab", "fs:proc:slabinfo", sysroot=sysroot, mode="poll", keys=["cache"]) as driver:
        assert len(driver.sample()) == 2
    how = {"sysroot": sysroot, "mode": "poll", "predicate": 'cache == "dentry"'}
    with drive("mem.slab", "fs:proc:slabinfo", **how) as driver:
        assert len(driver.sample()) == 2


@pytest.mark.spec("MEM-1", "EMT-1")
def test_to_list_the_rows_too_changes_no_other_answer(sysroot: Sysroot, drive: Drive) -> None:
    """A series of sums stays one beside its raw rows; an emit that names the caches divides it."""
    sysroot.write("/proc/slabinfo", SLABINFO)
    how: dict[str, Any] = {"sysroot": sysroot, "mode": "poll"}
    with drive("mem.slab", "fs:proc:slabinfo", emits=(EmitSpec("summary"), EmitSpec("raw")), **how) as driver:
        (row,) = driver.sample()
    assert row["slab_bytes"] == 75 * PAGE
    with drive("mem.slab", "fs:proc:slabinfo", emits=(EmitSpec("summary", attribute="cache"),), **how) as driver:
        assert len(driver.sample()) == 2


def test_slab_totals_come_from_meminfo(sysroot: Sysroot, drive: Drive) -> None:
    """One figure, and no cache that it could be mistaken for."""
    sysroot.write("/proc/meminfo", "MemTotal: 1000 kB\nSlab:   40 kB\nSReclaimable: 30 kB\nSUnreclaim: 10 kB\n")
    with drive("mem.slab", "fs:proc:meminfo", sysroot=sysroot) as driver:
        (row,) = driver.sample()
    assert set(row) == {"ts_ns", "slab_bytes"}
    assert row["slab_bytes"] == 40 * 1024


def test_this_machines_slabs_are_near_its_total(drive: Drive) -> None:
    """All caches together are no more than what the kernel counts for slabs, and most of it."""
    try:
        driver = drive("mem.slab", "fs:proc:slabinfo", mode="poll")
        with driver, drive("mem.slab", "fs:proc:meminfo") as totals:
            early, caches, late = (one.sample()[0]["slab_bytes"] for one in (totals, driver, totals))
    except MachineRefused as refused:
        pytest.skip(str(refused))
    assert 0.5 * min(early, late) <= caches <= max(early, late) + 16 * MIB


def write_nodes(sysroot: Sysroot, misses: int) -> None:
    base = "/sys/devices/system/node"
    sysroot.write(f"{base}/online", "0,2\n")
    for node, used in ((0, 600), (2, 50)):
        sysroot.write(
            f"{base}/node{node}/meminfo",
            f"Node {node} MemTotal: 1000 kB\nNode {node} MemFree: {1000 - used} kB\nNode {node} MemUsed: {used} kB\n",
        )
        sysroot.write(
            f"{base}/node{node}/numastat", f"numa_hit 100\nnuma_miss {misses}\nlocal_node 5\nother_node {misses}\n"
        )


@pytest.mark.spec("MEM-1", "RUN-10")
def test_nodes_are_rows_with_what_was_allocated_in_the_interval(sysroot: Sysroot, drive: Drive) -> None:
    """What a node holds is a reading, what was allocated on it an interval's; a snapshot has no interval."""
    write_nodes(sysroot, 7)
    with drive("mem.numa", "fs:sys:node", sysroot=sysroot, mode="poll") as driver:
        write_nodes(sysroot, 9)
        first, second = driver.sample()
    assert (first["node"], first["node_bytes"], first["miss_pages"], first["hit_pages"]) == (0, 600 * 1024, 2, 0)
    assert (second["node"], second["node_bytes"]) == (2, 50 * 1024)
    with drive("mem.numa", "fs:sys:node", sysroot=sysroot, mode="snapshot") as driver:
        assert "miss_pages" not in driver.sample()[0]


def test_a_process_is_spread_over_its_nodes(sysroot: Sysroot, drive: Drive) -> None:
    """A row for each node that it has pages on."""
    sysroot.write_process(7)
    sysroot.write("/proc/7/numa_maps", "00400000 default file=/x mapped=3 N0=1 N2=2 kernelpagesize_kB=4\n")
    target = BoundTarget(Target("pid", (7,)), "process", (ProcessHandle(7, None, 100),))
    with drive("mem.numa", "fs:proc:numa_maps", target=target, sysroot=sysroot) as driver:
        rows = driver.sample()
    assert [(row["node"], row["node_bytes"], row["task"]) for row in rows] == [(0, 4096, 7), (2, 8192, 7)]


def test_this_machines_nodes_hold_a_programs_resident_set(workload: Start, drive: Drive) -> None:
    """All nodes together hold what statm says, for a program that holds still."""
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("this kernel is built without memory nodes")
    program = workload(touch_bytes(32 * MIB))
    program.wait("ready")
    program.release()
    program.wait("touched")
    resident = int(Path(f"/proc/{program.pid}/statm").read_text().split()[1]) * PAGE
    with drive("mem.numa", "fs:proc:numa_maps", target=bind_processes(program.pid)) as driver:
        held = sum(row["node_bytes"] for row in driver.sample())
    assert abs(held - resident) <= MIB


def test_swap_of_the_machine_is_what_its_counters_grew_by(sysroot: Sysroot, drive: Drive) -> None:
    """Pages of the machine's size, each direction a row."""
    sysroot.write("/proc/vmstat", "pswpin 3\npswpout 10\n")
    with drive("mem.swap", "fs:proc:vmstat", sysroot=sysroot) as driver:
        sysroot.write("/proc/vmstat", "pswpin 3\npswpout 14\n")
        rows = driver.sample()
    assert [(row["dir"], row["swapped_bytes"]) for row in rows] == [("read", 0), ("write", 4 * PAGE)]


def test_a_kernel_without_swap_refuses(sysroot: Sysroot, drive: Drive) -> None:
    """No counter is not a flow of nothing."""
    sysroot.write("/proc/vmstat", "nr_free_pages 1\n")
    with pytest.raises(MachineRefused, match="built without swap"):
        drive("mem.swap", "fs:proc:vmstat", sysroot=sysroot).__enter__()


def find_refusal_of_zram() -> str | None:
    """Say why no zram device can be swapped to here, None where one can."""
    disk = Path("/sys/block/zram0/disksize")
    if os.geteuid() != 0:
        return "only root can swap to a device"
    if not disk.exists():
        return "there is no zram device here"
    if int(disk.read_text()):
        return "the zram device is in use"
    return None if shutil.which("mkswap") else "mkswap is not installed here"


@pytest.fixture
def zram_swap() -> Iterator[None]:
    """Swap to a zram device of 128 MiB for the length of a test."""
    refusal = find_refusal_of_zram()
    if refusal is not None:
        pytest.skip(refusal)
    folder, device = Path("/sys/block/zram0"), b"/dev/zram0"
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        (folder / "disksize").write_text(str(128 * MIB))
        subprocess.run(["mkswap", device], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"the zram device cannot be set up: {error}")
    if libc.swapon(device, 0):
        (folder / "reset").write_text("1")
        pytest.skip(f"swapon: {os.strerror(ctypes.get_errno())}")
    yield
    libc.swapoff(device)
    (folder / "reset").write_text("1")


@pytest.mark.spec("MEM-1")
def test_pages_that_do_not_fit_their_cgroup_go_to_swap_and_are_counted(
    zram_swap: None, make_cgroup: Callable[[str], Path], workload: Start, drive: Drive
) -> None:
    """A program that touches 64 MiB under a limit of 32 writes the rest to swap, as its own file says."""
    folder = make_cgroup("memory")
    (folder / "memory.limit_in_bytes").write_text(str(32 * MIB))
    program = workload(touch_bytes(64 * MIB))
    program.wait("ready")
    (folder / "cgroup.procs").write_text(str(program.pid))
    with drive("mem.swap", "fs:proc:vmstat") as driver:
        program.release()
        program.wait("touched")
        written = {row["dir"]: row["swapped_bytes"] for row in driver.sample()}["write"]
    status = Path(f"/proc/{program.pid}/status").read_text()
    swapped = int(status.partition("VmSwap:")[2].split()[0]) * 1024
    assert swapped >= 24 * MIB
    assert swapped <= written <= 128 * MIB
