"""Targets end to end: cgroups of either version, containers, several processes; each beside a program that counts."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.workloads import spin

Start = Callable[[Workload], Running]
MakeCgroup = Callable[[str], Path]


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Make the runtime that omn asks: it knows one container, `web`, by an id and a process."""
    path = tmp_path / "stand-in"
    monkeypatch.setenv("OMN_CONTAINER_RUNTIME", str(path))

    def know(identifier: str, pid: int) -> None:
        answer = json.dumps([{"Id": identifier, "State": {"Pid": pid, "Running": pid > 0, "Status": "exited"}}])
        path.write_text(
            f"#!{sys.executable}\nimport sys\n"
            "if sys.argv[-1] != 'web':\n    sys.exit('Error: No such container: ' + sys.argv[-1])\n"
            "import time\nwhile time.process_time() < 0.06:\n    pass\n"
            f"print({answer!r})\n"
        )
        path.chmod(0o755)

    return know


SPIN_TWICE = """
import os, sys, time
def run():
    end = time.thread_time() + 0.15
    while time.thread_time() < end:
        pass
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
before = int(open("/proc/self/schedstat").read().split()[0])
run()
print(int(open("/proc/self/schedstat").read().split()[0]) - before, file=sys.stderr)
"""


@pytest.mark.spec("REQ-11", "REQ-17", "CST-5")
def test_a_container_is_measured_as_the_cgroup_its_runtime_names(
    omn: Any, make_cgroup: MakeCgroup, runtime: Callable[[str, int], None], workload: Start
) -> None:
    """The program's own count of its cpu is the container's, and the runtime's cpu is nobody's but said."""
    folder = make_cgroup("cpuacct")
    inside = workload(spin(1))
    inside.wait("ready")
    (folder / "cgroup.procs").write_text(str(inside.pid))
    runtime(folder.name, inside.pid)
    ran = omn(
        *("cpu.util", "-e", "raw", "--container", "web", "--interval", "50ms", "--format", "json", "--"),
        *(sys.executable, "-c", SPIN_TWICE, str(folder)),
    )
    assert ran.code == 0, ran.stderr
    target = ran.result["request"]["target"]
    assert (target["cgroup"], target["container"]) == (f"/{folder.name}", "web")
    assert target["runtime"] == os.environ["OMN_CONTAINER_RUNTIME"]
    assert target["runtime_cpu_ns"] > 40_000_000
    assert any(fact.startswith(f"container web is cgroup /{folder.name}, says ") for fact in ran.result["facts"])
    counted = int(ran.stderr.splitlines()[-1])
    measured = sum(row["attrs"]["oncpu_ns"] for row in ran.result["raw"])
    # The interpreter's end, after its own count, is in the cgroup too; the runtime's cpu is not.
    assert counted <= measured < counted + 40_000_000


@pytest.mark.spec("REQ-17")
def test_the_session_keeps_the_container_and_the_resolved_request_its_cgroup(
    omn: Any, make_cgroup: MakeCgroup, runtime: Callable[[str, int], None], workload: Start, tmp_path: Path
) -> None:
    """Run later, the session asks the runtime again; the record says which cgroup it was."""
    folder = make_cgroup("memory")
    inside = workload(spin(1))
    inside.wait("ready")
    (folder / "cgroup.procs").write_text(str(inside.pid))
    runtime(folder.name, inside.pid)
    asked = ("mem.cgroup", "--container", "web", "-m", "snapshot", "-e", "summary", "--backend")
    dumped = omn(*asked, "force:fs:cgroup1:memory", "--dump-session", "--format", "json")
    assert dumped.code == 0, dumped.stderr
    assert dumped.document["requests"][0]["target"] == {"container": "web"}
    resolved = omn(*asked, "force:fs:cgroup1:memory", "--dump-resolved", "--format", "json").document["requests"][0]
    assert resolved["request"]["target"] == {"cgroup": f"/{folder.name}"}
    assert resolved["found"]["container"] == "web"
    session = tmp_path / "session.json"
    session.write_bytes(dumped.stdout)
    ran = omn("-f", str(session), "--format", "json")
    assert ran.code == 0, ran.stderr
    assert ran.result["request"]["target"]["cgroup"] == f"/{folder.name}"


@pytest.mark.spec("REQ-17", "REQ-9")
def test_a_container_that_no_runtime_knows_or_that_stands_still_is_the_machines(
    omn: Any, runtime: Callable[[str, int], None]
) -> None:
    """Exit 1, with a sentence for each; a session names every request that it stands in the way of."""
    runtime("5f3c", 0)
    for name, sentence in (("other", "knows none of that name"), ("web", "is not running: ")):
        ran = omn("cpu.util", "--container", name, "-d", "100ms")
        assert ran.code == 1
        assert sentence in ran.stderr
        assert ran.stderr.endswith("omn: this machine refused the request; nothing ran\n")
    session = b"""
duration: 100ms
requests:
  - {source: cpu.util, target: {container: other}}
  - {source: mem.cgroup, target: {container: web}}
"""
    both = omn("-f", "-", stdin=session)
    assert both.code == 1
    assert "cpu.util: no runtime here tells of a container 'other'" in both.stderr
    assert "mem.cgroup: container 'web' is not running" in both.stderr


@pytest.mark.spec("REQ-11")
def test_a_docker_without_its_daemon_is_refused_in_its_own_words(omn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is installed and cannot answer is named; that is not a container that is not there."""
    monkeypatch.delenv("OMN_CONTAINER_RUNTIME", raising=False)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    installed = [name for name in ("docker", "podman", "nerdctl") if shutil.which(name) is not None]
    if installed != ["docker"]:
        pytest.skip(f"the container runtimes here are {', '.join(installed) or 'none'}, not docker alone")
    ran = omn("cpu.util", "--container", "web", "-d", "100ms")
    assert ran.code == 1
    assert "docker could not answer (exit 1): " in ran.stderr


@pytest.mark.spec("REQ-11")
def test_from_inside_a_cgroup_namespace_a_container_is_refused(omn: Any, runtime: Callable[[str, int], None]) -> None:
    """Whatever its runtime would answer, the paths that are shown in here are not the machine's."""
    runtime("5f3c", 1)
    argv = ["unshare", "--cgroup", "--", *omn.argv, "cpu.util", "--container", "web", "-d", "100ms"]
    try:
        done = subprocess.run(argv, env=omn.environment(), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("unshare: not installed here")
    if done.stderr.startswith("unshare: "):
        pytest.skip(f"no cgroup namespace can be made here: {done.stderr.strip()}")
    assert done.returncode == 1
    assert "omn is inside a cgroup namespace" in done.stderr


@pytest.mark.spec("REQ-11")
def test_the_version_is_chosen_for_each_controller_and_each_cgroup(omn: Any, make_cgroup: MakeCgroup) -> None:
    """On one machine a cgroup of cgroup2 is read there and one of a v1 controller where it stands, unpinned."""
    made = {"fs:cgroup1:cpuacct": make_cgroup("cpuacct"), "fs:cgroup2:cpu.stat": make_cgroup("unified")}
    for backend, folder in made.items():
        for spelling in (str(folder), f"/{folder.name}", folder.name):
            ran = omn("cpu.util", "--cgroup", spelling, "--interval", "20ms", "-d", "60ms", "--format", "json")
            assert ran.code == 0, ran.stderr
            result = ran.result
            assert result["backend"] == backend
            assert result["request"]["target"]["cgroup"] == f"/{folder.name}"
            # An empty cgroup ran nothing, and that is a measurement.
            assert result["series"][0]["emits"]["summary"]["max"] == 0
    ran = omn("cpu.util", "--cgroup", str(made["fs:cgroup1:cpuacct"]), "-d", "20ms", "--format", "json")
    passed_over = {link["backend"]: link for link in ran.result["chain"]}
    assert passed_over["fs:cgroup2:cpu.stat"]["state"] == "missing"
    assert "stands in cpuacct alone" in passed_over["fs:cgroup2:cpu.stat"]["reason"]


@pytest.mark.spec("REQ-11")
@pytest.mark.parametrize(
    ("spelling", "code", "sentence"),
    [
        ("/omn-no-such", 1, "no cgroup hierarchy here has '/omn-no-such'"),
        ("/a/../b", 2, "steps back with '..'"),
        ("/etc", 1, "no cgroup hierarchy here has '/etc'"),
    ],
)
def test_a_cgroup_that_is_not_there_is_refused_before_anything_is_chosen(
    omn: Any, spelling: str, code: int, sentence: str
) -> None:
    """By every way that asks the machine; one that no machine has is the request's to mend."""
    for more in ((), ("--dump-resolved",)):
        ran = omn("cpu.util", "--cgroup", spelling, "-d", "50ms", *more)
        assert ran.code == code
        assert sentence in ran.stderr
    assert omn("cpu.util", "--cgroup", spelling, "-d", "50ms", "--dump-session", "--no-resolve").code == 0


def test_a_cgroup_that_is_removed_ends_its_request(omn: Any, make_cgroup: MakeCgroup) -> None:
    """The run waits for nothing more, what was read before stands, and the result says why it stopped."""
    inner = make_cgroup("cpuacct") / "inner"
    inner.mkdir()
    argv = [*omn.argv, "cpu.util", "--cgroup", str(inner), "-d", "60s", "--interval", "10ms", "--format", "json"]
    with subprocess.Popen(argv, env=omn.environment(), stdout=subprocess.PIPE) as running:
        wait_until_open(running.pid, f"{inner}/cpuacct.usage")
        inner.rmdir()
        output, _ = running.communicate(timeout=50)
    assert running.returncode == 0
    (result,) = json.loads(output)["results"]
    assert result["stopped_because"] == "its target ended"
    assert result["losses"]["failed_reads"] == 0


def wait_until_open(pid: int, path: str) -> None:
    """Wait until a process has a file open."""
    deadline = time.monotonic() + 30
    while path not in list_open(pid):
        assert time.monotonic() < deadline, f"{path} was never opened"
        time.sleep(0.01)


def list_open(pid: int) -> list[str]:
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(link.readlink()))
    return found


def list_process_requests(omn: Any, catalog: Catalog, registry: Registry, pids: Sequence[int]) -> list[dict[str, Any]]:
    """Return a request on every mechanism that reads files of processes here, the rows of each listed."""
    listing = omn("list", "--format", "json").document["sources"]
    states = {(one["id"], backend["id"]): backend["state"] for one in listing for backend in one["backends"]}
    requests = []
    for (source, identifier), row in registry.collectors.items():
        entry = catalog.entries[source]
        backend = entry.backend(identifier)
        # What a graphics driver says of a process (fdinfo) is there for those that use a device alone.
        reads_files = identifier.startswith(("fs:proc:", "clock:")) and not identifier.endswith("fdinfo")
        if backend is None or not reads_files or "pid" not in entry.targets_of(backend):
            continue
        assert row.several_processes or entry.family == "redis", (source, identifier)
        modes = [mode for mode in entry.modes_of(backend) if "raw" in entry.emits_of(backend, mode)]
        if states[source, identifier] == "available" and modes:
            asked = {"source": source, "backend": identifier, "mode": modes[0], "emits": ["raw"]}
            more = {"interval": "50ms"} if modes[0] == "poll" else {}
            # A key of processes divides what would be one figure of the whole target.
            keys = [key for key in ("proc", "task") if key in entry.keys_of(backend)][:1]
            requests.append({**asked, **more, "keys": keys, "target": {"pid": list(pids)}})
    return requests


@pytest.mark.spec("REQ-10")
def test_every_source_of_processes_follows_several_and_outlives_the_first(
    omn: Any, catalog: Catalog, registry: Registry, workload: Start
) -> None:
    """One session asks all of them about two processes; one ends in mid-run: its rows end, the other's go on."""
    first, second = workload(spin(50_000_000)), workload(spin(50_000_000))
    for program in (first, second):
        program.wait("ready")
        program.release()
        program.wait("spun")
    pids = (first.pid, second.pid)
    both = {f"pid {pid}" for pid in pids}
    requests = list_process_requests(omn, catalog, registry, pids)
    assert {"cpu.util", "mem.rss", "mem.maps", "mem.numa", "io.process", "proc.fd"} <= {
        one["source"] for one in requests
    }
    session: dict[str, Any] = {"duration": "400ms", "requests": requests}
    whole = omn("-f", "-", "--input-format", "json", "--format", "json", stdin=json.dumps(session).encode())
    assert whole.code == 0, whole.stderr
    for result in whole.document["results"]:
        assert list_pids(result) == both, result["request"]["source"]
    requests = [one for one in requests if one["mode"] == "poll"]
    session = {"launch": ["sh", "-c", f"sleep 0.2; kill -9 {first.pid}; sleep 1"], "requests": requests}
    cut = omn("-f", "-", "--input-format", "json", "--format", "json", stdin=json.dumps(session).encode())
    assert cut.code == 0, cut.stderr
    for result in cut.document["results"]:
        last_ns = max(row["ts_ns"] for row in result["raw"])
        last = [name_pid(row) for row in result["raw"] if row["ts_ns"] == last_ns]
        # A zombie's counters are read once more after its end; the closing read is long after that.
        assert set(last) - {None} == {f"pid {second.pid}"}, result["request"]


def name_pid(row: dict[str, Any]) -> str | None:
    pid = row["attrs"].get("pid")
    return None if pid is None else f"pid {pid}"


def list_pids(result: dict[str, Any]) -> set[str]:
    return {name for name in map(name_pid, result["raw"]) if name is not None}


SEND = """
import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("127.0.0.1", 0))  # a closed port would be answered
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    for _ in range(1000):
        sender.sendto(b"x" * 100, receiver.getsockname())
"""


@pytest.fixture
def elsewhere() -> Iterator[int]:
    """A process in a network namespace of its own, in which lo is up and nothing else is."""
    missing = [tool for tool in ("unshare", "nsenter", "ip") if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(
            f"{', '.join(missing)}: not installed here" if missing else "only root can make a network namespace"
        )
    program = "ip link set lo up && echo inside && exec cat"
    with subprocess.Popen(
        ["unshare", "--net", "--", "sh", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        if child.stdout.readline() != b"inside\n":
            pytest.skip("no network namespace can be made here")
        yield child.pid
        child.stdin.close()


@pytest.mark.spec("REQ-1", "NET-1")
def test_an_interface_of_another_namespace_is_that_ones_alone(omn: Any, elsewhere: int) -> None:
    """A thousand datagrams of 100 bytes over the other namespace's lo, exact to their headers; omn stays outside."""
    inode = os.stat(f"/proc/{elsewhere}/ns/net").st_ino
    asked = ("net.bytes", "-m", "count", "-e", "count", "--keys", "iface,dir", "--format", "json")
    program = ("nsenter", f"--net=/proc/{elsewhere}/ns/net", sys.executable, "-c", SEND)
    ran = omn(*asked, "--iface", f"pid:{elsewhere}/lo", "--", *program)
    assert ran.code == 0, ran.stderr
    moved = {(one["key"]["iface"], one["key"]["dir"]): one["emits"]["count"]["value"] for one in ran.result["series"]}
    assert moved == {(f"{inode}:1", way): 1000 * (100 + 28) for way in ("rx", "tx")}
    target = ran.result["request"]["target"]
    assert (target["netns_inode"], target["netns"], target["index"]) == (inode, f"pid:{elsewhere}", 1)
