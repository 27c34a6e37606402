"""Where a cgroup stands: v1, v2, both, inside a namespace."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from omn_kernel.cgroup import (
    CgroupPlace,
    bind_cgroup_path,
    find_below_mount,
    find_hierarchies,
    is_in_cgroup_namespace,
    parse_cgroup,
    read_own_unified_folder,
)
from omn_kernel.cgroup_accounts import Throttling, compute_throttling, parse_limit
from omn_kernel.mounts import Mount, find_tracefs, parse_mountinfo
from omn_kernel.targets import bind_cgroup, bind_cpu

from omn_core.api import BoundTarget, MachineRefused, ProbeContext, RequestError, Target
from omn_core.testing.sysroot import Sysroot

HYBRID = """22 27 0:21 / /proc rw,relatime - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
"""

UNIFIED = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"


@pytest.fixture
def hybrid(sysroot: Sysroot) -> Sysroot:
    """A machine with v1 memory and cpu, and cgroup2 without either; /job is on all, /only on cgroup2."""
    sysroot.write("/proc/self/mountinfo", HYBRID).write("/proc/self/cgroup", "4:memory:/\n0::/\n")
    sysroot.link("/proc/self/ns/cgroup", "cgroup:[4026531835]")
    for folder in ("cpu,cpuacct", "cpu,cpuacct/job", "memory", "memory/job", "memory/job/inner"):
        sysroot.write(f"/sys/fs/cgroup/{folder}/cgroup.procs", "")
    for folder in ("unified", "unified/job", "unified/only"):
        sysroot.write(f"/sys/fs/cgroup/{folder}/cgroup.controllers", "hugetlb\n")
    return sysroot


def bind(sysroot: Sysroot, path: str) -> CgroupPlace:
    return bind_cgroup_path(path, str(sysroot))


def test_mountinfo_unescapes_paths_and_skips_optional_fields() -> None:
    """Optional fields may be none or many; a space in a path is an octal escape."""
    first, second = parse_mountinfo(
        b"1 0 0:2 / /a\\040b rw shared:1 master:2 - ext4 /dev/x rw,discard\n2 0 0:3 /s / rw - proc proc rw\n"
    )
    assert (first.point, first.kind, first.options) == ("/a b", "ext4", ("rw", "discard"))
    assert (second.root, second.point) == ("/s", "/")


def test_tracefs_is_found_and_never_mounted() -> None:
    """Itself, under debugfs, or not at all."""
    assert find_tracefs("/") is None or Path(find_tracefs("/") or "").is_dir()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("1 0 0:2 / /sys/kernel/tracing rw - tracefs tracefs rw\n", "/sys/kernel/tracing"),
        ("1 0 0:2 / /sys/kernel/debug rw - debugfs debugfs rw\n", "/sys/kernel/debug/tracing"),
        ("1 0 0:2 / /proc rw - proc proc rw\n", None),
    ],
)
def test_tracefs_stands_where_it_is_mounted(sysroot: Sysroot, line: str, found: str | None) -> None:
    """The mount table says where."""
    sysroot.write("/proc/self/mountinfo", line)
    assert find_tracefs(str(sysroot)) == found


def test_cgroup_membership_is_by_controller() -> None:
    """Each controller of a shared hierarchy, the named one, and cgroup2; a path may hold colons."""
    paths = parse_cgroup(b"5:cpu,cpuacct:/a\n1:name=systemd:/s\n0::/user.slice/x:y\n")
    assert paths == {"cpu": "/a", "cpuacct": "/a", "name=systemd": "/s", "unified": "/user.slice/x:y"}


def test_hierarchies_are_named_by_controller() -> None:
    """Mount options that are no controller make no hierarchy."""
    assert set(find_hierarchies(parse_mountinfo(HYBRID.encode()))) == {"cpu", "cpuacct", "memory", "unified"}


def test_a_relative_path_is_found_on_every_hierarchy_that_has_it(hybrid: Sysroot) -> None:
    """The leading slash is the root of the hierarchies, and may be left out."""
    place = bind(hybrid, "/job")
    assert place == bind(hybrid, "job/")
    assert place.path == "/job"
    assert set(place.legacy) == {"cpu", "cpuacct", "memory"}
    assert place.find_folder("memory") == str(hybrid.path("/sys/fs/cgroup/memory/job"))
    assert place.unified == str(hybrid.path("/sys/fs/cgroup/unified/job"))
    assert place.controllers == {"hugetlb"}


def test_a_path_under_a_mount_is_that_hierarchys_alone(hybrid: Sysroot) -> None:
    """A folder that a person names is the folder they mean."""
    place = bind(hybrid, "/sys/fs/cgroup/memory/job/inner")
    assert (place.path, set(place.legacy), place.unified) == ("/job/inner", {"memory"}, None)
    assert set(bind(hybrid, "/sys/fs/cgroup/cpu,cpuacct/job").legacy) == {"cpu", "cpuacct"}


def test_a_cgroup_on_one_hierarchy_says_so(hybrid: Sysroot) -> None:
    """What is described names the hierarchies that have it."""
    assert bind(hybrid, "/only").describe() == {"cgroup": "/only", "hierarchies": ["unified"]}


def test_the_root_is_a_cgroup(hybrid: Sysroot) -> None:
    """`/` is the root of every hierarchy."""
    place = bind(hybrid, "/")
    assert place.path == "/"
    assert "memory" in place.legacy
    assert place.unified is not None


def test_a_cgroup_that_is_not_there_is_the_machines_refusal(hybrid: Sysroot) -> None:
    """The sentence names the path."""
    with pytest.raises(MachineRefused, match="no cgroup hierarchy here has '/absent'"):
        bind(hybrid, "/absent")


@pytest.mark.spec("REQ-11")
@pytest.mark.parametrize("spelling", ["/sys/fs/cgroup/cpu/job", "/sys/fs/cgroup/cpu//./job/", "/home/mine"])
def test_a_link_to_a_cgroup_is_that_cgroup(hybrid: Sysroot, spelling: str) -> None:
    """Distributions link each controller to the mount it shares; a person may have links of their own."""
    hybrid.link("/sys/fs/cgroup/cpu", "cpu,cpuacct")
    hybrid.link("/home/mine", str(hybrid.path("/sys/fs/cgroup/cpu,cpuacct/job")))
    place = bind(hybrid, spelling)
    assert (place.path, place.hierarchies) == ("/job", ["cpu", "cpuacct"])


def test_a_path_below_the_root_comes_before_a_file_of_that_name(hybrid: Sysroot) -> None:
    """`/job` is the cgroup, whatever else is called so on the machine."""
    hybrid.link("/job", str(hybrid.path("/sys/fs/cgroup/memory/job/inner")))
    assert bind(hybrid, "/job").hierarchies == ["cpu", "cpuacct", "memory", "unified"]


@pytest.mark.parametrize("path", ["/sys/fs/cgroup", "/sys/fs/cgroup/memory/absent", "/etc"])
def test_a_plain_folder_is_no_cgroup(hybrid: Sysroot, path: str) -> None:
    """Neither the tmpfs that v1 stands on nor any other folder is taken for one."""
    with pytest.raises(MachineRefused, match="no cgroup hierarchy here has"):
        bind(hybrid, path)


@pytest.mark.spec("SEC-3")
def test_a_path_cannot_step_out_of_the_hierarchy(hybrid: Sysroot) -> None:
    """`..` is refused on every machine, and not followed."""
    with pytest.raises(RequestError, match="steps back"):
        bind(hybrid, "/job/../../../../etc")


def test_inside_a_cgroup_namespace_what_is_not_visible_is_said_so(hybrid: Sysroot) -> None:
    """There the machine may well have the cgroup: the refusal does not deny it."""
    hybrid.link("/proc/self/ns/cgroup", "cgroup:[4026532500]")
    assert is_in_cgroup_namespace(str(hybrid))
    with pytest.raises(MachineRefused, match="inside a cgroup namespace"):
        bind(hybrid, "/docker/abc")
    assert bind(hybrid, "/job").path == "/job"


def test_a_machine_without_cgroups_says_so(sysroot: Sysroot) -> None:
    """No hierarchy is its own sentence."""
    sysroot.write("/proc/self/mountinfo", "22 27 0:21 / /proc rw - proc proc rw\n")
    with pytest.raises(MachineRefused, match="no cgroup hierarchy is mounted"):
        bind(sysroot, "/job")


def test_the_binder_keeps_the_place(hybrid: Sysroot) -> None:
    """The bound target carries the place and what results say of it."""
    bound = bind_cgroup(Target("cgroup", "/job"), ProbeContext("cgroup", str(hybrid)))
    assert isinstance(bound, BoundTarget)
    assert bound.scope == "cgroup"
    assert isinstance(bound.place, CgroupPlace)
    assert bound.described["cgroup"] == "/job"


def test_own_cgroup_is_found_on_a_unified_machine(sysroot: Sysroot) -> None:
    """The folder is the one this process is in; one that is not visible is the mount's root."""
    sysroot.write("/proc/self/mountinfo", UNIFIED).write("/proc/self/cgroup", "0::/user.slice\n")
    sysroot.write("/sys/fs/cgroup/user.slice/cgroup.controllers", "memory")
    assert read_own_unified_folder(str(sysroot)) == str(sysroot.path("/sys/fs/cgroup/user.slice"))
    sysroot.write("/proc/self/cgroup", "0::/../outside\n")
    assert read_own_unified_folder(str(sysroot)) == str(sysroot.path("/sys/fs/cgroup"))


def test_a_made_cgroup_is_bound(make_cgroup: Callable[[str], Path]) -> None:
    """A cgroup of this machine is found by its folder and by its name."""
    folder = make_cgroup("memory")
    by_folder = bind_cgroup_path(str(folder), "/")
    by_name = bind_cgroup_path(folder.name, "/")
    assert by_folder.find_folder("memory") == by_name.find_folder("memory") == str(folder)


@pytest.mark.parametrize(
    ("content", "limit"),
    [(b"max\n", None), (b"9223372036854771712\n", None), (b"67108864\n", 67108864), (b"9223372036854710272\n", None)],
)
def test_no_limit_is_absent(content: bytes, limit: int | None) -> None:
    """v2 writes a word, v1 the largest count of whole pages: 4 KiB and 64 KiB pages differ."""
    assert parse_limit(content) == limit


def test_throttling_is_nanoseconds_on_both_hierarchies() -> None:
    """v1 counts nanoseconds, v2 microseconds, and a cgroup without the controller has none."""
    assert compute_throttling({b"nr_periods": 9, b"nr_throttled": 3, b"throttled_time": 5}) == Throttling(9, 3, 5)
    assert compute_throttling({b"nr_periods": 9, b"nr_throttled": 3, b"throttled_usec": 5}) == Throttling(9, 3, 5000)
    assert compute_throttling({b"usage_usec": 1}) == Throttling(None, None, None)


@pytest.mark.parametrize(
    ("root", "path", "below"),
    [
        ("/", "/docker/a", "/docker/a"),
        ("/", "/", "/"),
        ("/docker", "/docker/a", "/a"),
        ("/docker", "/docker", "/"),
        ("/docker", "/dockers/a", None),
        ("/", "/../a", None),
    ],
)
def test_a_path_of_a_process_lies_below_what_is_mounted(root: str, path: str, below: str | None) -> None:
    """A mount may show a part of a hierarchy; what is outside of it has no folder here."""
    assert find_below_mount(path, Mount(root, "/sys/fs/cgroup", "cgroup2", ())) == below


@pytest.fixture
def cpus(sysroot: Sysroot) -> Sysroot:
    """Four cpus, the second offline."""
    sysroot.write("/sys/devices/system/cpu/possible", "0-3\n").write("/sys/devices/system/cpu/online", "0,2-3\n")
    return sysroot


def test_cpus_that_are_online_are_bound(cpus: Sysroot) -> None:
    """In the order asked."""
    bound = bind_cpu(Target("cpu", (3, 0)), ProbeContext("cpu", str(cpus)))
    assert (bound.cpus, bound.scope) == ((3, 0), "cpu")


@pytest.mark.parametrize(
    ("asked", "sentence"), [((0, 1), "cpu 1 is offline"), ((0, 4, 9), "this machine has no cpu 4,9")]
)
def test_an_offline_and_an_impossible_cpu_differ(cpus: Sysroot, asked: tuple[int, ...], sentence: str) -> None:
    """One can come back, the other is not there."""
    with pytest.raises(MachineRefused, match=sentence):
        bind_cpu(Target("cpu", asked), ProbeContext("cpu", str(cpus)))


def test_the_first_cpu_of_this_machine_is_bound() -> None:
    """A cpu this process runs on is online."""
    cpu = min(os.sched_getaffinity(0))
    assert bind_cpu(Target("cpu", (cpu,)), ProbeContext("cpu")).cpus == (cpu,)
