"""What measuring waits for a cpu costs where tasks switch, beside bpftrace: by the kernel's account of programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from omn_kernel.native import calls
from omn_kernel.native._calls import lib
from omn_kernel.privileges import read_privileges

ROUNDS = 20_000
# Two processes on one cpu hand a byte to and fro: two switches and two wakeups each time.
PING_PONG = f"""
import os
os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
there, back = os.pipe(), os.pipe()
child = os.fork()
for _ in range({ROUNDS}):
    if child:
        os.write(there[1], b"x")
        os.read(back[0], 1)
    else:
        os.read(there[0], 1)
        os.write(back[1], b"x")
"""
BPFTRACE = """
tracepoint:sched:sched_wakeup, tracepoint:sched:sched_wakeup_new { @queued[args->pid] = nsecs; }
tracepoint:sched:sched_switch
{
    if (args->prev_state == 0) { @queued[args->prev_pid] = nsecs; }
    $since = @queued[args->next_pid];
    if ($since) { @ = hist(nsecs - $since); }
    delete(@queued[args->next_pid]);
}
"""


@contextmanager
def timing_programs() -> Iterator[None]:
    """Have the kernel time programs, which omn never does; it ends with the descriptor."""
    descriptor = calls.bpf(lib.BPF_ENABLE_STATS, calls.make_attributes())
    try:
        yield
    finally:
        os.close(descriptor)


def read_programs(pid: int) -> list[tuple[int, int]]:
    """Read the nanoseconds and the runs of each program that a process holds."""
    found = {}
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            fields = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if "run_cnt" in fields:
            found[fields["prog_id"]] = int(fields["run_time_ns"]), int(fields["run_cnt"])
    return list(found.values())


def measure(argv: Sequence[str], programs: int, environment: dict[str, str]) -> float:
    """Return the nanoseconds that the programs of a command ran for each switch and wakeup of the ping-pong."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(argv, stdout=quiet, stderr=quiet, env=environment) as running:
        while len(counted := read_programs(running.pid)) < programs or not any(runs for _, runs in counted):
            assert running.poll() is None, f"{argv[0]} ended"
        before = sum(spent for spent, _ in counted), sum(runs for _, runs in counted)
        subprocess.run([sys.executable, "-c", PING_PONG], check=True)
        counted = read_programs(running.pid)
        running.terminate()
    spent, runs = sum(spent for spent, _ in counted) - before[0], sum(runs for _, runs in counted) - before[1]
    assert runs >= 2 * ROUNDS
    return spent / runs


@pytest.mark.parametrize("emit", ["hist", "summary"])
def test_a_wait_costs_no_more_than_in_bpftrace(omn: Any, emit: str) -> None:
    """The histogram that both make in the kernel, and each wait handed over, of which bpftrace makes its histogram."""
    if not read_privileges("/").has("bpf"):
        pytest.skip("this process is without CAP_BPF")
    if shutil.which("bpftrace") is None:
        pytest.skip("bpftrace is not installed here")
    environment = omn.environment()
    argv = [*omn.argv, "sched.runqlat", "-m", "trace", "-e", emit, "--system", "-d", "60s"]
    with timing_programs():
        ours = measure(argv, 4, environment)
        theirs = measure(["bpftrace", "-e", BPFTRACE], 3, environment)
    print(
        f"\nsched.runqlat -e {emit}: {ours:.0f} ns a run, bpftrace {theirs:.0f} ns: {ours / theirs:.2f}x (at most 1x)"
    )
    assert ours <= theirs
