"""Wakeups of known parentage: between the ends of two pipes, by timers, through the loopback's deferred work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
from compiled import compile_c
from event_backends import EACH_BACKEND, RECORDED, TYPED, needs_records
from omn_kernel.bpf import running
from omn_kernel.bpf.assembly import Assembled
from omn_kernel.bpf.hooks import TypedTracepoint
from omn_kernel.bpf.loading import Hook, LoadedProgram, load
from omn_sched.traced import Wakeups

from omn_core.api import BoundTarget, EmitSpec, MachineRefused
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, bind_processes, bind_thread, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_typed_programs")

# Two processes wake each other through pipes, on one cpu and by turns: neither runs before the other sleeps, so that
# each message ends one sleep. Each says how often it slept. The second argument is what a writer runs before it sleeps;
# a third makes the first leave a last message unread and run on until it is told to end.
PIPES = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void spin(long ns) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    long end = now.tv_sec * 1000000000 + now.tv_nsec + ns;
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); while (now.tv_sec * 1000000000 + now.tv_nsec < end);
}
static struct rusage before;
static void say(const char *who) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("%s %d %ld %ld\\n", who, getpid(), used.ru_nvcsw - before.ru_nvcsw, used.ru_nivcsw - before.ru_nivcsw);
    fflush(stdout);
}
int main(int argc, char **argv) {
    int rounds = atoi(argv[1]), there[2], back[2];
    long spun = atol(argv[2]);
    struct sched_param first = {1};
    cpu_set_t set, one;
    char byte = 0;
    sched_getaffinity(0, sizeof set, &set);
    CPU_ZERO(&one);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--) if (CPU_ISSET(cpu, &set)) { CPU_SET(cpu, &one); break; }
    if (pipe(there) || pipe(back) || sched_setaffinity(0, sizeof one, &one)) return 1;
    if (sched_setscheduler(0, SCHED_FIFO, &first)) return 77;
    pid_t child = fork();
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < rounds; i++) {
        if (child) {
            if (write(there[1], &byte, 1) != 1) return 2;
            spin(spun);
            if (read(back[0], &byte, 1) != 1) return 2;
        } else {
            if (read(there[0], &byte, 1) != 1) return 3;
            if (write(back[1], &byte, 1) != 1) return 3;
            spin(spun);
        }
    }
    say(child ? "parent" : "child");
    if (!child) { (void)!read(there[0], &byte, 1); _exit(0); }
    if (argc > 3) {
        (void)!read(0, &byte, 1);
        if (write(there[1], &byte, 1) != 1) return 2;
        printf("woken\\n");
        fflush(stdout);
        fcntl(0, F_SETFL, O_NONBLOCK);
        while (read(0, &byte, 1) < 0);
    } else if (write(there[1], &byte, 1) != 1) return 2;
    wait(0);
    return 0;
}
"""
# Sleeps as often as it is told, on one cpu with whoever spins there; waits for a word before and after.
SLEEPER = """
import os, sys, time
os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
print('ready', flush=True)
sys.stdin.readline()
for _ in range(20): time.sleep(0.001)
print('slept', flush=True)
sys.stdin.readline()
"""
SPINNER = """
import os
os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
print('ready', flush=True)
while True: pass
"""
# A thread receives what the main one sends it through the loopback, and answers by a word of its own.
DATAGRAMS = """
import os, socket, sys, threading
receiver, sender = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
receiver.bind(("127.0.0.1", 0))
def receive():
    print(threading.get_native_id(), flush=True)
    while receiver.recv(16) != b"end": pass
thread = threading.Thread(target=receive)
thread.start()
sys.stdin.readline()
for number in range(30):
    while open(f"/proc/self/task/{thread.native_id}/stat").read().rpartition(")")[2].split()[0] != "S": pass
    sender.sendto(b"%d" % number, receiver.getsockname())
print('sent', flush=True)
sys.stdin.readline()
sender.sendto(b"end", receiver.getsockname())
"""


@pytest.fixture
def pipes(tmp_path: Path) -> str:
    return str(compile_c(tmp_path, "pipes", PIPES, "-O1"))


@contextmanager
def started(*argv: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program that is spoken with by lines, and end it."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as program:
        try:
            yield program
        finally:
            program.kill()


def hear(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def tell(program: subprocess.Popen[str]) -> None:
    assert program.stdin is not None
    program.stdin.write("\n")


def drive(catalog: Catalog, target: BoundTarget, *emits: str, backend: str = TYPED) -> Driver:
    entry = catalog.entries["sched.wakeup"]
    resolved = resolve_onto(entry, backend, target.target, mode="trace", keys=("waker", "wakee", "cpu"))
    return Driver(Wakeups(), attrs.evolve(resolved, emits=tuple(EmitSpec(name) for name in emits or ("raw",))), target)


def parse_said(stdout: str) -> dict[str, tuple[int, int, int]]:
    """Parse what each side says of itself: its number, and its switches by choice and by force."""
    said = {}
    for line in stdout.splitlines():
        name, pid, voluntary, involuntary = line.split()
        said[name] = (int(pid), int(voluntary), int(involuntary))
    return said


@pytest.mark.spec("SCH-1")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_a_hundred_thousand_wakeups_have_their_parents(omn: Command, pipes: str, tmp_path: Path, backend: str) -> None:
    """Each sleep is ended by the other side, added up in the kernel, and as often as the kernel counts the sleeps."""
    rounds = 50_000 if backend == TYPED else 10_000
    asked = ["-m", "count", "-e", "count", "--keys", "waker,wakee", "--format", "json", "--backend", f"force:{backend}"]
    ran = omn("sched.wakeup", *asked, "--", "sh", "-c", f'exec "{pipes}" {rounds} 0 >"{tmp_path}/said"')
    assert ran.code == 0, ran.stderr
    said = parse_said((tmp_path / "said").read_text())
    ((parent, *of_parent), (child, *of_child)) = said["parent"], said["child"]
    assert ran.result["losses"]["dropped"] == 0
    skipped = ran.result["losses"]["skipped"]
    assert backend == RECORDED or skipped == 0
    counted = {
        (one["key"]["waker"], one["key"]["wakee"]): one["emits"]["count"]["value"] for one in ran.result["series"]
    }
    for waker, wakee, (sleeps, forced) in [(parent, child, of_child), (child, parent, of_parent)]:
        # One that was made to give way on its way to sleep is woken too. After each has said this it writes it to the
        # file that both write to, which one may wait for, and at the end one waits for the other.
        woken = sum(count for (_, one), count in counted.items() if one == wakee)
        assert sleeps - skipped <= woken <= sleeps + forced + 5
        # What is left was a fault's or a disk's.
        assert sleeps >= rounds - 10
        assert counted[waker, wakee] >= rounds - 10 - skipped


@pytest.mark.parametrize(
    ("backend", "is_typed"),
    [(TYPED, True), (TYPED, False), pytest.param(RECORDED, False, marks=needs_records)],
    ids=["typed", "numbers", "recorded"],
)
def test_a_woken_thread_waits_until_its_waker_sleeps(
    catalog: Catalog, pipes: str, monkeypatch: pytest.MonkeyPatch, backend: str, is_typed: bool
) -> None:
    """The writer goes on for a millisecond on the cpu that the reader needs, where pointers have types and have not.

    And where nothing but the records of tracepoints tells of either.
    """

    def load_raw_alone(program: Assembled, hook: Hook) -> LoadedProgram:
        if isinstance(hook, TypedTracepoint):
            raise MachineRefused("no typed tracepoints here")
        return load(program, hook)

    if not is_typed:
        monkeypatch.setattr(running, "load", load_raw_alone)
    with (
        started("sh", "-c", f'read go; exec "{pipes}" 20 1000000') as program,
        drive(catalog, bind_processes(program.pid), backend=backend) as driver,
    ):
        tell(program)
        said = parse_said(f"{hear(program)}\n{hear(program)}")
        program.wait()
        driver.sample()
    parent, child = said["parent"][0], said["child"][0]
    losses = driver.collector.losses()
    assert losses.dropped == 0
    assert backend == RECORDED or losses.skipped == 0
    between = [row for row in driver.rows if {row["waker"], row["wakee"]} == {parent, child}]
    assert len(between) >= 39 - losses.skipped
    timed = [row["wake_to_run_ns"] for row in between if "wake_to_run_ns" in row]
    assert len(timed) >= 38 - losses.skipped
    assert sorted(timed)[2] >= 1_000_000
    (first, *_) = between
    assert (first["wakeups"], first["waker_comm"], first["wakee_comm"]) == (1, "pipes", "pipes")
    assert first.get("waker_context") == (None if backend == RECORDED else "task")
    assert {first["waker_pid"], first["wakee_pid"]} == {parent, child}
    assert not {"served_in_tid", "irq", "softirq"} & set(first)
    assert driver.collector.fields()["unfinished"] <= losses.skipped


def test_a_thread_that_was_woken_and_has_not_run_is_counted_apart(catalog: Catalog, pipes: str) -> None:
    """Its waker keeps the cpu beyond the window's end, so that no time until it ran is known."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("keeping a cpu takes another, and this process has one")
    with started(pipes, "1", "0", "hold") as program:
        pids = [parse_said(hear(program)) for _ in range(2)]
        with drive(catalog, bind_processes(program.pid)) as driver:
            tell(program)
            assert hear(program) == "woken"
            driver.sample()
        tell(program)
        program.wait()
    child = next(one["child"][0] for one in pids if "child" in one)
    assert child not in [row["wakee"] for row in driver.rows]
    assert driver.collector.fields()["unfinished"] == 1


@pytest.mark.spec("SCH-1", "KRN-6")
def test_a_timer_wakes_and_not_the_task_that_it_came_over(catalog: Catalog) -> None:
    """Whoever spins where another's timer expires has woken nobody; who slept was woken by the interrupt."""
    with (
        started(sys.executable, "-S", "-c", SPINNER) as spinner,
        started(sys.executable, "-S", "-c", SLEEPER) as sleeper,
    ):
        assert (hear(spinner), hear(sleeper)) == ("ready", "ready")
        with (
            drive(catalog, bind_processes(spinner.pid)) as of_spinner,
            drive(catalog, bind_processes(sleeper.pid)) as of_sleeper,
        ):
            tell(sleeper)
            assert hear(sleeper) == "slept"
            of_spinner.sample()
            of_sleeper.sample()
    assert spinner.pid not in [row["waker"] for row in of_spinner.rows]
    woken = [row for row in of_sleeper.rows if row["wakee"] == sleeper.pid and row["waker_context"] == "hardirq"]
    assert len(woken) >= 20
    assert all(row["waker"] == 0 and "waker_pid" not in row and "waker_comm" not in row for row in woken)
    assert spinner.pid in [row["served_in_tid"] for row in woken]


@pytest.mark.spec("KRN-6")
def test_deferred_work_has_its_kind_and_the_task_that_it_was_served_in(catalog: Catalog) -> None:
    """What the loopback delivers is delivered in the sender's time, by NET_RX."""
    with started(sys.executable, "-S", "-c", DATAGRAMS) as program:
        receiver = int(hear(program))
        with drive(catalog, bind_thread(program.pid, receiver)) as driver:
            tell(program)
            assert hear(program) == "sent"
            driver.sample()
        tell(program)
        program.wait()
    assert all(receiver in (row["waker"], row["wakee"]) for row in driver.rows)
    delivered = [row for row in driver.rows if row.get("softirq") == "NET_RX"]
    assert len(delivered) >= 25
    assert {row["waker_context"] for row in delivered} == {"softirq"}
    assert program.pid in [row["served_in_tid"] for row in delivered]


def test_a_cpu_is_the_one_that_wakes(catalog: Catalog) -> None:
    """Wakeups of the machine's last cpu are those that were made there, whoever was woken."""
    cpu = max(os.sched_getaffinity(0))
    with started(sys.executable, "-S", "-c", SLEEPER) as sleeper:
        assert hear(sleeper) == "ready"
        with drive(catalog, bind_machine(cpu)) as of_cpu, drive(catalog, bind_machine()) as of_all:
            tell(sleeper)
            assert hear(sleeper) == "slept"
            of_all.sample()
            of_cpu.sample()
    assert {row["cpu"] for row in of_cpu.rows} == {cpu}
    assert sleeper.pid in [row["wakee"] for row in of_cpu.rows]
    assert {row["cpu"] for row in of_all.rows} >= {cpu}
