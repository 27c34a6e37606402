"""Fill the cells of this guest, one after the other: the second program that a guest runs, as root.

A cell is the machine in one configuration, asked whole, or the tests in `guest`. Each leaves one line of JSON on the
second serial port as soon as it is filled, so that a guest that ends early leaves what it had.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

_CGROUPS = Path("/sys/fs/cgroup")
_CONTROLLERS = ("cpu", "io", "memory", "pids")
_GROUP = _CGROUPS / "portability"
_NOBODY = 65534
_POORER = ("no-btf", "no-tracefs", "no-controllers")
"""What lacks something that a mechanism is chosen by: where the same one is chosen as before, it does the same."""

_LOCKED_BYTES = 64 << 10
_FIRST = Path("/tmp/root.json")
"""What the machine answered as it is, for the configurations that come after."""

_LIMIT_S = 600
_NODES = "/portability/guest/test_guest_nodes.py"
_TESTS = {"guest": ("/portability/guest", f"--ignore={_NODES}"), "nodes": (_NODES,)}
"""What pytest runs in the cells that tests fill. One of them asks for a machine of two memory nodes."""


def main() -> None:
    """Fill the cells that the kernel's command line names."""
    words = dict(word.partition("=")[::2] for word in Path("/proc/cmdline").read_text().split())
    # Before Linux 5.11 eBPF's maps are charged to this limit; what the usual one refuses has a cell of its own.
    _limit_locked_memory(resource.RLIM_INFINITY)
    _load_modules()
    _slow_clocks()
    _make_disk()
    _GROUP.mkdir()
    _switch_controllers("+")
    (_GROUP / "cgroup.procs").write_text("0")
    with open("/dev/ttyS1", "w") as report:
        for cell in words["portability.cells"].split(","):
            filled = run_tests(_TESTS[cell]) if cell in _TESTS else _ask(cell)
            report.write(json.dumps({"cell": cell, **filled}) + "\n")
            report.flush()
        report.write(json.dumps({"cell": "done", "release": Path("/proc/sys/kernel/osrelease").read_text().strip()}))
        report.write("\n")


def _limit_locked_memory(size_bytes: int) -> None:
    """Set what this process and those it starts may lock in memory; root may raise it again."""
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (size_bytes, size_bytes))


def _load_modules() -> None:
    """Load the modules that came with this kernel, in the order in which they need each other."""
    for name in ("inet_diag", "tcp_diag", "udp_diag", "cpufreq_userspace", "acpi-cpufreq"):
        subprocess.run(["insmod", f"/modules/{name}.ko"], check=True)


def _slow_clocks() -> None:
    """Have every cpu's clock changed by nobody but who writes to it, and begin with a slow one."""
    for policy in Path("/sys/devices/system/cpu/cpufreq").glob("policy*"):
        (policy / "scaling_governor").write_text("userspace")
        (policy / "scaling_setspeed").write_text("800000")


def _make_disk() -> None:
    """Put a file system on the guest's disk, so that reads and writes reach a block device."""
    subprocess.run(["mke2fs", "-q", "/dev/nvme0n1"], check=True)
    subprocess.run(["mount", "-t", "ext4", "/dev/nvme0n1", "/disk"], check=True)
    Path("/disk").chmod(0o1777)


def _switch_controllers(sign: str) -> None:
    (_CGROUPS / "cgroup.subtree_control").write_text(" ".join(f"{sign}{one}" for one in _CONTROLLERS))


def _ask(cell: str) -> dict[str, Any]:
    """Ask everything of the machine in one configuration, as root or as the user that the configuration names."""
    number = _NOBODY if cell == "user" else 0
    cache = _keep_cache(number)
    known = [str(_FIRST)] if cell in _POORER and _FIRST.exists() else []
    with CONFIGURATIONS[cell]():
        filled = _run(
            [sys.executable, "/portability/inside/asking.py", *known],
            user=number,
            group=number,
            extra_groups=[],
            env={**os.environ, "OMN_CACHE_DIR": str(cache)},
        )
    if cell == "root" and "answers" in filled:
        _FIRST.write_text(json.dumps(filled))
    return filled


def _keep_cache(owner: int) -> Path:
    """Return a cache that is this user's own, with the catalog in it."""
    cache = Path(f"/tmp/cache-{owner}")
    if not cache.exists():
        shutil.copytree("/portability/cache", cache)
        for path in (cache, *cache.iterdir()):
            os.chown(path, owner, owner)
            path.chmod(0o700)
    return cache


def _run(command: list[str], **more: Any) -> dict[str, Any]:
    """Run a program that prints one JSON object. One that does not is a record of what it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False, **more)
    except subprocess.TimeoutExpired as error:
        return {"failure": f"not done within {_LIMIT_S} s: {error.stderr!r}"}
    if done.returncode != 0:
        return {"failure": f"ended with {done.returncode}: {done.stderr}"}
    filled: dict[str, Any] = json.loads(done.stdout)
    return filled


@contextlib.contextmanager
def _without_types() -> Iterator[None]:
    """Hide the kernel's types under an empty file system."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/sys/kernel/btf"], check=True)
    yield
    subprocess.run(["umount", "/sys/kernel/btf"], check=True)


@contextlib.contextmanager
def _without_tracefs() -> Iterator[None]:
    """Take tracefs away, and debugfs, which mounts it when its folder is entered."""
    mounts = {"/sys/kernel/debug": "debugfs", "/sys/kernel/tracing": "tracefs"}
    for folder in mounts:
        subprocess.run(["umount", folder], check=True)
    yield
    for folder, kind in mounts.items():
        subprocess.run(["mount", "-t", kind, kind, folder], check=True)


@contextlib.contextmanager
def _without_controllers() -> Iterator[None]:
    """Leave the cgroup without the files that its controllers keep."""
    _switch_controllers("-")
    yield
    _switch_controllers("+")


@contextlib.contextmanager
def _with_little_locked_memory() -> Iterator[None]:
    """Keep to what a process may lock where nobody raised it: 64 KiB."""
    _limit_locked_memory(_LOCKED_BYTES)
    yield
    _limit_locked_memory(resource.RLIM_INFINITY)


CONFIGURATIONS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "root": contextlib.nullcontext,
    "user": contextlib.nullcontext,
    "no-btf": _without_types,
    "no-tracefs": _without_tracefs,
    "no-controllers": _without_controllers,
    "low-memlock": _with_little_locked_memory,
}
"""What is done to the machine for each configuration, and undone after it."""


def run_tests(chosen: Sequence[str]) -> dict[str, Any]:
    """Run tests in `guest`, and return the outcome of each by its name."""
    written = Path("/tmp/guest.xml")
    options = ["-q", "-W", "error", "-p", "no:cacheprovider", f"--junitxml={written}"]
    command = [sys.executable, "-m", "pytest", *options, *chosen]
    environment = {**os.environ, "OMN_CACHE_DIR": str(_keep_cache(0))}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False, env=environment)
    except subprocess.TimeoutExpired as error:
        return {"failure": f"not done within {_LIMIT_S} s: {error.stdout!r}"}
    if not written.exists():
        return {"failure": f"pytest ended with {done.returncode}: {done.stdout}{done.stderr}"}
    return {"tests": dict(map(_read_outcome, ElementTree.parse(written).iter("testcase"))), "said": done.stdout}


def _read_outcome(case: ElementTree.Element) -> tuple[str, str]:
    name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
    for kind in ("failure", "error", "skipped"):
        found = case.find(kind)
        if found is not None:
            return name, f"skipped: {found.get('message')}" if kind == "skipped" else "failed"
    return name, "passed"


if __name__ == "__main__":
    main()
