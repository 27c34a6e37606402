"""proc.fd: three hundred descriptors of known kinds, their limit, and what the kernel's links spell."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import pytest
from another_user import run_as_another_user
from omn_proc.descriptor_table import parse_kind
from omn_proc.descriptors import Descriptors

from omn_core.api import BoundTarget, MachineRefused, ProcessHandle, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.model.request import EmitSpec
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import end_with

Start = Callable[[Workload], Running]

OPEN_300 = """
import ctypes, json, os, select, socket, sys
pipes = [int(part) for part in os.environ["OMN_WORKLOAD_PIPES"].split(",")]
held = []
for _ in range(60):
    held.append(open("/proc/self/maps"))
for _ in range(40):
    held.extend(socket.socketpair())
for _ in range(40):
    held.extend(os.pipe())
libc = ctypes.CDLL(None)
for _ in range(30):
    held.append(libc.eventfd(0, 0))
for _ in range(20):
    held.append(select.epoll())
for _ in range(20):
    held.append(os.memfd_create("some"))
for _ in range(10):
    held.append(open("/dev/null"))
os.write(pipes[1], json.dumps({"step": "held"}).encode() + b"\\n")
os.read(pipes[0], 1)
"""
"""Sixty files, forty pairs of sockets, forty pipes of two ends, and so on: three hundred in all."""

KINDS = {"file": 60, "socket": 80, "pipe": 80, "eventfd": 30, "eventpoll": 20, "memfd": 20, "device": 10}


def drive(
    catalog: Catalog,
    target: BoundTarget,
    keys: Sequence[str] = (),
    *,
    mode: str = "poll",
    emit: str = "summary",
    sysroot: object = "/",
) -> Driver:
    resolved = resolve_onto(catalog.entries["proc.fd"], "fs:proc:fd", target.target, mode=mode, keys=keys)
    resolved = attrs.evolve(resolved, emits=(EmitSpec(emit),))
    return Driver(Descriptors(), resolved, target, sysroot=str(sysroot))


def list_kinds(pid: int) -> dict[str, int]:
    """Count by hand what the child holds beside the three hundred: its standard streams and the test's pipes."""
    counted: dict[str, int] = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        kind = parse_kind(os.fsencode(os.readlink(link)))
        counted[kind] = counted.get(kind, 0) + 1
    return counted


@pytest.mark.spec("PRC-1", "EVT-2")
def test_three_hundred_descriptors_of_known_kinds(catalog: Catalog, workload: Start) -> None:
    """Each kind is counted exactly beside the few the child was started with, and together they are the count."""
    bare = workload(end_with(code=0))
    bare.wait("ready")
    started = list_kinds(bare.pid)
    child = workload(Workload("open 300", OPEN_300))
    child.wait("held")
    with drive(catalog, bind_processes(child.pid), ["descriptor"]) as driver:
        rows = {row["descriptor"]: row["descriptors"] for row in driver.sample()}
        assert driver.collector.losses().is_empty
    with drive(catalog, bind_processes(child.pid)) as driver:
        (row,) = driver.sample()
    assert {kind: rows[kind] - started.get(kind, 0) for kind in KINDS} == KINDS
    assert row["descriptors"] == sum(rows.values()) == 300 + sum(started.values())
    assert row["descriptors"] == len(os.listdir(f"/proc/{child.pid}/fd"))
    assert set(row) == {"ts_ns", "task", "proc", "pid", "descriptors"}


@pytest.mark.spec("PRC-1")
def test_the_limit_is_prlimits_and_the_share_is_of_the_soft_one(catalog: Catalog, workload: Start) -> None:
    """Changed in the window it is read anew; lowered below what is open the share passes one."""
    child = workload(Workload("open 300", OPEN_300))
    child.wait("held")
    hard = min(5000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    with drive(catalog, bind_processes(child.pid), emit="raw") as driver:
        for soft in (hard - 1, 200):
            resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (soft, hard))
            (row,) = driver.sample()
            assert (row["limit"], row["hard_limit"]) == (soft, hard)
            assert row["used"] == pytest.approx(row["descriptors"] / soft)
    assert row["used"] > 1


@pytest.mark.parametrize(
    ("link", "kind"),
    [
        (b"/var/log/some file (deleted)", "file"),
        (b"/", "file"),
        (b"/dev/null", "device"),
        (b"/dev/pts/3", "device"),
        (b"/dev/shm/segment", "file"),
        (b"/devices", "file"),
        (b"/memfd:name (deleted)", "memfd"),
        (b"/dmabuf:", "dmabuf"),
        (b"socket:[12345]", "socket"),
        (b"pipe:[6]", "pipe"),
        (b"pidfd:[77]", "pidfd"),
        (b"net:[4026531840]", "namespace"),
        (b"anon_inode:[eventfd]", "eventfd"),
        (b"anon_inode:[eventpoll]", "eventpoll"),
        (b"anon_inode:[timerfd]", "timerfd"),
        (b"anon_inode:[pidfd]", "pidfd"),
        (b"anon_inode:inotify", "inotify"),
        (b"anon_inode:bpf-map", "bpf-map"),
        (b"anon_inode:kvm-vcpu:0", "kvm-vcpu:0"),
        (b"anon_inode:[\xff]", "\\xff"),
    ],
)
def test_a_kind_is_what_the_link_spells(link: bytes, kind: str) -> None:
    """As kernels from 4.x on write them: pidfds moved from an anonymous inode to a file system of their own."""
    assert parse_kind(link) == kind


def bind_fixture(*pids: int) -> BoundTarget:
    return BoundTarget(Target("pid", pids), "process", tuple(ProcessHandle(pid, None, 100) for pid in pids))


LIMITS = """Limit                     Soft Limit           Hard Limit           Units     
Max open files            unlimited            unlimited            files     
"""  # noqa: W291


@pytest.mark.spec("EVT-5", "RUN-7")
def test_made_processes_are_counted_and_end(sysroot: Sysroot, catalog: Catalog) -> None:
    """No limit is no share of one; a process without descriptors has zero; one that is gone leaves the other."""
    for pid in (7, 8):
        sysroot.write_process(pid).write(f"/proc/{pid}/limits", LIMITS).path(f"/proc/{pid}/fd").mkdir()
        sysroot.write_process(pid, tid=pid)
    sysroot.link("/proc/7/fd/0", "/dev/null").link("/proc/7/fd/3", "socket:[5]").link("/proc/7/fd/9", "socket:[6]")
    target = bind_fixture(7, 8)
    with drive(catalog, target, ["task"], mode="poll", emit="raw", sysroot=sysroot) as driver:
        first, second = driver.sample()
        assert (first["descriptors"], second["descriptors"]) == (3, 0)
        assert not {"limit", "hard_limit", "used"} & (set(first) | set(second))
        sysroot.remove("/proc/7")
        assert [row["task"] for row in driver.sample()] == [8]
        sysroot.remove("/proc/8")
        with pytest.raises(TargetGone):
            driver.sample()
        assert driver.collector.losses().is_empty


@pytest.mark.spec("RUN-7")
def test_a_process_that_exited_holds_nothing_and_ends(catalog: Catalog, workload: Start) -> None:
    """A zombie's empty table is the end of the request, and not a count of zero."""
    child = workload(end_with(code=0))
    child.wait("ready")
    with drive(catalog, bind_processes(child.pid)) as driver:
        assert driver.sample()[0]["descriptors"] >= 3
        child.release()
        child.wait_exited()
        with pytest.raises(TargetGone):
            driver.sample()
        assert driver.collector.losses().is_empty


def test_a_process_that_is_not_there_is_refused(catalog: Catalog) -> None:
    """Before anything runs."""
    with pytest.raises(MachineRefused, match="process 4000000 has ended"):
        drive(catalog, bind_fixture(4_000_000)).__enter__()


IMPORTS = """
from omn_core.api import BoundTarget, MachineRefused, ProcessHandle, Target
from omn_core.catalog.load import load_catalog
from omn_core.plugins import discover
from omn_core.testing.harness import Driver, read_start_ticks, resolve_onto
from omn_proc.descriptors import Descriptors
entry = load_catalog(discover()).entries["proc.fd"]
target = BoundTarget(Target("pid", (1,)), "process", (ProcessHandle(1, None, read_start_ticks(1)),))
"""
ASK = """
try:
    with Driver(Descriptors(), resolve_onto(entry, "fs:proc:fd", target.target, keys=["descriptor"]), target) as driver:
        print("served")
except MachineRefused as refused:
    print("refused", refused)
try:
    with Driver(Descriptors(), resolve_onto(entry, "fs:proc:fd", target.target), target) as driver:
        print("counted", driver.sample()[0]["descriptors"] > 0)
except MachineRefused as refused:
    print("counted", "does not let this user read its fd" in str(refused))
"""


@pytest.mark.spec("PRB-6")
def test_the_kinds_of_another_users_descriptors_are_refused_and_their_number_told() -> None:
    """Restricted, with what is missing and how it is granted; the number where the kernel tells it to everyone."""
    refused, counted = run_as_another_user(IMPORTS, ASK).splitlines()
    assert refused.startswith("refused process 1 does not let this user read its fd: CAP_SYS_PTRACE")
    assert counted == "counted True"


@pytest.mark.spec("PRC-1")
def test_descriptors_of_a_launched_program(omn: Command) -> None:
    """By kind from the command line, at the opening too; a thread is refused with what to ask instead."""
    asked = ("--keys", "descriptor", "-e", "summary", "-e", "raw", "--interval", "50ms", "--format", "json")
    ran = omn("proc.fd", *asked, "--", "sleep", "0.4")
    assert ran.code == 0, ran.stderr
    assert {series["key"]["descriptor"] for series in ran.result["series"]} <= {"file", "device", "pipe", "socket"}
    # An early reading may find it loading its libraries, from a file.
    last_ns = max(event["ts_ns"] for event in ran.result["raw"])
    assert sum(event["attrs"]["descriptors"] for event in ran.result["raw"] if event["ts_ns"] == last_ns) == 3
    assert omn("proc.fd", "--tid", str(os.getpid())).code == 2


def test_links_that_are_closed_refuse_although_the_folder_lists(
    sysroot: Sysroot, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel checks each link again, and may keep them even from root: that is a refusal, with what would help."""

    def refuse(path: str) -> str:
        raise PermissionError(13, "Permission denied", path)

    sysroot.write_process(7).write_process(7, tid=7).link("/proc/7/fd/0", "/dev/null")
    monkeypatch.setattr(os, "readlink", refuse)
    with pytest.raises(MachineRefused, match="process 7 does not let this user read its fd"):
        drive(catalog, bind_fixture(7), ["descriptor"], sysroot=sysroot).__enter__()
    with drive(catalog, bind_fixture(7), sysroot=sysroot) as driver:
        assert driver.sample()[0]["descriptors"] == 1


FIRST_THREAD_ENDS = """
import ctypes, os, sys, threading, time

def wait():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.001)
    os.write(1, b"alone\\n")
    os.read(0, 1)
    os._exit(0)

threading.Thread(target=wait).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_ended_still_has_its_descriptors(catalog: Catalog) -> None:
    """The kernel shows none through a first thread that ended: they are read through another, kinds and number."""
    with subprocess.Popen(
        [sys.executable, "-c", FIRST_THREAD_ENDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"alone\n"
        with drive(catalog, bind_processes(child.pid), ["descriptor"]) as driver:
            kinds = {row["descriptor"]: row["descriptors"] for row in driver.sample()}
        with drive(catalog, bind_processes(child.pid)) as driver:
            (row,) = driver.sample()
            child.communicate(b"\n")
            with pytest.raises(TargetGone):
                driver.sample()
    assert kinds["pipe"] == 2
    assert row["descriptors"] == sum(kinds.values()) == 3
