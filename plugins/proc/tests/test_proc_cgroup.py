"""proc.cgroup: memberships on every layout of the hierarchies, and tasks counted and limited by a pids controller."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from omn_proc.cgroup import Cgroups

from omn_core.api import BoundTarget, ProcessHandle, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.model.request import EmitSpec
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import end_with, threads

Start = Callable[[Workload], Running]


def drive(catalog: Catalog, target: BoundTarget, *, mode: str = "snapshot", sysroot: object = "/") -> Driver:
    resolved = resolve_onto(catalog.entries["proc.cgroup"], "fs:proc:cgroup", target.target, mode=mode)
    return Driver(Cgroups(), attrs.evolve(resolved, emits=(EmitSpec("raw"),)), target, sysroot=str(sysroot))


def bind_fixture(pid: int) -> BoundTarget:
    return BoundTarget(Target("pid", (pid,)), "process", (ProcessHandle(pid, None, 100),))


HYBRID = """35 31 0:32 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
37 31 0:34 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""


@pytest.fixture
def hybrid(sysroot: Sysroot) -> Sysroot:
    """Version 1 controllers beside cgroup2, as systemd's hybrid layout mounts them; /job may have eight tasks."""
    sysroot.write("/proc/self/mountinfo", HYBRID).write_process(7)
    sysroot.write("/proc/7/cgroup", "3:pids:/job\n2:cpu,cpuacct:/a:b\n1:name=systemd:/user\n0::/user/seven\n")
    sysroot.write("/sys/fs/cgroup/pids/job/pids.current", "2\n").write("/sys/fs/cgroup/pids/job/pids.max", "8\n")
    return sysroot


@pytest.mark.spec("PRC-1", "EVT-2")
def test_every_hierarchy_is_a_row(hybrid: Sysroot, catalog: Catalog) -> None:
    """Paths whole, colons in them too; tasks where the pids controller counts and nowhere else."""
    with drive(catalog, bind_fixture(7), sysroot=hybrid) as driver:
        rows = {row["hierarchy"]: row for row in driver.sample()}
        assert driver.collector.facts() == ()
    assert {name: row["cgroup"] for name, row in rows.items()} == {
        "pids": "/job",
        "cpu": "/a:b",
        "cpuacct": "/a:b",
        "name=systemd": "/user",
        "unified": "/user/seven",
    }
    assert (rows["pids"]["tasks"], rows["pids"]["tasks_limit"], rows["pids"]["used"]) == (2, 8, 0.25)
    assert all("tasks" not in row for name, row in rows.items() if name != "pids")


@pytest.mark.spec("PRC-1")
def test_a_poll_follows_a_process_that_is_moved(hybrid: Sysroot, catalog: Catalog) -> None:
    """One row a reading, of the cgroup it is in then; without a limit no share of one."""
    with drive(catalog, bind_fixture(7), mode="poll", sysroot=hybrid) as driver:
        assert [(row["cgroup"], row["tasks"]) for row in driver.sample()] == [("/job", 2)]
        hybrid.write("/proc/7/cgroup", "3:pids:/other\n0::/\n")
        hybrid.write("/sys/fs/cgroup/pids/other/pids.current", "5\n")
        hybrid.write("/sys/fs/cgroup/pids/other/pids.max", "max\n")
        (row,) = driver.sample()
        assert (row["cgroup"], row["tasks"]) == ("/other", 5)
        assert not {"tasks_limit", "used"} & set(row)


@pytest.mark.spec("EVT-5")
def test_what_nobody_counts_is_absent_and_said(hybrid: Sysroot, catalog: Catalog) -> None:
    """A root has no pids.current: its row has no figure, no zero, and a note says why."""
    hybrid.write("/proc/7/cgroup", "3:pids:/\n0::/\n")
    with drive(catalog, bind_fixture(7), mode="poll", sysroot=hybrid) as driver:
        (row,) = driver.sample()
        assert "tasks" not in row
        (said,) = driver.collector.facts()
    assert "cgroup / of pids" in said


@pytest.mark.parametrize(
    ("root", "path", "folder"),
    [
        ("/", "/job", "/job"),
        ("/docker/abc", "/docker/abc/job", "/job"),
        ("/docker/abc", "/docker/abc", ""),
        ("/docker/abc", "/docker/abcd", None),
        ("/", "/../outside", None),
    ],
)
def test_version_2_alone_and_what_a_container_sees(
    sysroot: Sysroot, catalog: Catalog, root: str, path: str, folder: str | None
) -> None:
    """Below the part of the hierarchy that is mounted here; a cgroup outside it is named, and not counted."""
    sysroot.write("/proc/self/mountinfo", f"31 23 0:28 {root} /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n")
    sysroot.write_process(7).write("/proc/7/cgroup", f"0::{path}\n")
    if folder is not None:
        sysroot.write(f"/sys/fs/cgroup{folder}/pids.current", "3\n").write(f"/sys/fs/cgroup{folder}/pids.max", "max\n")
    with drive(catalog, bind_fixture(7), sysroot=sysroot) as driver:
        (row,) = driver.sample()
    assert (row["cgroup"], row["hierarchy"], row.get("tasks")) == (path, "unified", None if folder is None else 3)


@pytest.mark.spec("PRC-1")
def test_a_process_with_four_threads_under_a_limit_of_ten(
    catalog: Catalog, workload: Start, make_cgroup: Callable[[str], Path]
) -> None:
    """On this machine: five tasks in a cgroup made for them, of the ten it may have."""
    folder = make_cgroup("pids")
    (folder / "pids.max").write_text("10")
    child = workload(threads([b"t"] * 4))
    child.wait("ready")
    (folder / "cgroup.procs").write_text(str(child.pid))
    with drive(catalog, bind_processes(child.pid), mode="poll") as driver:
        (row,) = driver.sample()
        assert (row["tasks"], row["tasks_limit"], row["used"]) == (5, 10, 0.5)
        assert row["cgroup"].endswith(folder.name)
        (folder.parent / "cgroup.procs").write_text(str(child.pid))
        assert "tasks" not in driver.sample()[0] or driver.sample()[0]["cgroup"] != row["cgroup"]


@pytest.mark.spec("PRC-1")
def test_the_memberships_are_those_of_the_kernels_file(catalog: Catalog) -> None:
    """Of this process, whatever layout this machine has."""
    with drive(catalog, bind_processes(os.getpid())) as driver:
        found = {(row["hierarchy"], row["cgroup"]) for row in driver.sample()}
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    known = {(name or "unified", path) for _, names, path in lines for name in names.split(",")}
    assert found == known
    assert found


@pytest.mark.spec("RUN-7")
def test_a_process_that_exited_is_in_no_cgroup_any_more(catalog: Catalog, workload: Start) -> None:
    """A zombie is still listed in one: it is the end of the request all the same, and no loss."""
    child = workload(end_with(code=0))
    child.wait("ready")
    with drive(catalog, bind_processes(child.pid)) as driver:
        assert driver.sample()
        child.release()
        child.wait_exited()
        with pytest.raises(TargetGone):
            driver.sample()
        assert driver.collector.losses().is_empty


@pytest.mark.spec("PRC-1")
def test_cgroups_from_the_command_line(omn: Command) -> None:
    """Everyone may ask; a cgroup as a target is refused with what the source is about."""
    ran = omn("proc.cgroup", "--pid", str(os.getpid()), "--format", "json")
    assert ran.code == 0, ran.stderr
    assert all(event["key"]["cgroup"].startswith("/") for event in ran.result["raw"])
    assert omn("proc.cgroup", "--cgroup", "/").code == 2
