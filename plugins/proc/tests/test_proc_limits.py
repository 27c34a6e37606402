"""proc.limits: against prlimit(2), against what the process is known to use, and on made files."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Sequence

import attrs
import pytest
from another_user import run_as_another_user
from omn_proc.limit_table import Limit, compute_used, find_nearest, parse_limits, parse_uses
from omn_proc.limits import Limits

from omn_core.api import BoundTarget, ProcessHandle, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.model.request import EmitSpec
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import end_with

Start = Callable[[Workload], Running]

RESOURCES = {
    "cpu time": resource.RLIMIT_CPU,
    "file size": resource.RLIMIT_FSIZE,
    "data size": resource.RLIMIT_DATA,
    "stack size": resource.RLIMIT_STACK,
    "core file size": resource.RLIMIT_CORE,
    "resident set": resource.RLIMIT_RSS,
    "processes": resource.RLIMIT_NPROC,
    "open files": resource.RLIMIT_NOFILE,
    "locked memory": resource.RLIMIT_MEMLOCK,
    "address space": resource.RLIMIT_AS,
    "pending signals": resource.RLIMIT_SIGPENDING,
    "msgqueue size": resource.RLIMIT_MSGQUEUE,
    "nice priority": resource.RLIMIT_NICE,
    "realtime priority": resource.RLIMIT_RTPRIO,
    "realtime timeout": resource.RLIMIT_RTTIME,
}
"""The kernel's names, and the numbers of getrlimit(2); file locks have had no number here since Linux 2.4."""


def drive(
    catalog: Catalog, target: BoundTarget, keys: Sequence[str] = (), *, mode: str = "snapshot", sysroot: object = "/"
) -> Driver:
    resolved = resolve_onto(catalog.entries["proc.limits"], "fs:proc:limits", target.target, mode=mode, keys=keys)
    return Driver(Limits(), attrs.evolve(resolved, emits=(EmitSpec("raw"),)), target, sysroot=str(sysroot))


def sample(driver: Driver) -> dict[str, dict[str, float]]:
    return {row["resource"]: row for row in driver.sample()}


@pytest.mark.spec("PRC-1", "EVT-5")
def test_every_limit_is_prlimits(catalog: Catalog, workload: Start) -> None:
    """Each resource has both bounds as the system call gives them, and none where it gives infinity."""
    child = workload(end_with(code=0))
    child.wait("ready")
    for number, bounds in ((resource.RLIMIT_NOFILE, (300, 400)), (resource.RLIMIT_STACK, (1 << 20, 1 << 22))):
        resource.prlimit(child.pid, number, bounds)
    with drive(catalog, bind_processes(child.pid)) as driver:
        rows = sample(driver)
        losses = driver.collector.losses()
    assert set(rows) == {*RESOURCES, "file locks"}
    for name, number in RESOURCES.items():
        asked = [None if bound == resource.RLIM_INFINITY else bound for bound in resource.prlimit(child.pid, number)]
        assert [rows[name].get("soft"), rows[name].get("hard")] == asked, name
    assert losses.is_empty


@pytest.mark.spec("PRC-1")
def test_what_is_in_use_is_what_the_process_uses(catalog: Catalog, workload: Start) -> None:
    """Descriptors as they are listed, memory as status has it; a share of the soft limit wherever there is one."""
    child = workload(end_with(code=0))
    child.wait("ready")
    resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (50, 400))
    with drive(catalog, bind_processes(child.pid)) as driver:
        rows = sample(driver)
    with open(f"/proc/{child.pid}/status") as file:
        status = {line.split(":")[0]: line.split()[1] for line in file if line.startswith("Vm")}
    count = len(os.listdir(f"/proc/{child.pid}/fd"))
    assert (rows["open files"]["in_use"], rows["open files"]["used"]) == (count, count / 50)
    assert rows["open files"]["measured_in"] == "files"
    assert rows["address space"]["in_use"] == int(status["VmSize"]) * 1024
    assert rows["data size"]["in_use"] == int(status["VmData"]) * 1024
    assert not {"in_use", "used"} & set(rows["processes"])
    for row in rows.values():
        assert ("used" in row) is bool("in_use" in row and row.get("soft")), row


@pytest.mark.spec("PRC-1")
def test_a_poll_follows_the_resource_that_is_nearest_to_its_limit(catalog: Catalog, workload: Start) -> None:
    """One row a process, of whichever resource that is now; by resource, a row for each."""
    child = workload(end_with(code=0))
    child.wait("ready")
    with drive(catalog, bind_processes(child.pid), mode="poll") as driver:
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (4, 400))
        assert [row["resource"] for row in driver.sample()] == ["open files"]
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (400, 400))
        resource.prlimit(child.pid, resource.RLIMIT_AS, (1 << 12, resource.RLIM_INFINITY))
        (row,) = driver.sample()
        assert row["resource"] == "address space"
        assert row["used"] > 1
    with drive(catalog, bind_processes(child.pid), ["resource"], mode="poll") as driver:
        assert len(driver.sample()) == len(RESOURCES) + 1


OLD = b"""Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              10                   20                   seconds   
Max file size             unlimited            unlimited            bytes     
Max data size             1000                 unlimited            bytes     
Max processes             96365                96365                processes 
Max open files            0                    1048576              files     
Max nice priority         0                    0                    
Max realtime timeout      unlimited            unlimited            us        
Max something newer       18446744073709551614 unlimited            widgets   
"""  # noqa: W291
STATUS = b"Name:\tx\nState:\tS (sleeping)\nSigQ:\t5/96365\nVmSize:\t    8 kB\nVmData:\t    2 kB\nVmLck:\t       0 kB\n"


@pytest.mark.spec("EVT-5")
def test_limits_parse_whatever_resources_a_kernel_has() -> None:
    """By the columns and the kernel's own names: no unit is none, unlimited is none, and a new resource is there."""
    limits = parse_limits(OLD)
    assert limits["cpu time"] == Limit(10, 20, "seconds")
    assert limits["data size"] == Limit(1000, None, "bytes")
    assert limits["nice priority"] == Limit(0, 0, None)
    assert limits["realtime timeout"] == Limit(None, None, "us")
    assert limits["something newer"] == Limit(18446744073709551614, None, "widgets")
    assert len(limits) == 8


def test_uses_parse_in_the_units_of_the_limits(sysroot: Sysroot) -> None:
    """Bytes of kB, seconds of ticks, signals before the slash; a kernel thread has no memory, which is not none."""
    sysroot.write_process(7, utime=1050, stime=30)
    stat = sysroot.path("/proc/7/stat").read_bytes()
    uses = parse_uses(STATUS, stat)
    assert uses == {"address space": 8192, "data size": 2048, "locked memory": 0, "pending signals": 5, "cpu time": 10}
    assert parse_uses(b"Name:\tkthread\nSigQ:\t0/9\n", stat) == {"pending signals": 0, "cpu time": 10}
    assert find_nearest(parse_limits(OLD), uses) == "data size"
    assert find_nearest({"processes": Limit(5, 5, None)}, {}) is None
    assert [compute_used(Limit(soft, None, None), 5) for soft in (None, 0, 10)] == [None, None, 0.5]


def bind_fixture(pid: int) -> BoundTarget:
    return BoundTarget(Target("pid", (pid,)), "process", (ProcessHandle(pid, None, 100),))


@pytest.mark.spec("RUN-7")
def test_a_zombie_is_the_end(sysroot: Sysroot, catalog: Catalog) -> None:
    """It keeps its limits and uses nothing: the request ends, and nothing was lost."""
    sysroot.write_process(7).write_process(7, tid=7).write("/proc/7/limits", OLD).write("/proc/7/status", STATUS).path(
        "/proc/7/fd"
    ).mkdir()
    with drive(catalog, bind_fixture(7), sysroot=sysroot) as driver:
        rows = sample(driver)
        assert rows["open files"]["in_use"] == 0
        assert "used" not in rows["open files"]
        sysroot.write_process(7, state="Z")
        with pytest.raises(TargetGone):
            driver.sample()
        assert driver.collector.losses().is_empty


IMPORTS = """
from omn_core.api import BoundTarget, ProcessHandle, Target
from omn_core.catalog.load import load_catalog
from omn_core.plugins import discover
from omn_core.testing.harness import Driver, resolve_onto
from omn_proc.limits import Limits
entry = load_catalog(discover()).entries["proc.limits"]
target = BoundTarget(Target("pid", (1,)), "process", (ProcessHandle(1, None, 0),))
"""
ASK = """
with Driver(Limits(), resolve_onto(entry, "fs:proc:limits", target.target, mode="snapshot"), target) as driver:
    rows = {row["resource"]: row for row in driver.sample()}
    said = driver.collector.degradations()
print("processes" in rows, "address space" in rows, "in_use" in rows["open files"] or "process 1 are closed" in said[0])
"""


@pytest.mark.spec("PRB-6")
def test_another_users_limits_are_told_and_closed_descriptors_said() -> None:
    """Limits are everyone's to read; where descriptors may not be counted their use is unknown, and that is said."""
    assert run_as_another_user(IMPORTS, ASK).split() == ["True", "True", "True"]


@pytest.mark.spec("PRC-1")
def test_limits_from_the_command_line(omn: Command) -> None:
    """One table of a process by its number alone."""
    ran = omn("proc.limits", "--pid", str(os.getpid()), "--format", "json")
    assert ran.code == 0, ran.stderr
    rows = {event["key"]["resource"]: event["attrs"] for event in ran.result["raw"]}
    assert rows["open files"]["soft"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert ran.result["unit"] == "ratio"
