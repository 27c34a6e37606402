"""What a workload stands on: a loop device, a control group. Made for one pair and gone after it."""

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
    """A loop device over a file of its own: words `dev` (its node) and `name`. Direct I/O below it where it can be."""
    image = folder / "image"
    with open(image, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size_mib << 20)
    done = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True)
    if done.returncode:
        raise CannotRunError(f"no loop device can be had here: {done.stderr.strip()}")
    node = done.stdout.strip()
    try:
        yield Stood({"dev": node, "name": node.removeprefix("/dev/")}, {"dev": node})
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


STAGES: Mapping[str, Callable[..., AbstractContextManager[Stood]]] = {"loop": loop, "cgroup": cgroup}
"""Every stage by its name in a pair."""
