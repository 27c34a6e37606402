"""proc.threads: threads of a process, together, by name and one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import pytest
from omn_proc.threads import Threads, parse_thread_count

from omn_core.api import BoundTarget, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.model.request import EmitSpec
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import end_with, threads

Start = Callable[[Workload], Running]

ODD = [b") R 1 (", b"two\nlines", b"\x1b[31mred", b"\xff\xfe", b"", b" ", b"a" * 15, b"%s%n", b"kworker/0:1", b"\\n"]
NAMES = ODD + [b"worker %d" % index for index in range(90 - len(ODD))] + [b"same"] * 10
"""A hundred names: ten of every odd kind, eighty that differ, ten that do not."""


def drive(
    catalog: Catalog, target: BoundTarget, keys: Sequence[str] = (), *, mode: str = "poll", emit: str = "summary"
) -> Driver:
    resolved = resolve_onto(catalog.entries["proc.threads"], "fs:proc:task", target.target, mode=mode, keys=keys)
    return Driver(Threads(), attrs.evolve(resolved, emits=(EmitSpec(emit),)), target)


@pytest.mark.spec("PRC-1", "EVT-2", "EVT-5")
def test_a_hundred_threads_with_odd_names_are_a_hundred_and_their_names(catalog: Catalog, workload: Start) -> None:
    """The count is the kernel's, each name arrives byte for byte, and by name the ten that share one are ten."""
    child = workload(threads(NAMES))
    tids = child.wait("ready")["tids"]
    with drive(catalog, bind_processes(child.pid)) as driver:
        (row,) = driver.sample()
        assert (row["threads"], row["task"], row["pid"]) == (101, child.pid, child.pid)
    with drive(catalog, bind_processes(child.pid), ["task"]) as driver:
        rows = {row["task"]: row for row in driver.sample()}
    assert set(rows) == {child.pid, *tids}
    assert [rows[tid]["comm"].encode("utf-8", "surrogateescape") for tid in tids] == NAMES
    assert {row["threads"] for row in rows.values()} == {1}
    with drive(catalog, bind_processes(child.pid), ["comm"]) as driver:
        counted = {row["comm"]: row["threads"] for row in driver.sample()}
        child.release()
        child.wait("ran")
        child.release()
        child.wait("ended")
        assert [row["threads"] for row in driver.sample()] == [1]
        assert driver.collector.losses().is_empty
    assert counted["same"] == 10
    assert sum(counted.values()) == 101


@pytest.mark.spec("EVT-2")
def test_raw_rows_alone_divide_nothing(catalog: Catalog, workload: Start) -> None:
    """A polled summary beside raw rows stays one figure a reading; a snapshot is thread by thread."""
    child = workload(threads([b"one", b"two"]))
    child.wait("ready")
    with drive(catalog, bind_processes(child.pid), emit="raw") as driver:
        assert [(row["task"], row["threads"]) for row in driver.sample()] == [(child.pid, 3)]
    with drive(catalog, bind_processes(child.pid), mode="snapshot") as driver:
        rows = driver.sample()
    assert [row["threads"] for row in rows] == [1, 1, 1]
    assert {"one", "two"} <= {row["comm"] for row in rows}


@pytest.mark.spec("RUN-7")
@pytest.mark.parametrize("keys", [[], ["comm"]])
def test_a_process_that_exited_has_no_threads_left(catalog: Catalog, workload: Start, keys: list[str]) -> None:
    """A zombie is the end of the request, not a thread, and no loss."""
    child = workload(end_with(code=0))
    child.wait("ready")
    with drive(catalog, bind_processes(child.pid), keys) as driver:
        assert [row["threads"] for row in driver.sample()] == [1]
        child.release()
        child.wait_exited()
        with pytest.raises(TargetGone):
            driver.sample()
        assert driver.collector.losses().is_empty


def test_a_first_thread_that_exited_alone_is_no_end(sysroot: Sysroot) -> None:
    """The others of its process run on: the process is a zombie in name only."""

    def parse(threads: int) -> list[int] | None:
        sysroot.write_process(7, state="Z", threads=threads)
        counted = parse_thread_count(sysroot.path("/proc/7/stat").read_bytes())
        return None if counted is None else [one.count for one in counted]

    assert parse(3) == [3]
    assert parse(1) is None


@pytest.mark.spec("PRC-1")
def test_threads_by_name_from_the_command_line(omn: Command, workload: Start) -> None:
    """A ranking by name adds up to the threads there are, and a thread is refused with what to ask instead."""
    child = workload(threads([b"pool"] * 7 + [b"io"]))
    child.wait("ready")
    asked = ["-m", "snapshot", "-e", "topk:1@comm", "-e", "summary", "--pid", str(child.pid)]
    ran = omn("proc.threads", *asked, "--format", "json")
    assert ran.code == 0, ran.stderr
    emits = ran.result["series"][0]["emits"]
    assert emits["topk:1@comm"]["rows"][0] == {"key": {"comm": "pool"}, "value": 7, "share": pytest.approx(7 / 9)}
    assert emits["summary"]["total"] == 9
    assert omn("proc.threads", "-m", "poll", "--tid", str(child.pid)).code == 2
