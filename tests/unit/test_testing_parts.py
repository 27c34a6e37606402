"""The fixtures, the made-up root and the driver of one collector."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omn_core.api import Batch, BoundTarget, CollectorBase, RequestError, Target
from omn_core.model.catalog import Backend, Entry
from omn_core.testing.fixtures import Ran, find_cgroup_mount
from omn_core.testing.harness import Driver, bind_machine, bind_processes, read_start_ticks, release, resolve_onto
from omn_core.testing.sysroot import Sysroot

ENTRY = Entry(
    id="made.up",
    title="a made-up source",
    unit="count",
    value="things",
    modes=("poll", "count"),
    emits={"poll": ("summary", "rate"), "count": ("count",)},
    targets={"system": None, "pid": None},
    attributes={"things": "count", "comm": "text"},
    keys=("cpu",),
    filter_fields=(),
    determinism="high",
    chain=(Backend("fs:made:up", (), "free"),),
)


class Counting(CollectorBase):
    """A collector that returns how often it was asked."""

    calls: tuple[str, ...] = ()

    def attach(self, target: BoundTarget) -> None:
        self.calls += ("attach",)

    def sample(self, now_ns: int) -> Batch:
        self.calls += ("sample",)
        return Batch.of_reading(
            (now_ns, now_ns), self.context.names, {"cpu": [0]}, {"things": [len(self.calls)], "comm": [None]}
        )

    def stop(self) -> Batch:
        self.calls += ("stop",)
        return Batch.empty()


def test_a_driver_leads_a_collector_through_its_life() -> None:
    """Prepared, attached, sampled as asked, stopped; rows are plain and lack what an event lacks."""
    collector = Counting()
    with Driver(collector, resolve_onto(ENTRY, "fs:made:up", Target("system")), bind_machine(), clock=lambda: 7) as one:
        assert one.sample() == [{"ts_ns": 7, "cpu": 0, "things": 2}]
        one.sample()
    assert collector.calls == ("attach", "sample", "sample", "stop")
    assert [row["things"] for row in one.rows] == [2, 3]


def test_a_request_is_resolved_onto_the_backend_named() -> None:
    """Its mode, emit, unit and whether it adds up are the entry's; a backend of no chain is refused."""
    resolved = resolve_onto(ENTRY, "fs:made:up", Target("system"), keys=("cpu",))
    assert (resolved.mode, str(resolved.emits[0]), resolved.unit, resolved.adds_up) == (
        "poll",
        "summary",
        "count",
        True,
    )
    assert resolved.keys == ("cpu",)
    assert resolve_onto(ENTRY, "fs:made:up", Target("system"), mode="count").interval_ns is None
    with pytest.raises(RequestError, match="no backend 'bpf:none'"):
        resolve_onto(ENTRY, "bpf:none", Target("system"))


def test_a_bound_process_is_held_by_its_pidfd() -> None:
    """The handle names the process that it was made for, and release lets it go."""
    target = bind_processes(os.getpid())
    (handle,) = target.processes
    assert handle.start_ticks == read_start_ticks(os.getpid())
    assert handle.pidfd is not None
    with open(f"/proc/self/fdinfo/{handle.pidfd}") as file:
        assert f"Pid:\t{os.getpid()}\n" in file.read()
    release(target)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle.pidfd)


def test_a_made_up_root_is_changed_in_place(sysroot: Sysroot) -> None:
    """A reader that holds a file open reads what is written next, as it would in procfs."""
    sysroot.write("/proc/stat", "first\n")
    with open(sysroot.path("proc/stat"), "rb") as file:
        assert file.read() == b"first\n"
        sysroot.write("proc/stat", "2nd\n")
        file.seek(0)
        assert file.read() == b"2nd\n"


def test_a_made_up_process_reads_as_linux_prints_one(sysroot: Sysroot) -> None:
    """52 fields, the name in parentheses whatever it holds; a removed one is gone with everything in it."""
    sysroot.write_process(12, comm=b") R 1 (", ppid=3, utime=5, stime=6, threads=2, start_ticks=77)
    content = sysroot.path("proc/12/stat").read_bytes()
    assert content.startswith(b"12 () R 1 () S 3 ")
    fields = content.rpartition(b")")[2].split()
    assert len(fields) == 50
    assert (fields[11], fields[12], fields[17], fields[19]) == (b"5", b"6", b"2", b"77")
    sysroot.write_process(12, tid=13, comm=b"worker")
    assert sysroot.path("proc/12/task/13/stat").read_bytes().startswith(b"13 (worker) S")
    sysroot.remove("proc/12")
    assert not sysroot.path("proc/12").exists()


def test_a_captured_tree_lies_over_the_root(sysroot: Sysroot, tmp_path: Path) -> None:
    """Links stay links, and what was there and not captured stays."""
    captured = tmp_path / "captured"
    Sysroot(captured).write("cpu/online", "0-1\n").link("cpu/here", "online")
    sysroot.write("sys/cpu/possible", "0-3\n").copy(captured, "sys")
    assert sysroot.path("sys/cpu/here").readlink() == Path("online")
    assert sysroot.path("sys/cpu/possible").read_text() == "0-3\n"
    sysroot.remove("sys/cpu/here")
    assert sysroot.path("sys/cpu/online").exists()


def test_a_run_without_a_document_says_what_it_said() -> None:
    """The error of a test that expected a document quotes standard error."""
    with pytest.raises(AssertionError, match=r"ended with 2 and no document .* it said: omn: no such source"):
        _ = Ran(2, b"", "omn: no such source").document


def test_a_controller_that_is_mounted_nowhere_has_no_place() -> None:
    """None, and no guess."""
    assert find_cgroup_mount("no_such_controller") is None
