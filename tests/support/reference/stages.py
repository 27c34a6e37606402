"""What a workload stands on: a loop device, a control group, two interfaces. Made for a pair and gone after it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import attrs

from omn_core.testing.fixtures import find_cgroup_mount, remove_cgroup
from reference.refusal import CannotRunError


@attrs.frozen
class Stood:
    """A stage that is there: the words for commands and workloads, and the target's value by its kind."""

    words: Mapping[str, str] = attrs.field(factory=dict)
    found: Mapping[str, object] = attrs.field(factory=dict)
    procs: Path | None = None

    def admit(self, pid: int) -> None:
        """Put a process on the stage, where that is a cgroup."""
        if self.procs is not None:
            self.procs.write_text(str(pid))


@contextlib.contextmanager
def loop(folder: Path, size_mib: int = 128) -> Iterator[Stood]:
    """A loop device over a file of its own: words `dev` (its node), `name`, and `number` as the kernel has it.

    Direct I/O below it where it can be.
    """
    image = folder / "image"
    with open(image, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size_mib << 20)
    done = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True)
    if done.returncode:
        raise CannotRunError(f"no loop device can be had here: {done.stderr.strip()}")
    node = done.stdout.strip()
    try:
        device = os.stat(node).st_rdev
        number = os.major(device) << 20 | os.minor(device)  # MKDEV of include/linux/kdev_t.h
        yield Stood({"dev": node, "name": node.removeprefix("/dev/"), "number": str(number)}, {"dev": node})
    finally:
        subprocess.run(["losetup", "--detach", node], check=True)


@contextlib.contextmanager
def cgroup(folder: Path, controller: str, files: Mapping[str, str] | None = None) -> Iterator[Stood]:
    """A cgroup of a version 1 controller, or of version 2 for `unified`: word `cgroup`, its folder.

    `files` are written before the workload moves in.
    """
    mount = find_cgroup_mount(controller)
    if mount is None:
        raise CannotRunError(f"no cgroup hierarchy of {controller} is mounted here")
    try:
        path = Path(tempfile.mkdtemp(prefix="omn-reference-", dir=mount))
    except OSError as error:
        raise CannotRunError(f"{mount}: no cgroup can be made here: {error.strerror}") from error
    try:
        for name, text in (files or {}).items():
            (path / name).write_text(text)
        yield Stood({"cgroup": str(path)}, {"cgroup": str(path)}, path / "cgroup.procs")
    finally:
        remove_cgroup(path)


@contextlib.contextmanager
def veth(folder: Path) -> Iterator[Stood]:
    """Two network namespaces and a pair of interfaces between them, silent but for what a workload sends.

    Words: `netns` and `name` (a namespace and its interface), `own` (its address), `other` and `peer` (the other side's
    namespace and address). The target is the first side's interface.
    """
    sides = [f"omn-ref-{os.getpid()}-{side}" for side in ("a", "b")]
    with contextlib.ExitStack() as made:
        for name in sides:
            _run_ip("netns", "add", name)
            made.callback(_run_ip, "netns", "del", name)
            # IPv6 would announce itself on every interface that comes up.
            _run_ip("netns", "exec", name, "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6")
        _run_ip("-n", sides[0], "link", "add", "ref0", "type", "veth", "peer", "name", "ref0", "netns", sides[1])
        hardware = ["02:00:00:00:00:01", "02:00:00:00:00:02"]
        for side, name in enumerate(sides):
            _run_ip("-n", name, "link", "set", "ref0", "address", hardware[side])
            _run_ip("-n", name, "address", "add", f"10.99.0.{side + 1}/24", "dev", "ref0")
            _run_ip("-n", name, "link", "set", "ref0", "up")
        for side, name in enumerate(sides):
            neighbour = ("10.99.0." + str(2 - side), "lladdr", hardware[1 - side])
            _run_ip("-n", name, "neighbour", "add", *neighbour, "nud", "permanent", "dev", "ref0")
        words = {"netns": sides[0], "name": "ref0", "own": "10.99.0.1", "other": sides[1], "peer": "10.99.0.2"}
        yield Stood(words, {"iface": f"{sides[0]}/ref0"})


def _run_ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise CannotRunError(f"no network namespaces can be had here: {done.stderr.strip()}")


STAGES: Mapping[str, Callable[..., AbstractContextManager[Stood]]] = {"loop": loop, "cgroup": cgroup, "veth": veth}
"""Every stage by its name in a pair."""
