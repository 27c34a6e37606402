"""How a pair's workload is found and made, of the pairs' own programs and those that omn publishes, and waited for."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from omn_core.testing import workloads as published
from omn_core.testing.stepped import Workload, WorkloadError
from reference.model import Step, fill
from reference.programs import files, memory, processes, scheduling, sockets

_PROGRAMS = (files, memory, processes, scheduling, sockets, published)


@attrs.frozen
class Wrapped(Workload):
    """A workload that a tool starts: the tool's words stand before its own."""

    prefix: tuple[str, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        """The tool, then the workload."""
        return (*self.prefix, sys.executable, "-c", self.source)


def make_pairs_workload(step: Step, words: Mapping[str, str]) -> Workload:
    """Make a pair's workload: by its name among the pairs' own or the published ones, or `module:function`.

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
    found = (getattr(module, name, None) for module in _PROGRAMS)
    return next((maker for maker in found if maker is not None), None)


def find_innermost(pid: int) -> int:
    """Return the last of a process's first children: what the tools that stand before it have started."""
    while True:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children:
            return pid
        pid = int(children[0])


def wait_blocked(pid: int, timeout_s: float) -> None:
    """Wait until a workload that reported a step sleeps in it.

    Between the report and the sleep it still runs, or waits for a cpu that others keep from it, and its counters move.
    Raises WorkloadError where it does neither within the time.
    """
    deadline = time.monotonic() + timeout_s
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        if time.monotonic() > deadline:
            raise WorkloadError(f"process {pid} did not sleep at its step in {timeout_s} s")
        time.sleep(0.001)
