"""mem.cgroup, and swap and pressure of a cgroup: on version 1 as this machine has it, on version 2 from files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from omn_core.api import BoundTarget, MachineRefused, ProbeContext, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import touch_bytes

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
Start = Callable[[Workload], Running]
Drive = Callable[..., Driver]
Ticking = Callable[[], int]


@pytest.fixture
def drive(registry: Registry, catalog: Catalog) -> Drive:
    """Make the driver of a source's backend on a cgroup."""

    def make(
        source: str, backend: str, path: str, *, sysroot: object = "/", mode: str = "poll", **how: Ticking
    ) -> Driver:
        target = Target("cgroup", path)
        binder = registry.load(registry.targets["cgroup"].binder)
        bound = binder(target, ProbeContext("cgroup", str(sysroot)))
        assert isinstance(bound, BoundTarget)
        resolved = resolve_onto(catalog.entries[source], backend, target, mode=mode)
        factory = registry.load(registry.collectors[source, backend].factory)
        return Driver(factory(), resolved, bound, sysroot=str(sysroot), **how)

    return make


@pytest.fixture
def unified(sysroot: Sysroot) -> Sysroot:
    """A machine with cgroup2 alone, as Linux 6.12 writes it; /job is limited and swaps."""
    sysroot.write("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n")
    sysroot.write("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
    job = "/sys/fs/cgroup/job"
    sysroot.write(f"{job}/cgroup.controllers", "cpu memory\n")
    sysroot.write(f"{job}/memory.current", "73400320\n").write(f"{job}/memory.max", "104857600\n")
    sysroot.write(f"{job}/memory.peak", "83886080\n").write(f"{job}/memory.swap.current", "4096\n")
    sysroot.write(
        f"{job}/memory.stat", "anon 52428800\nfile 16777216\nkernel 1048576\nshmem 8192\npswpin 5\npswpout 9\n"
    )
    sysroot.write(f"{job}/memory.events", "low 0\nhigh 0\nmax 17\noom 1\noom_kill 1\noom_group_kill 0\n")
    sysroot.write(f"{job}/memory.pressure", pressure(1000, 200))
    return sysroot


def pressure(some_us: int, full_us: int) -> str:
    averages = "avg10=1.50 avg60=0.50 avg300=0.10"
    return f"some {averages} total={some_us}\nfull {averages} total={full_us}\n"


@pytest.mark.spec("MEM-1")
def test_version_2_is_read_from_its_files(unified: Sysroot, drive: Drive) -> None:
    """Usage, limit, peak, kinds and events, each from the file that has it."""
    with drive("mem.cgroup", "fs:cgroup2:memory", "/job", sysroot=unified) as driver:
        (row,) = driver.sample()
    row.pop("ts_ns")
    assert row == {
        "cgroup": "/job",
        "usage_bytes": 70 * MIB,
        "limit_bytes": 100 * MIB,
        "peak_bytes": 80 * MIB,
        "anon_bytes": 50 * MIB,
        "file_bytes": 16 * MIB,
        "shmem_bytes": 8192,
        "kernel_bytes": MIB,
        "swap_bytes": 4096,
        "limit_events": 17,
        "oom_kills": 1,
    }


@pytest.mark.spec("EVT-5")
def test_what_an_older_kernel_does_not_have_is_absent(unified: Sysroot, drive: Drive) -> None:
    """No peak before 5.19, no limit where none is set, no swap file without swap: none of them zero."""
    job = "/sys/fs/cgroup/job"
    unified.remove(f"{job}/memory.peak").remove(f"{job}/memory.swap.current")
    unified.write(f"{job}/memory.max", "max\n")
    with drive("mem.cgroup", "fs:cgroup2:memory", "/job", sysroot=unified) as driver:
        (row,) = driver.sample()
    assert not {"peak_bytes", "limit_bytes", "swap_bytes"} & set(row)


def test_the_root_of_version_2_is_refused(unified: Sysroot, drive: Drive) -> None:
    """It has no memory.current: there is nothing to read, which is not zero."""
    with pytest.raises(MachineRefused, match=r"cgroup '/' has no memory\.current"):
        drive("mem.cgroup", "fs:cgroup2:memory", "/", sysroot=unified).__enter__()


def test_a_cgroup_that_is_removed_is_the_end(unified: Sysroot, drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel answers ENODEV for a file of a cgroup that is gone."""

    def answer(descriptor: int, size: int, offset: int) -> bytes:
        raise OSError(19, "No such device")

    with drive("mem.cgroup", "fs:cgroup2:memory", "/job", sysroot=unified) as driver:
        monkeypatch.setattr(os, "pread", answer)
        with pytest.raises(TargetGone):
            driver.sample()
        monkeypatch.undo()


@pytest.mark.spec("MEM-1")
def test_version_1_limited_and_filled_is_what_was_filled(
    make_cgroup: Callable[[str], Path], workload: Start, drive: Drive
) -> None:
    """A program that touches 48 MiB under a limit of 64 is charged them, under its limit, as the kernel's files say."""
    folder = make_cgroup("memory")
    limit = folder / "memory.limit_in_bytes"
    limit.write_text(str(64 * MIB))
    program = workload(touch_bytes(48 * MIB))
    program.wait("ready")
    (folder / "cgroup.procs").write_text(str(program.pid))
    with drive("mem.cgroup", "fs:cgroup1:memory", str(folder)) as driver:
        before = driver.sample()[0]["usage_bytes"]
        program.release()
        program.wait("touched")
        (row,) = driver.sample()
        beside = int((folder / "memory.usage_in_bytes").read_text())
    assert before < MIB
    assert abs(row["usage_bytes"] - beside) <= MIB
    assert 48 * MIB <= row["usage_bytes"] <= 52 * MIB
    assert row["limit_bytes"] == 64 * MIB
    assert row["peak_bytes"] >= row["usage_bytes"]
    assert abs(row["anon_bytes"] - 48 * MIB) <= MIB
    assert (row["charges_failed"], row["oom_kills"]) == (0, 0)


def test_version_1_without_a_limit_has_none(make_cgroup: Callable[[str], Path], drive: Drive) -> None:
    """The largest number the kernel writes is not a limit of eight exbibytes."""
    folder = make_cgroup("memory")
    with drive("mem.cgroup", "fs:cgroup1:memory", str(folder)) as driver:
        assert "limit_bytes" not in driver.sample()[0]
        assert driver.collector.degradations() == ()


def write_legacy(sysroot: Sysroot, hierarchical: str) -> None:
    sysroot.write("/proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
    job = "/sys/fs/cgroup/memory/job"
    sysroot.write(f"{job}/cgroup.procs", "").write(f"{job}/memory.usage_in_bytes", "4096\n")
    sysroot.write(f"{job}/memory.stat", "cache 1\nrss 2\ntotal_cache 10\ntotal_rss 20\n")
    sysroot.write(f"{job}/memory.use_hierarchy", hierarchical)


def test_version_1_that_is_not_hierarchical_says_what_is_left_out(sysroot: Sysroot, drive: Drive) -> None:
    """Before 5.11 a cgroup may be charged for itself alone: then its usage is not what was asked for."""
    write_legacy(sysroot, "0\n")
    with drive("mem.cgroup", "fs:cgroup1:memory", "/job", sysroot=sysroot) as driver:
        (row,) = driver.sample()
        assert (row["usage_bytes"], row["anon_bytes"], row["file_bytes"]) == (4096, 20, 10)
        assert "use_hierarchy is 0" in driver.collector.degradations()[0]


def test_a_cgroup_of_the_other_hierarchy_is_refused_with_what_would_serve(sysroot: Sysroot, drive: Drive) -> None:
    """A backend reads its own hierarchy and no other."""
    write_legacy(sysroot, "1\n")
    for source, backend in (("mem.cgroup", "fs:cgroup2:memory"), ("mem.pressure", "fs:cgroup2:pressure")):
        with pytest.raises(MachineRefused, match="'/job' has no memory"):
            drive(source, backend, "/job", sysroot=sysroot).__enter__()
    with pytest.raises(MachineRefused, match="no cgroup2 memory controller"):
        drive("mem.swap", "fs:cgroup2:memory", "/job", sysroot=sysroot).__enter__()


@pytest.mark.spec("MEM-1", "EVT-2")
def test_swap_of_a_cgroup_is_pages_of_bytes_by_direction(unified: Sysroot, drive: Drive) -> None:
    """A page in is read from the device, a page out written to it; each direction a row of its own."""
    with drive("mem.swap", "fs:cgroup2:memory", "/job", sysroot=unified) as driver:
        unified.write("/sys/fs/cgroup/job/memory.stat", "anon 1\npswpin 7\npswpout 19\n")
        rows = driver.sample()
    assert [(row["dir"], row["swapped_pages"], row["swapped_bytes"], row["cgroup"]) for row in rows] == [
        ("read", 2, 2 * PAGE, "/job"),
        ("write", 10, 10 * PAGE, "/job"),
    ]


@pytest.mark.spec("MEM-1", "RUN-10")
def test_pressure_of_a_cgroup_is_a_share_of_the_interval(unified: Sysroot, drive: Drive) -> None:
    """What the total grew by over the time between the readings; the reading at the attach is a baseline."""
    now = [0]
    with drive("mem.pressure", "fs:cgroup2:pressure", "/job", sysroot=unified, clock=lambda: now[0]) as driver:
        now[0] = 1_000_000_000
        unified.write("/sys/fs/cgroup/job/memory.pressure", pressure(251_000, 50_200))
        (row,) = driver.sample()
        assert (row["stall_ratio"], row["some_ns"]) == (0.25, 250_000_000)
        assert (row["full_ratio"], row["full_ns"]) == (0.05, 50_000_000)
        assert (row["some_avg10"], row["cgroup"]) == (0.015, "/job")
        now[0] = 2_000_000_000
        unified.write("/sys/fs/cgroup/job/memory.pressure", pressure(1000, 50_200))
        assert driver.sample() == []
        assert driver.collector.losses().failed_reads == 1


def test_pressure_of_a_cgroup_of_this_machine_is_read(make_cgroup: Callable[[str], Path], drive: Drive) -> None:
    """An empty cgroup waited for nothing."""
    folder = make_cgroup("unified")
    if not (folder / "memory.pressure").exists():
        pytest.skip("this kernel keeps no pressure by cgroup")
    with drive("mem.pressure", "fs:cgroup2:pressure", str(folder)) as driver:
        assert driver.sample()[0]["stall_ratio"] == 0.0
