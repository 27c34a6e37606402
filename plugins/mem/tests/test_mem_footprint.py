"""mem.rss, mem.pss, mem.uss: against the kernel's own files, on live processes and on made ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from another_user import run_as_another_user

from omn_core.api import BoundTarget, MachineRefused, ProcessHandle, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.model.request import EmitSpec
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, bind_processes, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import end_with, rename, share_bytes, touch_bytes

PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20
Start = Callable[[Workload], Running]
Drive = Callable[..., Driver]


@pytest.fixture
def drive(registry: Registry, catalog: Catalog) -> Drive:
    """Make the driver of a source's backend."""

    def make(
        source: str,
        backend: str,
        target: BoundTarget,
        *,
        sysroot: object = "/",
        emit: str = "",
        keys: tuple[str, ...] = (),
    ) -> Driver:
        resolved = resolve_onto(catalog.entries[source], backend, target.target, keys=keys)
        if emit:
            resolved = attrs.evolve(resolved, emits=(EmitSpec(emit),))
        factory = registry.load(registry.collectors[source, backend].factory)
        return Driver(factory(), resolved, target, sysroot=str(sysroot))

    return make


def make_target(*pids: int) -> BoundTarget:
    """A target of processes that stand in files."""
    return BoundTarget(Target("pid", pids), "process", tuple(ProcessHandle(pid, None, 100) for pid in pids))


@pytest.fixture
def machine(sysroot: Sysroot) -> Sysroot:
    """Three processes, one of a seven-digit number and one whose namespace is closed to this user."""
    for pid, resident, name in ((12, 700, b"first"), (4194301, 9, b"\xff\xfe) R 1 ("), (13, 0, b"tiny")):
        sysroot.write_process(pid, comm=name)
        sysroot.write(f"/proc/{pid}/comm", name + b"\n")
        sysroot.write(f"/proc/{pid}/statm", f"2500 {resident} {resident // 2} 5 0 200 0\n")
        sysroot.write(f"/proc/{pid}/status", f"Name:\tx\nNSpid:\t{pid}\n")
    sysroot.link("/proc/12/ns/pid", "pid:[4026531836]").link("/proc/4194301/ns/pid", "pid:[4026531836]")
    return sysroot


@pytest.mark.spec("MEM-1", "EVT-2")
def test_several_processes_are_rows_of_one_reading(machine: Sysroot, drive: Drive) -> None:
    """One stamp, a row each; the key that cannot be read is absent, and a resident set of zero is a measurement."""
    target = make_target(12, 4194301, 13)
    with drive("mem.rss", "fs:proc:statm", target, sysroot=machine, keys=("task", "proc")) as driver:
        rows = driver.sample()
    assert [(row["task"], row["rss_bytes"], row["file_bytes"]) for row in rows] == [
        (12, 700 * PAGE, 350 * PAGE),
        (4194301, 9 * PAGE, 4 * PAGE),
        (13, 0, 0),
    ]
    assert [row.get("proc") for row in rows] == ["4026531836:12", "4026531836:4194301", None]
    assert len({row["ts_ns"] for row in rows}) == 1


@pytest.mark.parametrize(
    ("release", "is_rough"), [("6.1.0-49-amd64", False), ("6.8.0-31-generic", True), ("6.16.1", False), ("odd", False)]
)
def test_a_kernel_that_adds_up_roughly_is_noted(machine: Sysroot, drive: Drive, release: str, is_rough: bool) -> None:
    """On that kernel alone, by its own name; elsewhere nobody needs to read it."""
    machine.write("/proc/sys/kernel/osrelease", f"{release}\n")
    with drive("mem.rss", "fs:proc:statm", make_target(12), sysroot=machine) as driver:
        assert [release in fact for fact in driver.collector.facts()] == [True] * is_rough


@pytest.mark.spec("RUN-7")
def test_a_process_that_ends_leaves_the_others(machine: Sysroot, drive: Drive) -> None:
    """It is no loss, its keys go with it, and the request ends with the last one."""
    target = make_target(12, 4194301)
    with drive("mem.rss", "fs:proc:statm", target, sysroot=machine, keys=("task",)) as driver:
        assert len(driver.sample()) == 2
        machine.write("/proc/12/statm", "0 0 0 0 0 0 0\n")
        (row,) = driver.sample()
        assert (row["task"], row["proc"], row["rss_bytes"]) == (4194301, "4026531836:4194301", 9 * PAGE)
        machine.write("/proc/4194301/statm", "0 0 0 0 0 0 0\n")
        with pytest.raises(TargetGone):
            driver.sample()
        assert driver.collector.losses().is_empty


@pytest.mark.spec("RUN-6")
def test_a_read_that_fails_while_the_process_runs_is_a_loss_with_its_reason(machine: Sysroot, drive: Drive) -> None:
    """The others are still read, and the one that failed is still followed."""
    target, machine = make_target(12, 13), write_rollups(machine)
    with drive("mem.uss", "fs:proc:smaps_rollup", target, sysroot=machine, keys=("task",)) as driver:
        machine.remove("/proc/12/smaps_rollup")
        (row,) = driver.sample()
        assert row["task"] == 13
        losses = driver.collector.losses()
        assert losses.failed_reads == 1
        assert "smaps_rollup" in losses.reasons[0]
        write_rollups(machine)
        assert [row["task"] for row in driver.sample()] == [12, 13]


ROLLUP = """55d0-7ffd ---p 00000000 00:00 0                          [rollup]
Rss:                1776 kB
Pss:                 407 kB
{kinds}Private_Clean:        48 kB
Private_Dirty:       112 kB
Anonymous:           112 kB
SwapPss:               3 kB
"""
KINDS = "Pss_Anon:            112 kB\nPss_File:            295 kB\nPss_Shmem:             0 kB\n"


def write_rollups(machine: Sysroot, kinds: str = KINDS) -> Sysroot:
    for pid in (12, 13):
        machine.write(f"/proc/{pid}/smaps_rollup", ROLLUP.format(kinds=kinds))
    return machine


def test_the_rollups_amounts_are_those_of_the_kernel(machine: Sysroot, drive: Drive) -> None:
    """Each source takes its own of them."""
    write_rollups(machine)
    with drive("mem.pss", "fs:proc:smaps_rollup", make_target(12), sysroot=machine) as driver:
        (row,) = driver.sample()
    assert (row["pss_bytes"], row["anon_bytes"], row["swap_pss_bytes"]) == (407 * 1024, 112 * 1024, 3072)
    with drive("mem.uss", "fs:proc:smaps_rollup", make_target(12), sysroot=machine) as driver:
        (row,) = driver.sample()
    assert (row["uss_bytes"], row["private_clean_bytes"]) == (160 * 1024, 48 * 1024)
    assert "private_hugetlb_bytes" not in row
    with drive("mem.rss", "fs:proc:smaps_rollup", make_target(12), sysroot=machine) as driver:
        (row,) = driver.sample()
    assert (row["rss_bytes"], row["file_bytes"]) == (1776 * 1024, 1664 * 1024)


@pytest.mark.spec("EVT-5")
def test_what_an_older_kernel_does_not_write_is_absent(machine: Sysroot, drive: Drive) -> None:
    """The kinds of the proportional set came with 5.0: before it they are not zero."""
    write_rollups(machine, kinds="")
    with drive("mem.pss", "fs:proc:smaps_rollup", make_target(12), sysroot=machine) as driver:
        (row,) = driver.sample()
    assert "anon_bytes" not in row
    assert row["pss_bytes"] == 407 * 1024


def test_names_are_read_where_an_answer_can_show_them(machine: Sysroot, drive: Drive) -> None:
    """Any bytes, as they stand at the reading; and nothing is read for an answer that shows none."""
    target = make_target(12, 4194301)
    with drive("mem.rss", "fs:proc:statm", target, sysroot=machine, emit="raw", keys=("task",)) as driver:
        assert [row["comm"] for row in driver.sample()] == ["first", "\udcff\udcfe) R 1 ("]
        stat = machine.path("/proc/12/stat")
        stat.write_bytes(stat.read_bytes().replace(b"(first)", b"(renamed)"))
        assert driver.sample()[0]["comm"] == "renamed"
    with drive("mem.rss", "fs:proc:statm", target, sysroot=machine, keys=("comm",)) as driver:
        assert driver.sample()[0]["comm"] == "renamed"
    with drive("mem.rss", "fs:proc:statm", target, sysroot=machine) as driver:
        assert "comm" not in driver.sample()[0]


def test_a_kernel_thread_is_refused_with_its_own_sentence(drive: Drive) -> None:
    """It has no memory of its own, which is neither zero nor a missing process."""
    stat = Path("/proc/2/stat")
    if not stat.exists() or b"(kthreadd)" not in stat.read_bytes():
        pytest.skip("process 2 is not the kernel's here")
    with pytest.raises(MachineRefused, match="process 2 is a kernel thread"):
        drive("mem.rss", "fs:proc:statm", make_target(2)).__enter__()


def test_a_process_that_is_not_there_is_refused(sysroot: Sysroot, drive: Drive) -> None:
    """Before anything is read of it."""
    with pytest.raises(MachineRefused, match="process 77 is not there"):
        drive("mem.rss", "fs:proc:statm", make_target(77), sysroot=sysroot).__enter__()


def test_another_users_process_is_refused_before_anything_runs() -> None:
    """The refusal comes at the attach, names the process and the capability."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user here")
    printed = run_as_another_user(
        """
        from omn_core.api import BoundTarget, MachineRefused, ProcessHandle, Target
        from omn_core.catalog.load import load_catalog
        from omn_core.plugins import discover
        from omn_core.testing.harness import Driver, resolve_onto
        registry = discover()
        entry = load_catalog(registry).entries['mem.pss']
        row = registry.collectors['mem.pss', 'fs:proc:smaps_rollup']
        factory = registry.load(row.factory)
        """,
        """
        target = BoundTarget(Target('pid', (1,)), 'process', (ProcessHandle(1, None, 0),))
        try:
            Driver(factory(), resolve_onto(entry, row.backend, target.target), target).__enter__()
        except MachineRefused as refused:
            print(refused)
        """,
    )
    assert "process 1 does not let this user read its smaps_rollup" in printed
    assert "CAP_SYS_PTRACE" in printed


@pytest.mark.spec("MEM-1")
def test_both_ways_to_the_resident_set_agree_with_the_kernel(workload: Start, drive: Drive) -> None:
    """A program that holds still: statm as read beside it to the byte, and the walk of its page tables near it."""
    program = workload(touch_bytes(200 * MIB))
    program.wait("ready")
    program.release()
    program.wait("touched")
    pages = int(Path(f"/proc/{program.pid}/statm").read_text().split()[1])
    with drive("mem.rss", "fs:proc:statm", bind_processes(program.pid)) as driver:
        (row,) = driver.sample()
        assert row["rss_bytes"] == pages * PAGE
    with drive("mem.rss", "fs:proc:smaps_rollup", bind_processes(program.pid)) as driver:
        (walked,) = driver.sample()
    assert abs(walked["rss_bytes"] - row["rss_bytes"]) <= MIB
    assert abs(walked["file_bytes"] - row["file_bytes"]) <= MIB


@pytest.mark.spec("MEM-1")
@pytest.mark.parametrize("backend", ["fs:proc:smaps_rollup", "fs:proc:smaps"])
def test_shared_memory_is_divided_and_private_memory_is_not(workload: Start, drive: Drive, backend: str) -> None:
    """100 MiB that two processes map are 50 MiB of each one's proportional set and nothing of its unique one."""
    program = workload(share_bytes(100 * MIB))
    child = program.wait("shared")["child"]
    with drive("mem.pss", backend, bind_processes(program.pid, child), keys=("task",)) as driver:
        proportional = {row["pid"]: row["pss_bytes"] for row in driver.sample()}
    with drive("mem.uss", backend, bind_processes(program.pid, child), keys=("task",)) as driver:
        unique = {row["pid"]: row["uss_bytes"] for row in driver.sample()}
    for pid in (program.pid, child):
        assert 50 * MIB <= proportional[pid] <= 50 * MIB + 16 * MIB
        assert unique[pid] < 16 * MIB


@pytest.mark.spec("RUN-7")
@pytest.mark.parametrize(
    ("source", "backend"),
    [("mem.rss", "fs:proc:statm"), ("mem.pss", "fs:proc:smaps_rollup"), ("mem.uss", "fs:proc:smaps")],
)
def test_a_zombie_is_the_end_and_no_loss(workload: Start, drive: Drive, source: str, backend: str) -> None:
    """A launched program that exited waits for its parent without any memory: there is nothing more to measure."""
    program = workload(end_with(0))
    program.wait("ready")
    with drive(source, backend, bind_processes(program.pid, launched=True)) as driver:
        assert driver.sample()[0]["pid"] == program.pid
        program.release()
        program.wait_exited()
        with pytest.raises(TargetGone):
            driver.sample()
        assert driver.collector.losses().is_empty


@pytest.mark.spec("RUN-7", "RUN-2")
def test_a_launched_program_is_measured_after_its_execve(drive: Drive) -> None:
    """What was attached before the execve reads the new program, not the address space that is gone."""
    code = "import os, sys; os.write(1, b'ready\\n'); os.read(0, 1); os.execv('/bin/cat', ['cat'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        with drive("mem.uss", "fs:proc:smaps_rollup", bind_processes(child.pid, launched=True)) as driver:
            before = driver.sample()[0]["uss_bytes"]
            child.stdin.write(b"\n")
            child.stdin.flush()
            while Path(f"/proc/{child.pid}/comm").read_bytes() != b"cat\n":
                os.sched_yield()
            child.stdin.write(b"echo\n")
            child.stdin.flush()
            assert child.stdout.readline() == b"echo\n"
            after = driver.sample()[0]["uss_bytes"]
            assert driver.collector.losses().is_empty
        child.stdin.close()
    assert after < before


def test_a_live_process_of_an_odd_name_is_read_by_it(workload: Start, drive: Drive) -> None:
    """Newlines, escapes and bytes that are no text come through as they are."""
    name = b"\x1b[1m)\n\xff R 1"
    program = workload(rename(name))
    program.wait("named")
    with drive("mem.rss", "fs:proc:statm", bind_processes(program.pid), emit="raw") as driver:
        assert driver.sample()[0]["comm"].encode("utf-8", "surrogateescape") == name


_FIRST_THREAD_ENDS = """
import ctypes, os, sys, threading
memory = bytearray(b"x") * (32 << 20)
def stay():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z":
        pass
    print(flush=True)
    sys.stdin.readline()
    os._exit(0)
threading.Thread(target=stay).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.mark.spec("RUN-7")
@pytest.mark.parametrize(
    ("source", "backend"),
    [
        ("mem.rss", "fs:proc:statm"),
        ("mem.pss", "fs:proc:smaps_rollup"),
        ("mem.uss", "fs:proc:smaps"),
        ("mem.numa", "fs:proc:numa_maps"),
    ],
)
def test_a_process_whose_first_thread_ended_still_has_its_memory(source: str, backend: str, drive: Drive) -> None:
    """Its other threads have it: it is read through one of them, and its own end is its end."""
    if source == "mem.numa" and not os.path.exists("/proc/self/numa_maps"):
        pytest.skip("this kernel is built without memory nodes (no /proc/self/numa_maps)")
    command = [sys.executable, "-c", _FIRST_THREAD_ENDS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        target = bind_processes(child.pid)
        with drive(source, backend, target) as driver:
            assert child.stdout is not None
            child.stdout.readline()
            rows = [row for _ in range(2) for row in driver.sample()]
            assert len(rows) == 2
            assert all(row[f"{source.removeprefix('mem.').replace('numa', 'node')}_bytes"] >= 32 * MIB for row in rows)
            assert driver.collector.losses().is_empty
            child.communicate(b"\n")
            with pytest.raises(TargetGone):
                driver.sample()
