"""Calls on files, block requests of tasks, writeback and the scheduler's account, by programs in each kernel."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omn_kernel.polled import read_file
from omn_kernel.procfs.task import parse_schedstat

from omn_core.testing.harness import bind_machine, bind_processes
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.workloads import spin, transfer_directly

DISK, MOUNTED = "/dev/nvme0n2", Path("/disk")
MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
ROUNDS = 5


def find_named(rows: list[dict[str, Any]], path: Path, root: Path = Path("/")) -> list[dict[str, Any]]:
    """Return the rows of a file, by its path from a root."""
    return [row for row in rows if row.get("file") == f"/{path.relative_to(root)}"]


@pytest.mark.spec("KRN-9")
@pytest.mark.parametrize("mode", ["trace", "count"])
def test_each_calls_bytes_are_its_files(drive: Any, mode: str) -> None:
    """By path, by device, by what stands behind a descriptor without a path; what fails has its error."""
    path = MOUNTED / "a folder" / "a file"
    path.parent.mkdir(exist_ok=True)
    file, zero = os.open(path, os.O_RDWR | os.O_CREAT), os.open("/dev/zero", os.O_RDONLY)
    inner, outer = os.pipe()
    with drive(
        "io.syscall", "bpf:raw_tp", bind_processes(os.getpid()), "op", "dir", "file", "descriptor", mode=mode
    ) as it:
        os.pwrite(file, b"x" * 777, 0)
        os.pread(file, 333, 0)
        os.read(zero, 55)
        os.write(outer, b"piped")
        with pytest.raises(OSError, match="Bad file"):
            os.read(outer, 1)
        it.sample()
    kept = {row["op"]: row for row in find_named(it.rows, path)}
    assert (kept["pwrite64"]["bytes"], kept["pread64"]["bytes"]) == (777, 333)
    assert {row["descriptor"] for row in kept.values()} == {"file"}
    (read,) = find_named(it.rows, Path("/dev/zero"), Path("/"))
    assert (read["op"], read["bytes"], read["descriptor"]) == ("read", 55, "device")
    pipe = os.readlink(f"/proc/self/fd/{inner}")
    piped = {row["op"]: row for row in it.rows if row.get("file") == pipe}
    assert piped["write"]["bytes"] == 5
    assert (piped["read"]["error"], piped["read"]["descriptor"]) == ("EBADF", "pipe")
    assert it.collector.losses().is_empty
    for descriptor in (file, zero, inner, outer):
        os.close(descriptor)


@pytest.mark.spec("KRN-9")
def test_each_sync_names_its_file(drive: Any) -> None:
    """And pages that were written back are told with who asked for them.

    A worker may take pages up by itself before their sync asks for it, so that they are synced again and again: all of
    them are told, and those that a sync asked for are its caller's.
    """
    path = MOUNTED / "synced"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    with (
        drive("io.fsync", "bpf:raw_tp", bind_processes(os.getpid()), "op", "file", mode="trace") as syncs,
        drive("io.writeback", "bpf:raw_tp", bind_machine(), "file", "dev", "task", mode="trace") as written,
        drive("io.writeback", "bpf:tp", bind_machine(), "dev", "task", mode="trace") as recorded,
    ):
        os.write(file, bytes(PAGE))
        os.fsync(file)
        for _ in range(ROUNDS):
            os.pwrite(file, bytes(3 * PAGE), 0)
            assert ctypes.CDLL(None).syncfs(file) == 0
        syncs.sample()
        written.sample()
        recorded.sample()
    os.close(file)
    assert [row["op"] for row in find_named(syncs.rows, path)] == ["fsync", *["syncfs"] * ROUNDS]
    rows = find_named(written.rows, path, MOUNTED)
    assert sum(row["pages"] for row in rows) == 3 * ROUNDS
    (device,) = {row["dev"] for row in rows}
    told = [row for row in recorded.rows if row["dev"] == device]
    assert sum(row["pages"] for row in told) >= 3 * ROUNDS
    for seen in (rows, told):
        assert sum(row["pages"] for row in seen if (row["reason"], row.get("task")) == ("sync", os.getpid())) >= 3


@pytest.mark.spec("KRN-9")
def test_direct_transfers_are_the_programs(drive: Any, workload: Callable[[Workload], Running]) -> None:
    """To the byte and to the request, in each direction; the device counted no other."""
    child = workload(transfer_directly(DISK, 64 << 10, reads=64, writes=32))
    child.wait("ready")
    with (
        drive("io.bytes", "bpf:raw_tp", bind_processes(child.pid), "dev") as amounts,
        drive("io.iops", "bpf:raw_tp", bind_processes(child.pid), "dev") as requests,
    ):
        child.release()
        child.wait("transferred")
        (moved,) = amounts.sample()
        (made,) = requests.sample()
    assert (moved["read_bytes"], moved["write_bytes"], moved["bytes"]) == (4 * MIB, 2 * MIB, 6 * MIB)
    assert (made["reads"], made["writes"], made["requests"]) == (64, 32, 96)
    assert amounts.collector.losses().is_empty
    assert requests.collector.losses().is_empty


@pytest.mark.spec("KRN-9")
def test_what_a_task_ran_is_the_schedulers_account(drive: Any, workload: Callable[[Workload], Running]) -> None:
    """Of a task that waits at both ends, to the nanosecond."""
    child = workload(spin(50_000_000))
    child.wait("ready")

    def read_run_ns() -> int:
        before = -1
        while (now := parse_schedstat(read_file("/", f"/proc/{child.pid}/schedstat")).run_ns) != before:
            before = now
            os.sched_yield()
        return now

    before_ns = read_run_ns()
    with drive("cpu.oncpu_time", "bpf:tp_btf", bind_machine(), "task") as it:
        child.release()
        child.wait("spun")
        after_ns = read_run_ns()
        rows = it.sample()
    (own,) = [row for row in rows if row["task"] == child.pid]
    assert own["oncpu_ns"] == after_ns - before_ns >= 50_000_000
