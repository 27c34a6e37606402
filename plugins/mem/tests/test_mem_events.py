"""What the kernel does for want of memory, held to its own accounts: kills, allocations, reclaim, compaction."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R1, R6, R7
from omn_kernel.btf.kernel import read_kernel_btf
from omn_kernel.btf.spelling import spell_tracepoint
from omn_kernel.cgroup import find_hierarchies
from omn_kernel.mounts import read_mounts
from omn_kernel.procfs.machine import parse_flat_keyed
from omn_kernel.procfs.task import PAGE_BYTES
from omn_mem.programs import victims

from omn_core.api import BoundTarget, EmitSpec, MachineRefused, ProbeContext, Target
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, bind_processes, resolve_onto
from omn_core.testing.sysroot import Sysroot

MIB = 1 << 20
LIMIT = 24 * MIB
MakeCgroup = Callable[[str], Path]

needs_programs = pytest.mark.usefixtures("loads_programs")


def drive(registry: Registry, catalog: Catalog, source: str, target: BoundTarget, *keys: str, mode: str) -> Driver:
    resolved = resolve_onto(catalog.entries[source], "bpf:raw_tp", target.target, mode=mode, keys=keys)
    if mode == "trace":
        resolved = attrs.evolve(resolved, emits=(EmitSpec("raw"),))
    factory = registry.load(registry.collectors[source, "bpf:raw_tp"].factory)
    return Driver(factory(), resolved, target)


def read_vmstat(*names: str) -> int:
    counters = parse_flat_keyed(Path("/proc/vmstat").read_bytes())
    return sum(value for name, value in counters.items() if name.decode() in names)


@pytest.fixture
def limited(make_cgroup: MakeCgroup) -> Path:
    """A memory cgroup of 24 MiB that swaps nothing."""
    folder = make_cgroup("memory")
    (folder / "memory.swappiness").write_text("0")
    (folder / "memory.limit_in_bytes").write_text(str(LIMIT))
    return folder


KILLED = """
import json, os, sys
def grow(cgroup):
    with open(cgroup + "/cgroup.procs", "w") as procs: procs.write(str(os.getpid()))
    held = bytearray(64 << 20)
    os._exit(0)
killed = []
for _ in range(3):
    if (child := os.fork()) == 0: grow(sys.argv[1])
    killed.append((child, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
os.fork() == 0 and os._exit(0)
os.wait()
with open(sys.argv[2], "w") as file: json.dump(killed, file)
"""


@needs_programs
@pytest.mark.spec("SRC-5", "MEM-1")
def test_processes_that_are_killed_for_want_of_memory_are_counted_and_named(
    omn: Command, limited: Path, tmp_path: Path
) -> None:
    """Three, as their parent is told and as the kernel counts them: of the machine, of the cgroup, of the program."""
    place = find_hierarchies(read_mounts("/"))["memory"].point
    cgroup = {"cgroup": str(limited).removeprefix(place)}
    launch = {"launch": [sys.executable, "-S", "-c", KILLED, str(limited), str(tmp_path / "killed")]}
    asked: list[dict[str, Any]] = [
        {"mode": "trace", "emits": ["raw"], "target": launch},
        {"mode": "count", "emits": ["count", "topk:5@asker_comm"], "target": launch},
        {"mode": "count", "emits": ["count"], "target": {"system": True}},
        {"mode": "count", "emits": ["count"], "target": cgroup},
    ]
    session = json.dumps({"requests": [{"source": "mem.oom", **one} for one in asked]}).encode()
    ran = omn("-f", "-", "--format", "json", stdin=session)
    assert ran.code == 0, ran.stderr
    named, counted, machine, grouped = ran.document["results"]
    told = json.loads((tmp_path / "killed").read_text())
    assert [status for _, status in told] == [-9, -9, -9]
    rows = [{**row["key"], **row["attrs"]} for row in named["raw"]]
    assert [row["task"] for row in rows] == [row["asker_pid"] for row in rows] == [pid for pid, _ in told]
    assert {row["ppid"] for row in rows} == {ran.document["program"]["pid"]}
    # Its own pages are charged to the cgroup; those that it maps of its program and its parent are not.
    assert all(LIMIT // 2 < row["rss_bytes"] < 3 * LIMIT for row in rows)
    assert counted["series"][0]["emits"]["count"]["value"] == 3
    (asker,) = counted["series"][0]["emits"]["topk:5@asker_comm"]["rows"]
    assert (asker["key"]["asker_comm"], asker["value"]) == (rows[0]["comm"], 3)
    assert machine["backend"] == "fs:proc:vmstat"
    assert machine["series"][0]["emits"]["count"]["value"] >= 3
    assert grouped["backend"] == "fs:cgroup1:oom_control"
    assert grouped["series"][0]["emits"]["count"]["value"] == 3


@needs_programs
@pytest.mark.spec("SRC-5")
def test_a_victim_that_is_marked_by_its_number_is_known_by_its_signal(
    registry: Registry, catalog: Catalog, limited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As older kernels mark it: who the kernel sent SIGKILL in the same task's time; not who was killed by hand."""
    monkeypatch.setattr(victims, "spell_tracepoint", lambda *_: ("int",))

    def write(self: victims.Victims, program: KernelAssembly, tracing: Any) -> None:
        """Have the number that this kernel hands over with the task."""
        number = program.reserve(np.dtype([("number", np.uint64)]))
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        program.read_field(R1, R7, "task_struct", "pid")
        program.set(number, "number", R1)
        program.point_at(R1, number)
        real(self, program, tracing)

    real = victims.Victims.write_mark_of_number
    if len(read_shape("mark_victim")) > 1:
        monkeypatch.setattr(victims.Victims, "write_mark_of_number", write)
    with drive(registry, catalog, "mem.oom", bind_machine(), "task", mode="trace") as driver:
        subprocess.run(["sh", "-c", "kill -KILL $$"], check=False)
        argv = [sys.executable, "-S", "-c", KILLED, str(limited), str(tmp_path / "killed")]
        subprocess.run(argv, check=True)
    told = [pid for pid, _ in json.loads((tmp_path / "killed").read_text())]
    assert [row["task"] for row in driver.rows if row["task"] in told] == told
    assert all(row["rss_bytes"] > LIMIT // 2 for row in driver.rows)


def read_shape(tracepoint: str) -> tuple[str, ...]:
    types = read_kernel_btf("/")
    identifier = types.find_tracepoint(tracepoint)
    assert identifier is not None
    return spell_tracepoint(types, identifier)


@pytest.mark.spec("CAT-11", "RUN-10")
def test_kills_are_what_the_kernels_counter_grew_by(registry: Registry, catalog: Catalog, sysroot: Sysroot) -> None:
    """Of the machine and of a cgroup, none is a zero; a file without the counter refuses."""
    sysroot.write("/proc/vmstat", "nr_free_pages 5\noom_kill 7\n")
    sysroot.write("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    sysroot.write("/sys/fs/cgroup/cgroup.controllers", "memory\n")
    sysroot.write("/sys/fs/cgroup/job/cgroup.controllers", "memory\n")
    events = "/sys/fs/cgroup/job/memory.events"
    sysroot.write(events, "max 17\noom 1\noom_kill 1\n")
    target = Target("cgroup", "/job")
    bound = registry.load(registry.targets["cgroup"].binder)(target, ProbeContext("cgroup", str(sysroot)))
    for backend, where, file, before in (
        ("fs:proc:vmstat", bind_machine(), "/proc/vmstat", "oom_kill 7\n"),
        ("fs:cgroup2:events", bound, events, "oom_kill 1\n"),
    ):
        collector = registry.load(registry.collectors["mem.oom", backend].factory)()
        resolved = resolve_onto(catalog.entries["mem.oom"], backend, where.target, mode="poll")
        with Driver(collector, resolved, where, sysroot=str(sysroot)) as driver:
            assert [row["kills"] for row in driver.sample()] == [0]
            sysroot.write(file, f"oom_kill {int(before.split()[1]) + 4}\n")
            assert [row["kills"] for row in driver.sample()] == [4]
        sysroot.write(file, "other 1\n")
        with pytest.raises(MachineRefused, match="no oom_kill"):
            Driver(
                registry.load(registry.collectors["mem.oom", backend].factory)(), resolved, where, sysroot=str(sysroot)
            ).__enter__()


ALLOCATING = """
import mmap, sys
pages = mmap.mmap(-1, 8192 * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
pages.madvise(mmap.MADV_NOHUGEPAGE)
print(flush=True)
sys.stdin.readline()
for page in range(8192): pages[page * mmap.PAGESIZE] = 1
print(flush=True)
sys.stdin.readline()
"""
TOUCHED = 8192


@needs_programs
@pytest.mark.spec("MEM-1", "KRN-4")
@pytest.mark.parametrize("mode", ["count", "poll", "trace"])
def test_pages_that_a_program_touches_are_allocated_to_it(registry: Registry, catalog: Catalog, mode: str) -> None:
    """Each once, by itself and movable, and little else: tables that map them, and what its files need."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-S", "-c", ALLOCATING], stdin=pipe, stdout=pipe, bufsize=0) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        target = bind_processes(child.pid)
        resolved = resolve_onto(catalog.entries["mem.page_alloc"], "bpf:raw_tp", target.target, mode=mode)
        emit = EmitSpec("raw") if mode == "trace" else EmitSpec("topk", attribute="order")
        resolved = attrs.evolve(resolved, emits=(emit,), filter_fields=("mobility",))
        factory = registry.load(registry.collectors["mem.page_alloc", "bpf:raw_tp"].factory)
        with Driver(factory(), resolved, target) as driver:
            child.stdin.write(b"\n")
            child.stdout.readline()
            driver.sample()
        child.stdin.write(b"\n")
    rows = driver.rows
    weights = [1] * len(rows) if mode != "count" else driver._batches[0].weight
    assert weights is not None
    own = [
        row["bytes"] * int(weight)
        for row, weight in zip(rows, weights, strict=False)
        if (row["order"], row["mobility"]) == (0, "movable")
    ]
    assert TOUCHED <= sum(own) // PAGE_BYTES <= TOUCHED + 64
    every = sum(row["bytes"] * int(weight) for row, weight in zip(rows, weights, strict=False))
    assert every <= (TOUCHED * 1.05 + 256) * PAGE_BYTES
    assert driver.collector.losses().is_empty


@needs_programs
@pytest.mark.spec("CAT-11")
def test_the_machines_allocations_are_those_that_the_kernel_counts(registry: Registry, catalog: Catalog) -> None:
    """Both mechanisms of one quantity over the same seconds, to the pages that other cpus are about to count."""
    names = [f"pgalloc_{zone}" for zone in ("dma", "dma32", "normal", "movable", "device")]
    entry = catalog.entries["mem.page_alloc"]
    told = resolve_onto(entry, "fs:proc:vmstat", Target("system"), mode="poll")
    read = registry.load(registry.collectors["mem.page_alloc", "fs:proc:vmstat"].factory)
    outer = read_vmstat(*names)
    with (
        drive(registry, catalog, "mem.page_alloc", bind_machine(), mode="poll") as seen,
        Driver(read(), told, bind_machine()) as counted,
    ):
        inner = read_vmstat(*names)
        subprocess.run([sys.executable, "-S", "-c", "bytearray(64 << 20)"], check=True)
        inner = read_vmstat(*names) - inner
        (row,) = counted.sample()
        seen.sample()
        outer = read_vmstat(*names) - outer
    pages = sum(one["bytes"] for one in seen.rows) // PAGE_BYTES
    assert inner <= row["bytes"] // PAGE_BYTES <= outer
    assert inner * 0.999 - 64 <= pages <= outer * 1.001 + 64
    assert pages >= 64 * MIB // PAGE_BYTES


RECLAIMING = """
import os, sys
with open(sys.argv[1] + "/cgroup.procs", "w") as procs: procs.write(str(os.getpid()))
block = b"x" * (1 << 20)
with open(sys.argv[2], "wb") as file:
    for _ in range(64):
        file.write(block)
        file.flush()
        os.fdatasync(file.fileno())
"""


@needs_programs
@pytest.mark.spec("MEM-1", "EVT-6")
def test_reclaim_at_a_limit_is_what_the_kernel_took_back(
    registry: Registry, catalog: Catalog, omn: Command, limited: Path, tmp_path: Path
) -> None:
    """64 MiB of a file in 24: what was reclaimed is what pgsteal grew by, and the stack says for what."""
    argv = [sys.executable, "-S", "-c", RECLAIMING, str(limited), str(tmp_path / "file")]
    before = read_vmstat("pgsteal_anon", "pgsteal_file")
    asked = ["-m", "trace", "-e", "raw", "-e", "summary@op", "-e", "topk:3@order", "--format", "json"]
    ran = omn("mem.reclaim", *asked, "--", *argv)
    taken = read_vmstat("pgsteal_anon", "pgsteal_file") - before
    assert ran.code == 0, ran.stderr
    rows = [{**row["key"], **row["attrs"], "stack": row.get("stack", [])} for row in ran.result["raw"]]
    assert {row["op"] for row in rows} == {"memcg"}
    reclaimed = sum(row["reclaimed_bytes"] for row in rows) // PAGE_BYTES
    # The file's own pages beyond the limit, and no more than the machine took back in all meanwhile.
    assert (64 * MIB - LIMIT) // PAGE_BYTES <= reclaimed <= taken
    lifetime_ns = ran.document["program"]["lifetime_ns"]
    assert 0 < sum(row["stall_ns"] for row in rows) < lifetime_ns
    assert any("try_to_free_mem_cgroup_pages" in frame for row in rows for frame in row["stack"])
    assert ran.result["fields"]["unfinished"] == 0
    assert ran.result["losses"]["dropped"] == 0


@needs_programs
@pytest.mark.spec("MEM-1")
@pytest.mark.skipif(not Path("/proc/sys/vm/compact_memory").exists(), reason="this kernel does not compact memory")
def test_each_zone_is_compacted_once_where_that_is_asked_for(registry: Registry, catalog: Catalog) -> None:
    """By whoever writes to vm.compact_memory: one event for each zone that has pages, with what it came to."""
    zones = re.findall(r"^Node .*?\n +present +(\d+)", Path("/proc/zoneinfo").read_text(), re.MULTILINE | re.DOTALL)
    populated = sum(int(present) > 0 for present in zones)
    ask = "open('/proc/sys/vm/compact_memory', 'w').write('1')"
    scanned = read_vmstat("compact_migrate_scanned")
    with subprocess.Popen(
        [sys.executable, "-S", "-c", f"import sys; sys.stdin.readline(); {ask}"], stdin=subprocess.PIPE, bufsize=0
    ) as child:
        assert child.stdin is not None
        with drive(registry, catalog, "mem.compaction", bind_processes(child.pid), "op", mode="trace") as driver:
            child.stdin.write(b"\n")
            assert child.wait() == 0
            driver.sample()
    rows = driver.rows
    assert len(rows) == populated
    assert {row["op"] for row in rows} == {"sync"}
    assert {row["result"] for row in rows} <= {"complete", "contended", "partial-skipped"}
    assert all(row["stall_ns"] > 0 and row["pid"] == child.pid for row in rows)
    assert read_vmstat("compact_migrate_scanned") > scanned
    assert driver.collector.losses().is_empty
