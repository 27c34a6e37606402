"""The block sources against transfers whose size is known, on a loop device; root's, and skipped without one."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loop_devices import Loop
from omn_kernel.targets import bind_cgroup, bind_dev

from omn_core.api import BoundTarget, ProbeContext, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, bind_processes, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.workloads import transfer_directly

Drive = Callable[..., Driver]
Start = Callable[[Workload], Running]
MIB = 1 << 20


@pytest.fixture
def drive(registry: Registry, catalog: Catalog) -> Drive:
    """Make the driver of a source on this machine."""

    def make(source: str, target: BoundTarget, *keys: str, backend: str = "fs:proc:diskstats") -> Driver:
        resolved = resolve_onto(catalog.entries[source], backend, target.target, mode="poll", keys=keys)
        return Driver(registry.load(registry.collectors[source, backend].factory)(), resolved, target)

    return make


def bind(loop: Loop) -> BoundTarget:
    return bind_dev(Target("dev", loop.path), ProbeContext())


@pytest.mark.spec("IO-1", "RUN-10", "RUN-15")
def test_a_direct_copy_is_exact_to_the_sector(loop: Loop, drive: Drive, workload: Start) -> None:
    """256 MiB read and 256 MiB written: so much of the device, in each direction, and of the process's own account."""
    program = workload(transfer_directly(loop.path, MIB, reads=256, writes=256))
    program.wait("ready")
    with (
        drive("io.bytes", bind(loop)) as whole,
        drive("io.bytes", bind(loop), "dir") as divided,
        drive("io.process", bind_processes(program.pid), backend="fs:proc:io") as own,
    ):
        program.release()
        program.wait("transferred")
        (row,) = whole.sample()
        ways = {one["dir"]: one["bytes"] for one in divided.sample()}
        (mine,) = own.sample()
    assert (row["read_bytes"], row["write_bytes"], row["bytes"]) == (256 * MIB, 256 * MIB, 512 * MIB)
    assert ways == {"read": 256 * MIB, "write": 256 * MIB, "discard": 0}
    assert (mine["read_bytes"], mine["write_bytes"], mine["bytes"]) == (256 * MIB, 256 * MIB, 512 * MIB)
    assert mine["cancelled_write_bytes"] == 0
    assert mine["syscr"] >= 256
    assert mine["syscw"] >= 256


@pytest.mark.spec("IO-1")
def test_so_many_direct_requests_are_so_many(loop: Loop, drive: Drive, workload: Start) -> None:
    """300 reads and 200 writes of 4 KiB are 500 requests of the device, and none of them was merged."""
    program = workload(transfer_directly(loop.path, 4096, reads=300, writes=200))
    program.wait("ready")
    with drive("io.iops", bind(loop)) as requests, drive("io.merges", bind(loop), "dir") as merges:
        program.release()
        program.wait("transferred")
        (row,) = requests.sample()
        joined = [one["merges"] for one in merges.sample()]
    assert (row["requests"], row["reads"], row["writes"]) == (500, 300, 200)
    assert joined == [0, 0, 0]


@pytest.mark.spec("IO-1")
def test_the_share_and_the_queue_are_those_of_the_file_over_the_same_window(
    loop: Loop, drive: Drive, workload: Start
) -> None:
    """Read by hand around omn's own readings: what omn says lies between the least and the most there was."""
    program = workload(transfer_directly(loop.path, 64 << 10, reads=2000))
    program.wait("ready")
    by_hand = [(time.monotonic_ns(), loop.read_line())]
    with drive("io.util", bind(loop)) as driver:
        by_hand.append((time.monotonic_ns(), loop.read_line()))
        program.release()
        program.wait("transferred")
        by_hand.append((time.monotonic_ns(), loop.read_line()))
        (row,) = driver.sample()
        by_hand.append((time.monotonic_ns(), loop.read_line()))
    (start_ns, before), (opened_ns, opened), (closing_ns, closing), (end_ns, after) = by_hand
    for name, ours in (("busy_ms", "busy_ns"), ("request_ms", "request_ns")):
        assert closing[name] - opened[name] <= row[ours] // 1_000_000 <= after[name] - before[name]
    assert row["busy_ns"] > 0
    assert closing_ns - opened_ns <= row["interval_ns"] <= end_ns - start_ns
    assert row["util"] == min(row["busy_ns"] / row["interval_ns"], 1.0)
    assert row["queue"] == row["request_ns"] / row["interval_ns"]


def test_an_idle_device_has_nothing_in_flight(loop: Loop, drive: Drive) -> None:
    """Zero by both accounts: a measurement, read at the opening too."""
    with drive("io.inflight", bind(loop)) as driver:
        (row,) = driver.sample()
    assert (row["in_flight"], row["diskstats_in_flight"], row["sysfs_in_flight"]) == (0, 0, 0)


def test_a_busy_device_has_requests_in_flight(loop: Loop, drive: Drive, workload: Start) -> None:
    """While a program reads, some reading sees its request, by whichever account has it."""
    program = workload(transfer_directly(loop.path, MIB, reads=500))
    program.wait("ready")
    with drive("io.inflight", bind(loop)) as driver:
        program.release()
        seen = next((row for row in (driver.sample()[0] for _ in range(100_000)) if row["in_flight"]), None)
        program.wait("transferred")
    assert seen is not None
    assert seen["in_flight"] == max(seen["diskstats_in_flight"], seen["sysfs_in_flight"])
    assert seen["sysfs_in_flight"] == seen["read_in_flight"] + seen["write_in_flight"]


def test_the_machine_counts_each_byte_once(loop: Loop, drive: Drive, workload: Start) -> None:
    """What the loop device moved is left out of the machine's figure, said, and has its own series by device."""
    program = workload(transfer_directly(loop.path, MIB, reads=16))
    program.wait("ready")
    with drive("io.bytes", bind_machine()) as whole, drive("io.bytes", bind_machine(), "dev") as divided:
        program.release()
        program.wait("transferred")
        rows = whole.sample()
        by_device = {row["dev"]: row["read_bytes"] for row in divided.sample()}
        assert whole.collector.facts() == (f"{loop.name} is left out of the figure: it stands on a file",)
    assert loop.name not in {row["dev"] for row in rows}
    assert by_device[loop.name] == 16 * MIB
    assert {row["dev"] for row in rows} <= by_device.keys()


@pytest.fixture
def accounted(loop: Loop, make_cgroup: Callable[[str], Path]) -> Iterator[Path]:
    """A cgroup of version 1 that accounts the loop device, with one below it that is called `inner`.

    From Linux 6.10 it accounts a device once a limit was set on it: this one limits nothing.
    """
    outer = make_cgroup("blkio")
    inner = outer / "inner"
    inner.mkdir()
    number, limit = os.stat(loop.path).st_rdev, inner / "blkio.throttle.read_bps_device"
    device = f"{os.major(number)}:{os.minor(number)}"
    limit.write_text(f"{device} {1 << 40}")
    yield outer
    limit.write_text(f"{device} 0")
    for pid in (inner / "cgroup.procs").read_text().split():
        (outer / "cgroup.procs").write_text(pid)
    inner.rmdir()


@pytest.mark.spec("IO-1", "REQ-11")
def test_a_cgroups_transfers_are_exact_and_nobody_elses(
    loop: Loop, drive: Drive, workload: Start, accounted: Path
) -> None:
    """A program below the cgroup that is asked, beside one outside: the bytes and ways of the first, to the byte."""
    block = 64 << 10
    inside = workload(transfer_directly(loop.path, block, reads=240, writes=80))
    outside = workload(transfer_directly(loop.path, block, reads=160, writes=160))
    for program in (inside, outside):
        program.wait("ready")
    (accounted / "inner" / "cgroup.procs").write_text(str(inside.pid))
    found = bind_cgroup(Target("cgroup", str(accounted)), ProbeContext())
    with (
        drive("io.bytes", found, backend="fs:cgroup1:blkio") as whole,
        drive("io.bytes", found, "dev", "dir", backend="fs:cgroup1:blkio") as divided,
        drive("io.iops", found, "dev", backend="fs:cgroup1:blkio") as requests,
        drive("io.bytes", bind(loop)) as device,
    ):
        for program in (inside, outside):
            program.release()
            program.wait("transferred")
        whole.sample()
        ways = {(one["dev"], one["dir"]): one["bytes"] for one in divided.sample()}
        (given,) = (one for one in requests.sample() if one["dev"] == loop.name)
        (all_of_it,) = device.sample()
        # What the file behind the loop device cost its own device would be counted a second time.
        assert whole.collector.facts() == (f"{loop.name} is left out of the figure: it stands on a file",)
    mine = {way: ways[loop.name, way] for way in ("read", "write", "discard")}
    assert mine == {"read": 240 * block, "write": 80 * block, "discard": 0}
    assert (given["reads"], given["writes"]) == (240, 80)
    assert all_of_it["bytes"] == 640 * block


@pytest.mark.spec("IO-1", "REQ-11")
def test_a_cgroup_is_measured_from_the_command_line(loop: Loop, omn: Command, accounted: Path) -> None:
    """The version is found for this cgroup, and the figure is exact; the program entered the cgroup by itself."""
    copy = f"exec dd if={loop.path} of=/dev/null bs=64k count=160 iflag=direct"
    asked = ("-m", "count", "-e", "count", "--keys", "dev,dir", "--cgroup", str(accounted), "--format", "json")
    ran = omn("io.bytes", *asked, "--", "sh", "-c", f"echo $$ > {accounted}/inner/cgroup.procs; {copy}")
    assert ran.code == 0, ran.stderr
    assert (ran.result["scope"], ran.result["backend"]) == ("cgroup", "fs:cgroup1:blkio")
    found = {(one["key"]["dev"], one["key"]["dir"]): one["emits"]["count"]["value"] for one in ran.result["series"]}
    assert found[loop.name, "read"] == 160 * (64 << 10)
    assert found[loop.name, "write"] == 0
    assert any("no limit was ever set on" in sentence for sentence in ran.result["degraded"])


@pytest.mark.spec("RUN-7")
def test_a_device_that_is_removed_is_the_end(tmp_path: Path, drive: Drive) -> None:
    """A loop device that root removes while it is watched ends its request."""
    made = subprocess.run(["losetup", "--find"], capture_output=True, text=True, check=False)
    if made.returncode or os.geteuid() != 0:
        pytest.skip("no loop device can be had here")
    control = os.open("/dev/loop-control", os.O_RDWR)
    try:
        number = 1000 + os.getpid() % 1000
        add_loop(control, number)
        bound = bind_dev(Target("dev", f"loop{number}"), ProbeContext())
        with drive("io.bytes", bound) as driver:
            (row,) = driver.sample()
            assert row["bytes"] == 0
            remove_loop(control, number)
            with pytest.raises(TargetGone):
                driver.sample()
            assert driver.collector.losses().is_empty
    finally:
        os.close(control)


def add_loop(control: int, number: int) -> None:
    """Make a loop device: LOOP_CTL_ADD of <linux/loop.h>."""
    fcntl.ioctl(control, 0x4C80, number)


def remove_loop(control: int, number: int) -> None:
    """Remove a loop device: LOOP_CTL_REMOVE of <linux/loop.h>."""
    fcntl.ioctl(control, 0x4C81, number)


@pytest.mark.spec("RUN-15", "REQ-6")
def test_a_device_is_measured_beside_a_program_from_the_command_line(loop: Loop, omn: Command) -> None:
    """The program sets the window, the device is what the figure is about: its name, its number, the exact bytes."""
    argv = transfer_directly(loop.path, MIB, reads=64).argv
    arguments = ("-m", "count", "-e", "count", "--keys", "dev,dir", "--dev", loop.path, "--format", "json", "--")
    ran = omn("io.bytes", *arguments, *argv)
    assert ran.code == 0, ran.stderr
    result = ran.result
    assert (result["scope"], result["backend"]) == ("device", "fs:proc:diskstats")
    found = {series["key"]["dir"]: series["emits"]["count"]["value"] for series in result["series"]}
    assert found == {"read": 64 * MIB, "write": 0, "discard": 0}
    assert {series["key"]["dev"] for series in result["series"]} == {loop.name}
    assert result["losses"]["failed_reads"] == 0
