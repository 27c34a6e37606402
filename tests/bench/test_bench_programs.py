"""What omn's programs cost those who run them, beside bpftrace by the kernel's account, beside strace by time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from loop_devices import Loop
from omn_kernel.privileges import read_privileges
from program_costs import PING_PONG, measure_programs, running_nothing, timing_programs

CALLS, SWITCHES, REQUESTS, PAGES, FORKS, CONNECTS = 300_000, 20_000, 5_000, 100_000, 1_000, 5_000
LEAST_TIMES_BELOW_STRACE = 20
MOST_OF_A_REQUEST_NS = 200
LOOP = """
import os, sys, time
getppid, count = os.getppid, int(sys.argv[1])
clock = time.perf_counter_ns if sys.argv[2:] else time.process_time_ns
begin = clock()
for _ in range(count): getppid()
print((clock() - begin) / count)
"""
BPFTRACE_CALLS = """
tracepoint:raw_syscalls:sys_enter { @begun[tid] = nsecs; }
tracepoint:raw_syscalls:sys_exit
{
    $begun = @begun[tid];
    if ($begun) { @[pid, comm, args->id, args->ret < 0] = hist(nsecs - $begun); }
    delete(@begun[tid]);
}
"""
READS = """
import mmap, os, sys
memory, file = mmap.mmap(-1, 4096), os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
for block in range(int(sys.argv[2])): os.preadv(file, [memory], block * 4096)
"""
BPFTRACE_REQUESTS = """
tracepoint:block:block_rq_issue { @begun[args->dev, args->sector] = nsecs; }
tracepoint:block:block_rq_complete
{
    $begun = @begun[args->dev, args->sector];
    if ($begun) { @[args->dev] = hist(nsecs - $begun); }
    delete(@begun[args->dev, args->sector]);
}
"""
BPFTRACE_SWITCHES = """
tracepoint:sched:sched_switch
{
    if (args->prev_pid) { printf("%lu %d %d %s %d\\n", nsecs, args->prev_pid, cpu, args->prev_comm, args->prev_state); }
}
"""
BPFTRACE_PAGES = """
tracepoint:kmem:mm_page_alloc { @[args->order, comm] = sum(4096 << args->order); }
"""
BPFTRACE_CONNECTS = """
tracepoint:sock:inet_sock_set_state
{
    if (args->newstate == 2) { @asked[args->skaddr] = nsecs; @comm[args->skaddr] = comm; }
    if (args->oldstate == 2) {
        $asked = @asked[args->skaddr];
        if ($asked) {
            printf("%s %d %d\\n", @comm[args->skaddr], nsecs - $asked, args->dport);
            delete(@asked[args->skaddr]);
            delete(@comm[args->skaddr]);
        }
    }
}
"""
CONNECT = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as listener:
    for _ in range(int(sys.argv[1])):
        with socket.create_connection(listener.getsockname()):
            listener.accept()[0].close()
"""
BPFTRACE_SIGNALS = """
tracepoint:signal:signal_generate { @[args->sig, args->comm, comm, args->result] = count(); }
"""

BPFTRACE_WAKEUPS = """
tracepoint:sched:sched_waking { @[comm, args->comm] = count(); }
"""
BPFTRACE_SLICES = """
tracepoint:sched:sched_switch
{
    $began = @began[args->prev_pid];
    if ($began) {
        printf("%lu %d %s %d %lu\\n", nsecs, args->prev_pid, args->prev_comm, args->prev_state, nsecs - $began);
    }
    delete(@began[args->prev_pid]);
    if (args->next_pid) { @began[args->next_pid] = nsecs; }
}
"""


def run_loop(*before: str, count: int = CALLS, waits: bool = False) -> float:
    """Run the loop of calls under a command, and return the nanoseconds that a call took.

    They are of cpu time, which other work leaves alone, or where a call waits for its tracer, by the wall clock.
    """
    argv = [*before, sys.executable, "-c", LOOP, str(count), *(["waits"] if waits else [])]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return next(float(line) for line in done.stdout.splitlines() if line.replace(".", "").isdigit())


def run_ping_pong() -> None:
    subprocess.run([sys.executable, "-c", PING_PONG, str(SWITCHES)], check=True)


def run_connects() -> None:
    subprocess.run([sys.executable, "-c", CONNECT, str(CONNECTS)], check=True)


def run_reads() -> None:
    """Read a loop device past the page cache, block after block."""
    if os.geteuid() != 0:
        pytest.skip("only root can set a loop device up")
    if shutil.which("losetup") is None:
        pytest.skip("losetup is not installed here")
    with tempfile.NamedTemporaryFile() as image:
        image.truncate(REQUESTS * 4096)
        loop = Loop(Path(image.name))
        try:
            subprocess.run([sys.executable, "-S", "-c", READS, loop.path, str(REQUESTS)], check=True)
        finally:
            loop.detach()


def touch_pages() -> None:
    program = f"import mmap; pages = mmap.mmap(-1, {PAGES} * mmap.PAGESIZE); pages.madvise(mmap.MADV_NOHUGEPAGE)"
    touch = f"for page in range({PAGES}): pages[page * mmap.PAGESIZE] = 1"
    subprocess.run([sys.executable, "-c", f"{program}\n{touch}"], check=True)


def fork_children() -> None:
    program = f"import os\nfor _ in range({FORKS}): os.fork() or os._exit(0); os.wait()"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("asked", "programs", "script", "ours_least", "work"),
    [
        (("proc.syscall", "-m", "count", "-e", "topk:10@op"), 2, BPFTRACE_CALLS, 2 * CALLS, run_loop),
        (
            ("sched.switches", "-m", "trace", "-e", "topk:10@comm", "--backend", "force:bpf:raw_tp"),
            1,
            BPFTRACE_SWITCHES,
            2 * SWITCHES,
            run_ping_pong,
        ),
        (("io.latency", "-e", "hist"), 2, BPFTRACE_REQUESTS, 2 * REQUESTS, run_reads),
        (
            ("mem.page_alloc", "-m", "count", "-e", "topk:10@order", "--keys", "comm"),
            1,
            BPFTRACE_PAGES,
            PAGES,
            touch_pages,
        ),
        (
            ("proc.signals", "-m", "count", "-e", "topk:10@signal", "-e", "topk@sender_comm", "--keys", "comm,op"),
            1,
            BPFTRACE_SIGNALS,
            FORKS,
            fork_children,
        ),
        (
            ("net.tcp.connect", "-m", "trace", "-e", "topk:10@comm", "-e", "topk:10@remote_port"),
            1,
            BPFTRACE_CONNECTS,
            6 * CONNECTS,
            run_connects,
        ),
        (
            ("sched.wakeup", "-m", "count", "-e", "topk:10@waker_comm", "-e", "topk:10@wakee_comm"),
            1,
            BPFTRACE_WAKEUPS,
            SWITCHES,
            run_ping_pong,
        ),
        (("sched.slices", "-m", "trace", "-e", "topk:10@comm"), 1, BPFTRACE_SLICES, 2 * SWITCHES, run_ping_pong),
    ],
    ids=[
        "proc.syscall",
        "sched.switches",
        "io.latency",
        "mem.page_alloc",
        "proc.signals",
        "net.tcp.connect",
        "sched.wakeup",
        "sched.slices",
    ],
)
def test_a_run_costs_no_more_than_in_bpftrace(
    omn: Any, asked: tuple[str, ...], programs: int, script: str, ours_least: int, work: Callable[[], object]
) -> None:
    """The same question of the whole machine, by the time that the kernel counts of each program's runs."""
    if not read_privileges("/").has("bpf"):
        pytest.skip("this process is without CAP_BPF")
    if shutil.which("bpftrace") is None:
        pytest.skip("bpftrace is not installed here")
    with timing_programs():
        ours = measure_programs([*omn.argv, *asked, "--system", "-d", "60s"], programs, omn.environment(), work)
        theirs = measure_programs(["bpftrace", "-e", script], programs, omn.environment(), work)
    assert min(ours.runs, theirs.runs) >= ours_least
    each, other = ours.time_ns / ours.runs, theirs.time_ns / theirs.runs
    print(f"\n{asked[0]}: {each:.0f} ns a run, bpftrace {other:.0f} ns: {each / other:.2f}x (at most 1x)")
    assert each <= other


def test_a_block_request_costs_a_histogram_at_most_200_ns(omn: Any) -> None:
    """By the kernel's account of both programs, less what it counts of programs that do nothing: its own clock.

    The least of three windows: what else the machine does makes none shorter.
    """
    if not read_privileges("/").has("bpf"):
        pytest.skip("this process is without CAP_BPF")
    requests = []
    with timing_programs(), running_nothing("block_rq_issue", "block_rq_complete") as read_nothing:
        for _ in range(3):
            before = read_nothing()
            ours = measure_programs(
                [*omn.argv, "io.latency", "-e", "hist", "--system", "-d", "60s"], 2, omn.environment(), run_reads
            )
            after = read_nothing()
            assert ours.runs >= 2 * REQUESTS
            own = 2 * (after.time_ns - before.time_ns) / (after.runs - before.runs)
            requests.append((2 * ours.time_ns / ours.runs - own, own))
    each, own = min(requests)
    print(
        f"\nio.latency: {each:.0f} ns a request (at most {MOST_OF_A_REQUEST_NS}), and {own:.0f} of the kernel's clock"
    )
    assert each <= MOST_OF_A_REQUEST_NS


def test_a_call_costs_a_twentieth_of_what_strace_costs(omn: Any) -> None:
    """By the program's own clocks: what a call takes longer under either than alone."""
    if not read_privileges("/").has("bpf"):
        pytest.skip("this process is without CAP_BPF")
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed here")
    alone = min(run_loop() for _ in range(3))
    argv = [*omn.argv, "proc.syscall", "-e", "count", "--"]
    ours = min(run_loop(*argv) for _ in range(3)) - alone
    traced = run_loop("strace", "-f", "-c", "-o", "/dev/null", count=20_000, waits=True) - alone
    print(f"\nproc.syscall: {ours:.0f} ns a call, strace -c {traced:.0f} ns: {traced / ours:.0f}x (at least 20x)")
    assert 0 < ours * LEAST_TIMES_BELOW_STRACE <= traced
