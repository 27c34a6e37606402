"""Containers: which process their runtime names, which cgroup that is, and every way of not being told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omn_kernel import container_runtimes
from omn_kernel.cgroup import CgroupPlace
from omn_kernel.container_runtimes import Container, Silence, ask_runtime, get_container, parse_inspection
from omn_kernel.containers import bind_container, find_container_cgroup, find_own_path

from omn_core.api import MachineRefused, ProbeContext, RequestError, Target
from omn_core.testing.sysroot import Sysroot

ID = "5f3c0e6a1b2d4c7e8f90"

MakeRuntime = Callable[..., Path]


def inspect(pid: int, *, identifier: str = ID, running: bool = True, **state: Any) -> str:
    """What `container inspect` prints, as docker, podman and nerdctl do."""
    return json.dumps([{"Id": identifier, "Name": "/web", "State": {"Pid": pid, "Running": running, **state}}])


@pytest.fixture
def make_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeRuntime:
    """Make a program that answers as a runtime does, in a folder that is all of PATH; the variable is unset."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("OMN_CONTAINER_RUNTIME", raising=False)

    def make(name: str, output: str = "[]", *, complaint: str = "", code: int = 0, before: str = "") -> Path:
        path = folder / name
        path.write_text(
            f"#!{sys.executable}\nimport sys, time\n"
            f"assert sys.argv[1:3] == ['container', 'inspect'], sys.argv\n{before}\n"
            f"sys.stdout.write({output!r})\nsys.stderr.write({complaint!r})\nsys.exit({code})\n"
        )
        path.chmod(0o755)
        return path

    return make


UNKNOWN = {
    "docker": {"complaint": "Error response from daemon: No such container: web\n", "code": 1},
    "podman": {"complaint": "Error: inspecting object: no such container web\n", "code": 125},
    "nerdctl": {"complaint": 'time="now" level=fatal msg="1 errors:\\nno such container: web"\n', "code": 1},
}


@pytest.mark.spec("REQ-11")
@pytest.mark.parametrize("runtime", ["docker", "podman", "nerdctl"])
def test_a_runtime_on_path_is_asked(make_runtime: MakeRuntime, runtime: str) -> None:
    """Each of the three, where it alone is installed; the answer names it."""
    make_runtime(runtime, inspect(4711, Status="running"))
    found = get_container("web")
    assert (found.pid, found.identifier, found.runtime, found.others) == (4711, ID, runtime, ())


@pytest.mark.spec("REQ-11")
def test_the_variable_names_the_only_runtime_to_ask(make_runtime: MakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a path or by a name, whatever else is on PATH; one that cannot be executed is refused by the variable."""
    make_runtime("docker", inspect(1))
    own = make_runtime("my-runtime", inspect(2))
    for spelling in (str(own), "my-runtime"):
        monkeypatch.setenv("OMN_CONTAINER_RUNTIME", spelling)
        assert (get_container("web").pid, get_container("web").runtime) == (2, spelling)
    monkeypatch.setenv("OMN_CONTAINER_RUNTIME", "/no/such/runtime")
    with pytest.raises(MachineRefused, match="OMN_CONTAINER_RUNTIME is '/no/such/runtime', and no such program"):
        get_container("web")


@pytest.mark.spec("REQ-17")
def test_a_container_that_nobody_knows_names_everyone_asked(make_runtime: MakeRuntime) -> None:
    """Each runtime's own words for it are understood."""
    for runtime, said in UNKNOWN.items():
        make_runtime(runtime, **said)
    with pytest.raises(MachineRefused) as caught:
        get_container("web")
    for runtime in UNKNOWN:
        assert f"{runtime} knows none of that name" in caught.value.reason
    assert caught.value.remedy == "'docker ps' shows those that run"


def test_without_any_runtime_the_refusal_says_so(make_runtime: MakeRuntime) -> None:
    """And what would serve."""
    with pytest.raises(MachineRefused, match="no container runtime is installed here: none of docker, podman, nerdctl"):
        get_container("web")


def test_a_daemon_that_is_down_is_no_container_that_is_not_there(make_runtime: MakeRuntime) -> None:
    """The runtime's own first line is the reason, and beside a runtime that knows the container it is a fact."""
    down = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
    make_runtime("docker", complaint=f"{down}\n", code=1)
    with pytest.raises(MachineRefused, match=f"could not answer \\(exit 1\\): {re.escape(down)}") as caught:
        get_container("web")
    assert caught.value.remedy is None
    make_runtime("podman", inspect(7))
    assert get_container("web").others == (f"docker could not answer (exit 1): {down}",)


def test_a_runtime_that_hangs_is_ended_and_named(make_runtime: MakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it started: the pipe that those hold open does not hang omn either."""
    monkeypatch.setattr(container_runtimes, "PATIENCE_S", 0.5)
    script = "import os, subprocess\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    make_runtime("docker", before=f"{script}time.sleep(60)")
    with pytest.raises(MachineRefused, match=r"docker did not answer within 0.5 s"):
        get_container("web")


@pytest.mark.parametrize(
    "output",
    [
        "",
        "no json",
        "[]",
        "{}",
        '["web"]',
        '[{"Id": "a", "State": {}}]',
        '[{"Id": "", "State": {"Pid": 1, "Running": true}}]',
        '[{"Id": "a", "State": {"Pid": "1", "Running": true}}]',
        '[{"Id": "a", "State": {"Pid": true, "Running": true}}]',
        '[{"Id": "a", "State": {"Pid": 1}}]',
    ],
)
def test_an_answer_that_describes_no_container_is_said(make_runtime: MakeRuntime, output: str) -> None:
    """Whatever a program prints that ends well, it is no container before it is one."""
    make_runtime("podman", output)
    answer = ask_runtime("podman", "web")
    assert isinstance(answer, Silence)
    assert answer.reason.startswith("answered with something that describes no container")


@pytest.mark.parametrize(
    ("state", "is_running"),
    [
        ({"pid": 5}, True),
        ({"pid": 5, "running": False, "Paused": True, "Status": "paused"}, True),
        ({"pid": 0, "running": False, "Status": "exited"}, False),
        ({"pid": 5, "running": False, "Status": "exited"}, False),
        ({"pid": 0, "running": True, "Restarting": True}, False),
    ],
)
def test_running_is_having_a_process(state: dict[str, Any], is_running: bool) -> None:
    """A paused one has it; nerdctl names the last process of one that has stopped."""
    assert parse_inspection(inspect(**state).encode(), "web", "docker").is_running is is_running


@pytest.mark.spec("REQ-17")
def test_a_container_that_does_not_run_has_its_own_sentence(make_runtime: MakeRuntime) -> None:
    """With the runtime's word for its state."""
    make_runtime("docker", inspect(0, running=False, Status="exited"))
    with pytest.raises(MachineRefused, match="container 'web' is not running: docker says that it is exited"):
        get_container("web")


def test_a_name_that_two_runtimes_know_is_refused(make_runtime: MakeRuntime) -> None:
    """It is two containers, unless both name the same process."""
    make_runtime("docker", inspect(5))
    make_runtime("podman", inspect(5))
    assert get_container("web").runtime == "docker"
    make_runtime("podman", inspect(6, identifier="77aa"))
    with pytest.raises(MachineRefused, match=f"docker \\({ID[:12]}\\) and podman \\(77aa\\); say which"):
        get_container("web")


@pytest.mark.spec("SEC-3")
@pytest.mark.parametrize("name", ["--help", "", "a b", "../web", "a\nb", "-f"])
def test_a_name_can_be_no_option_of_the_runtimes(make_runtime: MakeRuntime, name: str) -> None:
    """What no runtime allows as a name is never handed to one."""
    make_runtime("docker", before="raise SystemExit('asked')")
    with pytest.raises(RequestError, match="can be no container's name"):
        get_container(name)


@pytest.mark.parametrize(
    ("path", "own"),
    [
        (f"/docker/{ID}", f"/docker/{ID}"),
        (f"/system.slice/docker-{ID}.scope/init.scope", f"/system.slice/docker-{ID}.scope"),
        (f"/machine.slice/libpod-{ID}.scope/container", f"/machine.slice/libpod-{ID}.scope"),
        (f"/default/{ID}/a/b", f"/default/{ID}"),
        ("/system.slice/containerd.service", None),
        ("/", None),
        (f"/docker/{ID}0", None),
    ],
)
def test_the_containers_own_part_of_a_path_is_named_after_its_id(path: str, own: str | None) -> None:
    """What runs inside may have made cgroups below it, and a shared one is nobody's own."""
    assert find_own_path(path, ID) == own


HYBRID = """31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
36 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""


def make_machine(sysroot: Sysroot, membership: str, *folders: str) -> Container:
    """Lay out a hybrid machine on which process 4711 is in some cgroups, and return its container."""
    sysroot.write("/proc/self/mountinfo", HYBRID).link("/proc/self/ns/cgroup", "cgroup:[4026531835]")
    sysroot.write("/proc/4711/cgroup", membership)
    for folder in folders:
        mark = "cgroup.controllers" if folder.startswith("unified") else "cgroup.procs"
        sysroot.write(f"/sys/fs/cgroup/{folder}/{mark}", "")
    return Container("web", ID, 4711, True, "running", "docker")


@pytest.mark.spec("REQ-11")
def test_a_containers_cgroup_is_found_in_each_hierarchy_that_gives_it_one(sysroot: Sysroot) -> None:
    """On a hybrid machine cgroup2 may hold the runtime's own service there: that is not the container."""
    membership = f"2:memory:/docker/{ID}/inner\n1:cpu:/docker/{ID}\n0::/system.slice/docker.service\n"
    folders = (f"memory/docker/{ID}", f"memory/docker/{ID}/inner", f"cpu/docker/{ID}")
    container = make_machine(sysroot, membership, *folders, "unified/system.slice/docker.service")
    found = find_container_cgroup(container, str(sysroot)).place
    assert found.path == f"/docker/{ID}"
    assert found.hierarchies == ["cpu", "memory"]
    assert found.find_folder("memory") == str(sysroot.path(f"/sys/fs/cgroup/memory/docker/{ID}"))


@pytest.mark.spec("REQ-11")
def test_each_hierarchy_keeps_its_own_path(sysroot: Sysroot) -> None:
    """The paths of one container may differ; the one that is shown is that of most."""
    scope = f"system.slice/docker-{ID}.scope"
    membership = f"2:memory:/docker/{ID}\n1:cpu:/docker/{ID}\n0::/{scope}\n"
    container = make_machine(sysroot, membership, f"memory/docker/{ID}", f"cpu/docker/{ID}", f"unified/{scope}")
    found = find_container_cgroup(container, str(sysroot)).place
    assert found.path == f"/docker/{ID}"
    assert found.unified == str(sysroot.path(f"/sys/fs/cgroup/unified/{scope}"))


@pytest.mark.parametrize(
    ("membership", "sentence"),
    [
        ("1:cpu:/\n0::/user.slice\n", "is in no cgroup that is the container's own"),
        (f"1:cpu:/docker/{ID}\n", f"the cgroup of container 'web', /docker/{ID}, is in no hierarchy mounted here"),
    ],
)
def test_a_process_outside_of_the_containers_cgroup_is_refused(
    sysroot: Sysroot, membership: str, sentence: str
) -> None:
    """A container without a cgroup, or a number that is another process's here."""
    with pytest.raises(MachineRefused, match=sentence):
        find_container_cgroup(make_machine(sysroot, membership), str(sysroot))


def test_a_process_of_another_machine_is_refused(sysroot: Sysroot) -> None:
    """A runtime may serve a virtual machine, or another host."""
    container = make_machine(sysroot, "")
    sysroot.remove("/proc/4711")
    with pytest.raises(MachineRefused, match=r"process 4711, which docker names .* is not on this machine"):
        find_container_cgroup(container, str(sysroot))


@pytest.mark.spec("REQ-11")
def test_inside_a_cgroup_namespace_a_container_is_refused_with_the_reason(sysroot: Sysroot) -> None:
    """There the kernel shows paths that are not the machine's, and no runtime is asked."""
    make_machine(sysroot, f"1:cpu:/../{ID}\n")
    sysroot.link("/proc/self/ns/cgroup", "cgroup:[4026532999]")
    with pytest.raises(MachineRefused, match="omn is inside a cgroup namespace"):
        bind_container(Target("container", "web"), ProbeContext("container", str(sysroot)))


@pytest.mark.spec("REQ-17")
def test_a_process_of_this_machine_is_bound_to_its_cgroup(
    make_cgroup: Callable[[str], Path], make_runtime: MakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target is the cgroup, what results say names the container and who told of it, and what asking took."""
    folder = make_cgroup("memory")
    inner = folder / "inner"
    inner.mkdir()
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=environment, executable="/bin/cat") as child:
        (inner / "cgroup.procs").write_text(str(child.pid))
        make_runtime("docker", inspect(child.pid, identifier=folder.name))
        bound = bind_container(Target("container", "web"), ProbeContext("container"))
        (folder / "cgroup.procs").write_text(str(child.pid))
        child.communicate()
    inner.rmdir()
    assert bound.target == Target("cgroup", f"/{folder.name}")
    assert isinstance(bound.place, CgroupPlace)
    assert bound.place.find_folder("memory") == str(folder)
    assert (bound.described["container"], bound.described["runtime"]) == ("web", "docker")
    assert bound.facts[0].startswith(f"container web is cgroup /{folder.name}, says docker; asking took ")
    assert isinstance(bound.described["runtime_cpu_ns"], int)
    assert bound.described["runtime_cpu_ns"] > 0
