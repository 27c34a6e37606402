"""What measuring the scheduler costs a pair that does nothing but switch, beside bpftrace with the same question."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from omn_kernel.privileges import read_privileges
from program_costs import read_programs, timing_programs

LOOPS, ROUNDS = 30_000, 3
RUNQLAT = """
tracepoint:sched:sched_wakeup, tracepoint:sched:sched_wakeup_new { @queued[args->pid] = nsecs; }
tracepoint:sched:sched_switch
{
    if (args->prev_state == 0) { @queued[args->prev_pid] = nsecs; }
    $since = @queued[args->next_pid];
    if ($since) { @ = hist(nsecs - $since); }
    delete(@queued[args->next_pid]);
}
"""
OFFCPU = """
tracepoint:sched:sched_switch
{
    if (args->prev_pid) { @left[args->prev_pid] = nsecs; }
    $since = @left[args->next_pid];
    if ($since) { @ = hist(nsecs - $since); }
    delete(@left[args->next_pid]);
}
"""


@attrs.frozen
class Trip:
    """One round trip in nanoseconds of cpu: all of it, and what programs ran in it by the kernel's account of them."""

    all_ns: float
    programs_ns: float


class Pair:
    """`perf bench sched pipe`, both ends on one cpu, below a shell that waits before it and after it."""

    def __init__(self) -> None:
        cpu = min(os.sched_getaffinity(0))
        bench = f"taskset -c {cpu} perf bench sched pipe -l {LOOPS}"
        self._shell = subprocess.Popen(
            ["sh", "-c", f"read begin; {bench} >/dev/null; echo done; read end"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = self._shell.pid

    def switch(self, measuring: int | None = None) -> Trip:
        """Let it run, beside a process that holds programs if one is named, and return what a round trip took."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begun = _add_up(measuring)
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(b"\n")
        self._shell.stdin.flush()
        assert self._shell.stdout.readline() == b"done\n"
        spent = _add_up(measuring) - begun
        self._shell.communicate(b"\n")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Trip(used_s * 1e9 / LOOPS, spent / LOOPS)


def _add_up(pid: int | None) -> int:
    return 0 if pid is None else sum(one.time_ns for one in read_programs(pid))


def switch_under(argv: Sequence[str], programs: int, environment: dict[str, str]) -> Trip:
    """Return what a round trip takes while so many programs of a command are there; `PID` stands for the shell's."""
    pair = Pair()
    words = [word.replace("PID", str(pair.pid)) for word in argv]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(words, stdout=quiet, stderr=quiet, env=environment) as running:
        while len(seen := read_programs(running.pid)) < programs or not any(one.runs for one in seen):
            assert running.poll() is None, f"{argv[0]} ended"
            time.sleep(0.02)
        trip = pair.switch(running.pid)
        running.terminate()
    return trip


@pytest.mark.parametrize(
    ("asked", "programs", "script", "others"),
    [
        (("sched.runqlat", "--system", "-d", "60s"), 4, RUNQLAT, 3),
        (("sched.offcpu", "--pid", "PID"), 4, OFFCPU, 1),
    ],
    ids=["sched.runqlat", "sched.offcpu"],
)
def test_a_switch_is_slowed_down_no_more_than_by_bpftrace(
    omn: Any, asked: tuple[str, ...], programs: int, script: str, others: int
) -> None:
    """The histogram in each, which take turns: by the kernel's account of programs, which other work leaves alone.

    How much longer a trip takes is printed beside it: what attaching costs is in that, and the rest of the machine.
    """
    if not read_privileges("/").has("bpf"):
        pytest.skip("this process is without CAP_BPF")
    if shutil.which("bpftrace") is None or shutil.which("perf") is None:
        pytest.skip("bpftrace and perf are not both installed here")
    environment = omn.environment()
    argv = [*omn.argv, *asked, "-m", "trace", "-e", "hist", "--backend", "force:bpf:raw_tp"]
    alone, ours, theirs = [], [], []
    with timing_programs():
        for _ in range(ROUNDS):
            alone.append(Pair().switch())
            ours.append(switch_under(argv, programs, environment))
            theirs.append(switch_under(["bpftrace", "-e", script], others, environment))
    base, slower, other = (min(trip.all_ns for trip in trips) for trips in (alone, ours, theirs))
    own, witness = (min(trip.programs_ns for trip in trips) for trips in (ours, theirs))
    print(
        f"\n{asked[0]}: programs run {own:.0f} ns of a round trip, bpftrace's {witness:.0f}: {own / witness:.2f}x (at "
        f"most 1x); of {base:.0f} ns it takes {slower - base:.0f} longer, under bpftrace {other - base:.0f}"
    )
    assert own <= witness
