"""proc.syscall held against programs that count their own calls: to the call, by name, process, task name, outcome."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from event_backends import EACH_BACKEND, TYPED, leave_out_skipped
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.cgroup import UNIFIED, find_hierarchies, parse_cgroup
from omn_kernel.mounts import read_mounts
from omn_kernel.procfs.process import find_process_key
from omn_proc import syscalls
from omn_proc.programs.calls import NumberedBegun, TaskBegun
from omn_proc.syscalls import SystemCalls

from omn_core.api import BoundTarget, MachineRefused
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes, bind_thread, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_programs")
Rows = list[dict[str, Any]]
CALLS = 1_000_000


def drive(catalog: Catalog, target: BoundTarget, *keys: str, predicate: str | None = None) -> Driver:
    entry = catalog.entries["proc.syscall"]
    resolved = resolve_onto(entry, "bpf:raw_tp", target.target, keys=keys, predicate=predicate)
    return Driver(SystemCalls(), resolved, target)


def find_emits(ran: Any, *emits: str) -> list[Mapping[str, Any]]:
    """Return a run's answers, without keys."""
    assert ran.code == 0, ran.stderr
    assert not {"dropped", "failed_reads", "skipped"} & {name for name, lost in ran.result["losses"].items() if lost}
    (series,) = ran.result["series"]
    return [series["emits"][emit] for emit in emits]


def call(count: int) -> None:
    getppid = os.getppid
    for _ in range(count):
        getppid()


def count_calls(driver: Driver, rows: Rows, **wanted: Any) -> int:
    """Count the calls of the rows that say what is wanted, by the weights that their batch has."""
    batch = driver._batches[0]
    assert batch.weight is not None
    picked = [index for index, row in enumerate(rows) if all(row.get(name) == one for name, one in wanted.items())]
    return int(batch.weight[picked].sum())


@pytest.mark.spec("SRC-5", "PRC-1")
def test_every_call_of_a_program_is_counted(omn: Command) -> None:
    """A million, and each that fails; from the program's execve on, without omn's own in its place."""
    program = f"""
import os
getppid = os.getppid
for _ in range({CALLS}): getppid()
for _ in range(500):
    try: os.fsync(9999)
    except OSError: pass
"""
    asked = ["-e", "count", "-e", "hist@op", "-e", "topk:400@op", "--filter", "op == 'getppid' or failed == 1"]
    ran = omn("proc.syscall", *asked, "--format", "json", "--", sys.executable, "-c", program)
    counted, hist, top = find_emits(ran, "count", "hist@op", "topk:400@op")
    by_op = {row["attr"]: sum(bucket["count"] for bucket in row["buckets"]) for row in hist["rows"]}
    assert by_op["getppid"] == CALLS
    assert by_op["fsync"] == 500
    assert counted["events"] == sum(by_op.values())
    assert counted["value"] == sum(row["value"] for row in top["rows"])
    assert ran.result["row_stamp"] == "drain"
    assert ran.document["cost"]["in_target"]["unknown"] in ([], ["proc.syscall"])


@pytest.mark.spec("SRC-5", "KRN-5")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_calls_are_their_process_and_what_it_starts(omn: Command, backend: str) -> None:
    """Four children that each make a known number of calls; each under its process, whose life is over by the close."""
    program = """
import os
for number in range(1, 5):
    child = os.fork()
    if child == 0:
        for _ in range(number * 1000): os.getppid()
        os._exit(0)
    os.waitpid(child, 0)
"""
    key = "proc" if backend == TYPED else "task"
    asked = ["-m", "count", "-e", "count", "--keys", key, "--filter", "op == 'getppid'", "--format", "json"]
    ran = omn("proc.syscall", *asked, "--backend", f"force:{backend}", "--", sys.executable, "-c", program)
    assert ran.code == 0, ran.stderr
    leave_out_skipped(ran.result["losses"]["skipped"], backend)
    counted = sorted(series["emits"]["count"]["events"] for series in ran.result["series"])
    assert counted == [1000, 2000, 3000, 4000]
    inode = str(os.stat("/proc/self/ns/pid").st_ino)
    assert backend != TYPED or all(series["key"]["proc"].partition(":")[0] == inode for series in ran.result["series"])


@pytest.mark.spec("SRC-5")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_a_task_that_takes_another_name_begins_another_row(omn: Command, backend: str) -> None:
    """Its calls from then on are under that name, to the call."""
    program = """
import ctypes, os
for _ in range(700): os.getppid()
ctypes.CDLL(None).prctl(15, b"renamed", 0, 0, 0)
for _ in range(300): os.getppid()
"""
    asked = ["-m", "count", "-e", "count", "--keys", "comm", "--filter", "op == 'getppid'", "--format", "json"]
    ran = omn("proc.syscall", *asked, "--backend", f"force:{backend}", "--", sys.executable, "-c", program)
    assert ran.code == 0, ran.stderr
    leave_out_skipped(ran.result["losses"]["skipped"], backend)
    counted = {series["key"]["comm"]: series["emits"]["count"]["events"] for series in ran.result["series"]}
    assert counted.pop("renamed") == 300
    assert list(counted.values()) == [700]


@pytest.mark.spec("SRC-5", "KRN-4")
@pytest.mark.parametrize("begun", [TaskBegun, NumberedBegun])
def test_a_process_is_counted_by_call_outcome_and_thread(
    catalog: Catalog, begun: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the beginnings of calls stand; a child that starts and ends meanwhile is in it, as itself."""
    monkeypatch.setattr(syscalls, "open_begun", lambda _: begun())
    own = os.getpid()
    with drive(catalog, bind_processes(own), "task", "proc", "op", predicate="failed == 1 and ppid > 0") as driver:
        call(2000)
        for _ in range(300):
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fsync(9999)
        child = os.fork()
        if child == 0:
            call(50)
            os._exit(0)
        os.waitpid(child, 0)
        time.sleep(0.01)
        rows = driver.sample()
    assert count_calls(driver, rows, op="getppid", pid=own, failed=0) == 2000
    assert count_calls(driver, rows, op="getppid", pid=child, task=child, ppid=own) == 50
    assert count_calls(driver, rows, op="fsync", failed=1) == count_calls(driver, rows, op="fsync") == 300
    (slept,) = [row for row in rows if row["op"] == "clock_nanosleep"]
    assert slept["time_ns"] == slept["total_ns"] >= 10_000_000
    assert {row["proc"] for row in rows if row["pid"] == own} == {find_process_key("/", own)}
    assert driver.collector.losses().is_empty


@pytest.mark.spec("KRN-5")
def test_a_launched_program_is_counted_from_its_execve_on(omn: Command) -> None:
    """Not what omn called in its place before: every row has the program's name, and its own cgroup."""
    asked = ["-m", "count", "-e", "count", "--keys", "comm,cgroup", "--format", "json"]
    ran = omn("proc.syscall", *asked, "--", "true")
    assert ran.code == 0, ran.stderr
    (series,) = ran.result["series"]
    own = parse_cgroup(Path("/proc/self/cgroup").read_bytes())
    assert series["key"]["comm"] == "true"
    assert series["key"]["cgroup"] == (own.get(UNIFIED) if UNIFIED in find_hierarchies(read_mounts("/")) else None)


@pytest.mark.spec("KRN-5")
def test_a_thread_is_counted_alone(catalog: Catalog) -> None:
    """Not the process that it belongs to."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reading, 1)
        call(100)
        os._exit(0)
    with drive(catalog, bind_thread(child, child)) as driver:
        call(500)
        os.write(writing, b"x")
        os.waitpid(child, 0)
        rows = driver.sample()
    assert count_calls(driver, rows, op="getppid") == 100
    assert {row["pid"] for row in rows} == {child}
    os.close(reading)
    os.close(writing)


@pytest.mark.spec("SRC-5")
def test_calls_whose_row_has_no_room_are_counted(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in the rows and what is lost are the calls that were made, with the reason."""
    monkeypatch.setattr(SystemCalls, "entries", 2)
    with drive(catalog, bind_processes(os.getpid())) as driver:
        call(1000)
        for _ in range(200):
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fsync(9999)
            os.getuid()
        driver.sample()
    losses = driver.collector.losses()
    weight = driver._batches[0].weight
    assert weight is not None
    assert losses.dropped > 0
    assert int(weight.sum()) + losses.dropped >= 1400
    assert "2 rows, the bound of a drain" in losses.reasons[0]


def test_a_kernel_that_makes_no_maps_is_refused_and_nothing_stays(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the maps of rows, or half-way, at where calls begin."""
    made: list[Map] = []
    real = Map.__init__

    def make(self: Map, kind: MapType, *rest: Any, **more: Any) -> None:
        if kind in (MapType.TASK_STORAGE, MapType.LRU_HASH):
            raise MachineRefused("no such map")
        real(self, kind, *rest, **more)
        made.append(self)

    monkeypatch.setattr(Map, "__init__", make)
    driver = drive(catalog, bind_processes(os.getpid()))
    with pytest.raises(MachineRefused, match="no such map"):
        driver.__enter__()
    driver.__exit__(None, None, None)
    assert made
    assert all(one.descriptor < 0 for one in made)
