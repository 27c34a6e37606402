"""A pytest plugin for omn's own tests and for those of other people's families.

A `conftest.py` takes it in with `pytest_plugins = ["omn_core.testing.fixtures"]`.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs
import pytest

from omn_core.catalog.load import load_catalog
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry, discover
from omn_core.testing.stepped import Running, Workload, start
from omn_core.testing.sysroot import Sysroot

_PROGRAM = "import sys; from omn_core.cli.entry import main; sys.argv[0] = 'omn'; sys.exit(main())"


@attrs.frozen(slots=False)
class Ran:
    """One run of the command: its exit code, and what it wrote."""

    code: int
    stdout: bytes
    stderr: str

    @cached_property
    def document(self) -> dict[str, Any]:
        """What was written to standard output, as JSON. Raises an error that quotes standard error where it is none."""
        try:
            document: dict[str, Any] = json.loads(self.stdout)
        except ValueError as error:
            raise AssertionError(
                f"omn ended with {self.code} and no document ({error}); it said: {self.stderr}"
            ) from None
        return document

    @property
    def result(self) -> dict[str, Any]:
        """The document's one result. Raises AssertionError where it holds none or several."""
        results: list[dict[str, Any]] = self.document["results"]
        assert len(results) == 1, f"the document holds {len(results)} results"
        return results[0]


@attrs.frozen
class Command:
    """The command line in a process of its own, its cache in the test's folder."""

    cache: Path

    def environment(self, **changes: str) -> dict[str, str]:
        """Return the environment the command runs in, with some variables changed."""
        return {**os.environ, "OMN_CACHE_DIR": str(self.cache), "NO_COLOR": "1", **changes}

    @property
    def argv(self) -> tuple[str, ...]:
        """What to run, for a test that wants to hold the process itself; the command's own arguments follow."""
        return (sys.executable, "-P", "-c", _PROGRAM)

    def __call__(self, *arguments: str, stdin: bytes | None = None, timeout_s: float = 60.0, **changes: str) -> Ran:
        """Run the command to its end. Keyword arguments beyond `stdin` and `timeout_s` are environment variables."""
        done = subprocess.run(
            [*self.argv, *arguments],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=timeout_s,
            env=self.environment(**changes),
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))


@pytest.fixture
def omn(tmp_path: Path) -> Command:
    """Run omn: `omn("mem.rss", "--format", "json", "--", "true").result`."""
    cache = tmp_path / "omn-cache"
    cache.mkdir(mode=0o700, exist_ok=True)
    return Command(cache)


@pytest.fixture(scope="session")
def registry() -> Registry:
    """Everything that is installed here, discovered once."""
    return discover()


@pytest.fixture(scope="session")
def catalog(registry: Registry) -> Catalog:
    """Every entry of every installed plugin."""
    return load_catalog(registry)


@pytest.fixture
def sysroot(tmp_path: Path) -> Sysroot:
    """A folder that stands in for `/`, empty."""
    return Sysroot(tmp_path / "sysroot")


@pytest.fixture
def workload() -> Iterator[Callable[[Workload], Running]]:
    """Start workloads that stop at their steps; those still running at the test's end are ended."""
    running: list[Running] = []

    def start_one(one: Workload) -> Running:
        running.append(start(one))
        return running[-1]

    yield start_one
    for one in running:
        one.__exit__(None, None, None)


@pytest.fixture
def make_cgroup() -> Iterator[Callable[[str], Path]]:
    """Make a cgroup of a version 1 controller, or of version 2 for `unified`, removed at the test's end.

    The test is skipped, with what the machine says, where the hierarchy is not mounted or not writable.
    """
    made: list[Path] = []

    def make(controller: str) -> Path:
        mount = find_cgroup_mount(controller)
        if mount is None:
            pytest.skip(f"no cgroup hierarchy of {controller} is mounted here")
        try:
            path = Path(tempfile.mkdtemp(prefix="omn-test-", dir=mount))
        except OSError as error:
            pytest.skip(f"{mount}: no cgroup can be made here: {error.strerror}")
        made.append(path)
        return path

    yield make
    for path in reversed(made):
        remove_cgroup(path)


def find_cgroup_mount(controller: str) -> Path | None:
    """Return where a version 1 controller, or for `unified` version 2, is mounted (/proc/self/mountinfo, proc(5))."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields, _, rest = line.partition(" - ")
            kind, _, options = rest.split(" ", 2)
            if (kind == "cgroup2" and controller == "unified") or (
                kind == "cgroup" and controller in options.strip().split(",")
            ):
                return Path(fields.split()[4])
    return None


def remove_cgroup(path: Path) -> None:
    """Remove a cgroup, its processes moved to the one above it. The kernel may say busy until the last has left."""
    deadline = time.monotonic() + 10
    while True:
        for pid in (path / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (path.parent / "cgroup.procs").write_text(pid)
        try:
            path.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
