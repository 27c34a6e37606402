"""What eBPF programs of a command ran while something else did, by the kernel's own account of programs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
from omn_kernel.bpf.assembly import Assembly
from omn_kernel.bpf.attaching import attach
from omn_kernel.bpf.hooks import RawTracepoint
from omn_kernel.bpf.loading import load
from omn_kernel.native import calls
from omn_kernel.native._calls import lib

PING_PONG = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
there, back = os.pipe(), os.pipe()
child = os.fork()
for _ in range(int(sys.argv[1])):
    if child:
        os.write(there[1], b"x")
        os.read(back[0], 1)
    else:
        os.read(there[0], 1)
        os.write(back[1], b"x")
"""
"""Two processes on one cpu hand a byte to and fro, so many times: two switches and two wakeups each time."""


@attrs.frozen
class Spent:
    """The nanoseconds that programs ran, and how often they did."""

    time_ns: int
    runs: int


@contextmanager
def timing_programs() -> Iterator[None]:
    """Have the kernel time programs, which omn never does; it ends with the descriptor."""
    descriptor = calls.bpf(lib.BPF_ENABLE_STATS, calls.make_attributes())
    try:
        yield
    finally:
        os.close(descriptor)


def read_programs(pid: int) -> list[Spent]:
    """Read the account of each program that a process holds."""
    found = {}
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            fields = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if "run_cnt" in fields:
            found[fields["prog_id"]] = Spent(int(fields["run_time_ns"]), int(fields["run_cnt"]))
    return list(found.values())


def stir_disk() -> None:
    """Have a block written, for programs that run for nothing else."""
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
        file.flush()
        os.fsync(file.fileno())


def stir_network() -> None:
    """Have a connection made on the loopback, and closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
        listener.accept()[0].close()


def stir_signals() -> None:
    """Have a signal made that nobody minds."""
    signal.raise_signal(signal.SIGURG)


@contextmanager
def running_nothing(*tracepoints: str) -> Iterator[Callable[[], Spent]]:
    """Attach a program that does nothing to each of some tracepoints, and give what reads their account together."""
    with ExitStack() as attached:
        for name in tracepoints:
            program, hook = Assembly("nothing"), RawTracepoint(name)
            program.leave(0)
            attached.enter_context(attach(attached.enter_context(load(program.assemble(), hook)), hook))
        yield lambda: sum_up(read_programs(os.getpid()))


def sum_up(spent: Sequence[Spent]) -> Spent:
    """Add accounts of programs."""
    return Spent(sum(one.time_ns for one in spent), sum(one.runs for one in spent))


def measure_programs(
    argv: Sequence[str], programs: int, environment: dict[str, str], work: Callable[[], object]
) -> Spent:
    """Return what the programs of a command, so many of them, ran while the work was done."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(argv, stdout=quiet, stderr=quiet, env=environment) as running:
        while len(before := read_programs(running.pid)) < programs or not any(one.runs for one in before):
            assert running.poll() is None, f"{argv[0]} ended"
            stir_disk()
            stir_network()
            stir_signals()
        work()
        after = sum_up(read_programs(running.pid))
        running.terminate()
    begun = sum_up(before)
    return Spent(after.time_ns - begun.time_ns, after.runs - begun.runs)
