"""Probes on a C library's functions, and waits in its futexes, by what a program says that it called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from omn_core.api import MachineRefused
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, bind_processes, resolve_onto
from omn_core.testing.stepped import Running, Workload, make_workload

Start = Callable[[Workload], Running]
Drive = Callable[..., Driver]
CALLS = make_workload(
    "lock, ask for blocks, and wait",
    """
import ctypes, threading
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
mutex = ctypes.create_string_buffer(64)
held = threading.Lock()
held.acquire()
step("ready")
for _ in range(7):
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_unlock(mutex)
blocks = [library.malloc(54321) for _ in range(5)]
for block in blocks[:3]:
    library.free(block)
for _ in range(4):
    held.acquire(timeout=0.01)
step("called", mutex=hex(ctypes.addressof(mutex)), blocks=[hex(block) for block in blocks])
""",
)


def follow(drive: Drive, workload: Start, source: str, backend: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the events of the program while it calls, and what it says of itself."""
    child = workload(CALLS)
    child.wait("ready")
    with drive(source, backend, bind_processes(child.pid), "task", mode="trace") as driver:
        child.release()
        said = child.wait("called")
        driver.sample()
    return driver.rows, said


@pytest.mark.spec("KRN-3", "KRN-9")
@pytest.mark.parametrize("backend", ["bpf:uprobe", "bpf:uprobe_multi"])
def test_calls_of_a_library_are_counted_one_by_one(drive: Drive, workload: Start, backend: str) -> None:
    """Seven locks of a mutex; five blocks, of which two are live. A kernel without such links refuses."""
    try:
        rows, said = follow(drive, workload, "sched.mutex", backend)
    except MachineRefused:
        assert backend == "bpf:uprobe_multi"
        return
    locks = [row for row in rows if row["addr"] == said["mutex"]]
    assert [(row["acquisitions"], row["contended"], row["held_ns"] > 0) for row in locks] == [(1, 0, True)] * 7
    rows, said = follow(drive, workload, "mem.heap.alloc", backend)
    blocks = [row for row in rows if row["bytes"] == 54321]
    assert [row["addr"] for row in blocks] == said["blocks"]
    assert Counter(row["live_bytes"] for row in blocks) == {0: 3, 54321: 2}


def test_waits_that_time_out_are_told_by_their_end(drive: Drive, workload: Start) -> None:
    """Four of a lock that nobody lets go."""
    rows, _ = follow(drive, workload, "sched.futex", "bpf:raw_tp")
    waits = [row for row in rows if row.get("result") == "timed-out"]
    assert len(waits) == 4
    assert all(row["wait_ns"] >= 5_000_000 for row in waits)


PASSES = make_workload(
    "call a function of the library",
    """
import ctypes
library = ctypes.CDLL(None)
step("ready")
for _ in range(8):
    library.getppid()
step("done")
""",
)


@pytest.mark.spec("KRN-3", "RTM-1")
@pytest.mark.parametrize("backend", ["bpf:uprobe", "bpf:uprobe_multi"])
def test_places_are_passed_that_a_program_enters(
    registry: Registry, catalog: Catalog, workload: Start, backend: str
) -> None:
    """Each by the number of its place: of a link by its cookie. A kernel without such links refuses."""
    child = workload(PASSES)
    child.wait("ready")
    target = bind_processes(child.pid)
    asked = {"mode": "trace", "predicate": "function in ('getppid', 'getpgid')"}
    resolved = resolve_onto(catalog.entries["runtime.custom"], backend, target.target, **asked)
    collector = registry.load(registry.collectors["runtime.custom", backend].factory)()
    try:
        with Driver(collector, resolved, target) as driver:
            child.release()
            child.wait("done")
            driver.sample()
    except MachineRefused:
        assert backend == "bpf:uprobe_multi"
        return
    assert Counter(row["function"] for row in driver.rows) == {"getppid": 8}
