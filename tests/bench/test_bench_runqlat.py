"""What measuring waits for a cpu costs where tasks switch, beside bpftrace: by the kernel's account of programs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from omn_kernel.privileges import read_privileges
from program_costs import PING_PONG, measure_programs, timing_programs

ROUNDS = 20_000
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


def measure(argv: Sequence[str], programs: int, environment: dict[str, str]) -> float:
    """Return the nanoseconds that the programs of a command ran for each switch and wakeup of the ping-pong."""
    spent = measure_programs(
        argv, programs, environment, lambda: subprocess.run([sys.executable, "-c", PING_PONG, str(ROUNDS)], check=True)
    )
    assert spent.runs >= 2 * ROUNDS
    return spent.time_ns / spent.runs


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
