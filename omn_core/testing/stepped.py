"""Programs that stop at named steps, so that what one did between two of them can be told from what it did before.

Each is a whole Python program in a string, run in a child or handed to `omn SOURCE -- ...` by its `argv`. Started by
`start`, it reports each step on a pipe and goes on when told; started any other way it does not stop and reports
nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import attrs

VARIABLE = "OMN_WORKLOAD_PIPES"
"""Two descriptors, `read,write`: where a workload waits to be told, and where it reports."""

_PRELUDE = f"""
import json, os, resource, sys, time

_pipes = [int(part) for part in os.environ.get({VARIABLE!r}, "").split(",") if part]

def step(name, **facts):
    if _pipes:
        os.write(_pipes[1], json.dumps(dict(facts, step=name)).encode() + b"\\n")
        if os.read(_pipes[0], 1) == b"":
            os._exit(3)

def cpu_ns():
    return time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID)

def burn(length_ns):
    end = cpu_ns() + length_ns
    while cpu_ns() < end:
        pass

def oncpu_ns(tid=None):
    cpu_ns()  # renews the account of the thread that asks, which is as old as its last tick otherwise
    with open(f"/proc/self/task/{{tid or os.getpid()}}/schedstat") as file:
        return int(file.read().split()[0])
"""


class WorkloadError(AssertionError):
    """A workload that did not do what it is for: it ended early, said another step, or nothing in time."""


@attrs.frozen
class Workload:
    """A program: its name, for messages, and its source."""

    name: str
    source: str

    @property
    def argv(self) -> tuple[str, ...]:
        """The arguments that run it free, without stopping at its steps."""
        return (sys.executable, "-c", self.source)


def make_workload(name: str, body: str) -> Workload:
    """Make a workload of a program's text, which finds `step`, `burn`, `cpu_ns` and `oncpu_ns` defined before it.

    `step(name, **facts)` stops there until told to go on, and reports the facts.
    """
    return Workload(name, _PRELUDE + body)


class Running:
    """A workload in a child, stopped at its steps. Leaving the context ends it, whatever it was doing."""

    def __init__(self, workload: Workload, timeout_s: float = 30.0) -> None:
        self._workload = workload
        self._timeout_s = timeout_s
        self._pending = b""
        tell, self._tell = os.pipe()
        self._hear, report = os.pipe()
        environment = {**os.environ, VARIABLE: f"{tell},{report}"}
        try:
            self._child = subprocess.Popen(
                workload.argv, env=environment, pass_fds=(tell, report), stdin=subprocess.DEVNULL
            )
        finally:
            os.close(tell)
            os.close(report)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    def wait(self, name: str) -> Mapping[str, Any]:
        """Wait until the workload stops at a step, and return what it reports. Raises WorkloadError for another.

        It has gone to sleep there: what the kernel says of a thread that runs is as old as its last tick.
        """
        deadline = time.monotonic() + self._timeout_s
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._hear], [], [], max(deadline - time.monotonic(), 0))
            packet = os.read(self._hear, 65536) if ready else b""
            if not packet:
                why = "it ended" if ready else f"nothing in {self._timeout_s} s"
                raise WorkloadError(f"{self._workload.name}: {why} before step {name!r}")
            self._pending += packet
        line, _, self._pending = self._pending.partition(b"\n")
        facts: Mapping[str, Any] = json.loads(line)
        if facts["step"] != name:
            raise WorkloadError(f"{self._workload.name}: step {facts['step']!r} came before {name!r}")
        while self._is_running():
            os.sched_yield()
        return facts

    def _is_running(self) -> bool:
        with open(f"/proc/{self.pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"R"

    def release(self) -> None:
        """Let the workload go on from the step it stopped at."""
        os.write(self._tell, b"\n")

    def finish(self) -> int:
        """Let the workload go on from its last step if it still runs, reap it, and return how it ended (as Popen)."""
        with contextlib.suppress(BrokenPipeError):
            self.release()
        return self._child.wait(self._timeout_s)

    def wait_exited(self) -> None:
        """Wait until the workload has exited, and leave it unreaped: a zombie, as a launcher sees it."""
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGKILL)
        self._child.wait()
        os.close(self._tell)
        os.close(self._hear)


def start(workload: Workload, timeout_s: float = 30.0) -> Running:
    """Start a program in a child that stops at its steps, to be used as a context."""
    return Running(workload, timeout_s)
