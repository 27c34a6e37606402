"""Small programs whose behaviour is known to the byte, the page or the nanosecond, to hold a measurement against.

Each is a whole Python program in a string, run in a child or handed to `omn SOURCE -- ...` by its `argv`. It stops at
named steps: started by `start`, it reports each step on a pipe and goes on when told; started any other way it
does not stop and reports nothing.
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
from collections.abc import Mapping, Sequence
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


def touch_pages(count: int) -> Workload:
    """Write one byte to each of so many fresh pages of private anonymous memory, and hold them.

    Steps: `ready` before the first, `touched` after the last, with `minflt` (the faults that getrusage counted
    between them) and `page_bytes`.
    """
    return make_workload(
        f"touch {count} pages",
        f"""
import mmap
size = mmap.PAGESIZE
area = mmap.mmap(-1, {count} * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
area.madvise(mmap.MADV_NOHUGEPAGE)
step("ready")
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for offset in range(0, {count} * size, size):
    area[offset] = 1
after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
step("touched", minflt=after - before, page_bytes=size)
""",
    )


def touch_bytes(size_bytes: int) -> Workload:
    """Touch every page of so many bytes, rounded up to a page: steps as `touch_pages`."""
    page = os.sysconf("SC_PAGESIZE")
    return touch_pages(-(-size_bytes // page))


def share_bytes(size_bytes: int) -> Workload:
    """Touch memory, then fork: two processes map the same pages, and neither writes again.

    Steps: `shared`, with `child` (the other's pid) and `size_bytes`; the child ends with its parent.
    """
    return make_workload(
        f"share {size_bytes} bytes",
        f"""
import mmap, signal
area = mmap.mmap(-1, {size_bytes}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
area.madvise(mmap.MADV_NOHUGEPAGE)
area.write(b"\\1" * {size_bytes})
alive, held = os.pipe()
child = os.fork()
if child == 0:
    os.close(held)
    os.read(alive, 1)  # its end comes with the parent's, however that one ends
    os._exit(0)
try:
    step("shared", child=child, size_bytes={size_bytes})
finally:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
""",
    )


def transfer_directly(path: str, block_bytes: int, *, reads: int = 0, writes: int = 0) -> Workload:
    """Read so many blocks from the start of a file or device and write as many as asked after them, each one call.

    Past the page cache (O_DIRECT): a block must be a multiple of the device's own. Steps: `ready` before the first,
    `transferred` after the last.
    """
    return make_workload(
        f"read {reads} and write {writes} blocks",
        f"""
import mmap
target = os.open({path!r}, os.O_RDWR | os.O_DIRECT)
block = mmap.mmap(-1, {block_bytes})
step("ready")
for place in range({reads}):
    assert os.preadv(target, [block], place * {block_bytes}) == {block_bytes}
for place in range({reads}, {reads + writes}):
    assert os.pwritev(target, [block], place * {block_bytes}) == {block_bytes}
step("transferred")
""",
    )


def spin(length_ns: int, cpu: int | None = None) -> Workload:
    """Run for so many nanoseconds of cpu time, pinned to one cpu if one is named.

    Steps: `ready` before, `spun` after, with `oncpu_ns` (what schedstat counted between them) and `wall_ns`.
    """
    return make_workload(
        f"spin {length_ns} ns",
        f"""
{_pin(cpu)}
step("ready")
wall, before = time.monotonic_ns(), oncpu_ns()
burn({length_ns})
after = oncpu_ns()
step("spun", oncpu_ns=after - before, wall_ns=time.monotonic_ns() - wall)
""",
    )


def duty_cycle(share: float, length_ns: int, period_ns: int = 20_000_000, cpu: int | None = None) -> Workload:
    """Run for a share of each period and sleep the rest, for so long by the wall.

    Steps: `ready` before, `cycled` after, with `oncpu_ns` (what schedstat counted between them) and `wall_ns`.
    """
    return make_workload(
        f"run {share:.0%} of the time",
        f"""
{_pin(cpu)}
step("ready")
opened, before = time.monotonic_ns(), oncpu_ns()
started = cpu_ns()
for period in range(1, {length_ns} // {period_ns} + 1):
    burn(max(int(period * {period_ns} * {share}) - (cpu_ns() - started), 0))
    left = opened + period * {period_ns} - time.monotonic_ns()
    if left > 0:
        time.sleep(left / 1e9)
after = oncpu_ns()
step("cycled", oncpu_ns=after - before, wall_ns=time.monotonic_ns() - opened)
""",
    )


def threads(names: Sequence[bytes], length_ns: int = 0) -> Workload:
    """Start a thread of each name (at most 15 bytes, none of them zero), run each for so much cpu time, and end them.

    Steps: `ready` (the threads exist and wait), with `tids`; `ran` (they have run and wait), with `oncpu_ns` of each
    as schedstat counted it between; `ended` (only the main thread is left).
    """
    return make_workload(
        f"{len(names)} threads",
        f"""
import ctypes, threading
names, libc = {list(names)!r}, ctypes.CDLL(None)
tids, spent = [None] * len(names), [None] * len(names)
gates = [threading.Barrier(len(names) + 1) for _ in range(4)]

def body(index):
    libc.prctl(15, ctypes.c_char_p(names[index]), 0, 0, 0)
    tids[index] = threading.get_native_id()
    gates[0].wait()
    gates[1].wait()
    before = oncpu_ns(tids[index])
    burn({length_ns})
    spent[index] = oncpu_ns(tids[index]) - before
    gates[2].wait()
    gates[3].wait()

started = [threading.Thread(target=body, args=(index,)) for index in range(len(names))]
for thread in started:
    thread.start()
gates[0].wait()
step("ready", tids=tids)
gates[1].wait()
gates[2].wait()
step("ran", tids=tids, oncpu_ns=spent)
gates[3].wait()
for thread in started:
    thread.join()
# Python's join returns before the kernel has let the thread go.
while len(os.listdir("/proc/self/task")) > 1:
    time.sleep(0.001)
step("ended", tids=tids)
""",
    )


def rename(comm: bytes) -> Workload:
    """Take a name (at most 15 bytes, none of them zero), as prctl(2) PR_SET_NAME lets any task do. Step: `named`."""
    return make_workload(
        f"be named {comm!r}",
        f"""
import ctypes
ctypes.CDLL(None).prctl(15, ctypes.c_char_p({comm!r}), 0, 0, 0)
step("named")
""",
    )


def daemonise(lifetime_s: float = 30.0) -> Workload:
    """Fork twice and end, leaving a process of another session behind for at most so long.

    Step: `forked`, reported by the program itself, with `daemon` (the other's pid); the program ends after it.
    """
    return make_workload(
        "daemonise",
        f"""
pipe = os.pipe()
child = os.fork()
if child == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.write(pipe[1], str(os.getpid()).encode())
    os.close(pipe[1])
    time.sleep({lifetime_s})
    os._exit(0)
os.waitpid(child, 0)
step("forked", daemon=int(os.read(pipe[0], 20)))
""",
    )


def end_with(code: int | None = None, signal_number: int | None = None) -> Workload:
    """End with an exit code, or by a signal it sends itself. Step: `ready`."""
    action = f"os._exit({code})" if signal_number is None else f"os.kill(os.getpid(), {int(signal_number)})"
    return make_workload("end", f'\nstep("ready")\n{action}\ntime.sleep(30)\n')


def _pin(cpu: int | None) -> str:
    return "" if cpu is None else f"os.sched_setaffinity(0, {{{cpu}}})"


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
