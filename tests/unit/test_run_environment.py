"""The record of the machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from omn_core.run import linux_machine as machine
from omn_core.run.environment import read_environment


def _tree(root: Path, **files: str) -> str:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


@pytest.mark.spec("RES-6")
def test_the_record_names_what_explains_a_difference() -> None:
    """Kernel, privileges, virtualization, THP mode and clocks are in the record, as plain values of this machine."""
    record = read_environment()
    assert record["kernel"] == os.uname().release
    assert record["kernel_version"] == os.uname().version
    assert record["arch"] == os.uname().machine
    assert record["cpus"]["possible"] >= record["cpus"]["online"] >= 1
    assert record["privileges"]["euid"] == os.geteuid()
    assert {"virtualization", "container", "clocksource", "transparent_hugepages", "perf_event_paranoid"} <= set(record)
    assert record["clock_resolution_ns"] > 0
    assert record["page_size"] == os.sysconf("SC_PAGE_SIZE")
    assert record["boot_id"] is None or len(record["boot_id"]) == 36
    assert record["sysroot"] is None
    json.dumps(record)


@pytest.mark.spec("RES-6")
def test_what_cannot_be_read_is_none_and_not_a_guess(tmp_path: Path) -> None:
    """On a tree that holds nothing, everything that comes from /proc and /sys is unknown."""
    record = read_environment(str(tmp_path))
    unknown = ("virtualization", "container", "clocksource", "transparent_hugepages", "perf_event_paranoid", "boot_id")
    assert [record[name] for name in unknown] == [None] * len(unknown)
    assert record["cpus"] == {"possible": None, "online": None, "online_list": None}
    privileges = record["privileges"]
    assert [privileges[name] for name in ("capabilities", "no_new_privs", "user_namespace", "seccomp")] == [None] * 4
    assert record["sysroot"] == str(tmp_path)


def test_offline_cpus_are_possible_and_not_online(tmp_path: Path) -> None:
    """Holes and ranges are counted as the kernel spells them."""
    root = _tree(tmp_path, sys__devices__system__cpu__possible="0-7\n", sys__devices__system__cpu__online="0-2,5,7\n")
    assert read_environment(root)["cpus"] == {"possible": 8, "online": 5, "online_list": "0-2,5,7"}


def test_privileges_are_read_from_status(tmp_path: Path) -> None:
    """Capabilities by name, one newer than the list by number; a mapped id range is a user namespace."""
    status = "Name:\tx\nCapEff:\t000002c000000400\nNoNewPrivs:\t1\nSeccomp:\t2\n"
    root = _tree(tmp_path, proc__self__status=status, proc__self__uid_map="         0       1000          1\n")
    privileges = machine.read_privileges(root)
    assert privileges["capabilities"] == ["net_bind_service", "perfmon", "bpf", "cap_41"]
    assert privileges["no_new_privs"] is True
    assert privileges["user_namespace"] is True
    assert privileges["seccomp"] == "filter"


@pytest.mark.parametrize(
    ("files", "hypervisor"),
    [
        ({"proc__cpuinfo": "flags\t\t: fpu vme\n"}, "none"),
        ({"proc__cpuinfo": "flags\t\t: fpu hypervisor\n"}, "unnamed"),
        ({"proc__cpuinfo": "flags\t: hypervisor\n", "sys__class__dmi__id__sys_vendor": "QEMU\n"}, "qemu"),
        ({"proc__cpuinfo": "Features: fp\n", "proc__device-tree__hypervisor__compatible": "linux,kvm\0"}, "kvm"),
        ({"sys__hypervisor__type": "xen\n"}, "xen"),
        ({"proc__cpuinfo": "Features: fp\n"}, None),
    ],
)
def test_the_hypervisor_is_told_where_something_tells(
    tmp_path: Path, files: dict[str, str], hypervisor: str | None
) -> None:
    """The cpu's flag, the firmware's vendor, the device tree, or nothing at all."""
    assert machine.find_hypervisor(_tree(tmp_path, **files)) == hypervisor


@pytest.mark.parametrize(
    ("files", "container"),
    [
        ({".dockerenv": ""}, "docker"),
        ({"run__.containerenv": ""}, "podman"),
        ({"proc__1__environ": "PATH=/bin\0container=lxc\0"}, "lxc"),
        ({"proc__1__cgroup": "0::/kubepods/pod1/abc\n"}, "kubepods"),
        ({"proc__1__cgroup": "0::/init.scope\n"}, None),
    ],
)
def test_a_container_is_told_by_its_hints(tmp_path: Path, files: dict[str, str], container: str | None) -> None:
    """Each of the places a container runtime leaves its name."""
    assert machine.find_container(_tree(tmp_path, **files)) == container


def test_a_setting_without_brackets_is_unknown() -> None:
    """Only the word in brackets is the choice."""
    assert machine.parse_chosen("always [madvise] never") == "madvise"
    assert machine.parse_chosen("always") is None
