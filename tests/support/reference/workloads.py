"""Workloads of pairs beside those that `omn_core.testing.workloads` publishes, and how a pair's is started."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from omn_core.testing import workloads as published
from omn_core.testing.workloads import Workload
from reference.model import Step, fill


def open_descriptors(count: int) -> Workload:
    """Open /dev/null so many times. Steps: `ready` before the first, `opened` after the last."""
    return published.make_workload(
        f"open {count} descriptors",
        f"""
step("ready")
held = [os.open("/dev/null", os.O_RDONLY) for _ in range({count})]
step("opened")
""",
    )


def start_threads(count: int) -> Workload:
    """Start so many threads that wait. Steps: `ready` before the first, `started` when all are there."""
    return published.make_workload(
        f"start {count} threads",
        f"""
import threading
step("ready")
over = threading.Event()
held = [threading.Thread(target=over.wait, daemon=True) for _ in range({count})]
for thread in held:
    thread.start()
step("started")
over.set()
""",
    )


def fork_children(count: int) -> Workload:
    """Fork so many times, each child waited for. Steps: `ready` before the first, `forked` after the last."""
    return published.make_workload(
        f"fork {count} children",
        f"""
step("ready")
for _ in range({count}):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
step("forked")
""",
    )


@attrs.frozen
class Wrapped(Workload):
    """A workload that a tool starts: the tool's words stand before its own."""

    prefix: tuple[str, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        """The tool, then the workload."""
        return (*self.prefix, sys.executable, "-c", self.source)


def make_pairs_workload(step: Step, words: Mapping[str, str]) -> Workload:
    """Make a pair's workload: by its name here or among the published ones, or `module:function`.

    Texts among its arguments may hold words in braces. Raises LookupError for a workload that is not there.
    """
    maker = find_maker(step.name)
    if maker is None:
        raise LookupError(f"there is no workload {step.name!r}")
    given = {name: fill(value, words) if isinstance(value, str) else value for name, value in step.arguments.items()}
    made: Workload = maker(**given)
    return made


def find_maker(name: str) -> Callable[..., Workload] | None:
    """Return the function that makes a workload, None where there is none of the name."""
    module, colon, inner = name.partition(":")
    if colon:
        return getattr(importlib.import_module(module), inner, None)
    return globals().get(name) if name in _OWN else getattr(published, name, None)


def find_innermost(pid: int) -> int:
    """Return the last of a process's first children: what the tools that stand before it have started."""
    while True:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children:
            return pid
        pid = int(children[0])


_OWN = {"open_descriptors", "start_threads", "fork_children"}
