"""Waits in futex calls, held against a program that counts its own, and threads that wait before anybody looks."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compiled import compile_c
from event_backends import EACH_BACKEND, TYPED, leave_out_skipped
from omn_kernel.procfs.task import parse_stat
from omn_sched.futex_sleepers import Wait, parse_wait
from omn_sched.futex_waits import FutexWaits, name_result
from omn_sched.programs.futex import WAITING

from omn_core.api import BoundTarget
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, bind_processes, bind_thread, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_typed_programs")

# Waits so many times for a millisecond below two calls, by the system call itself, then not at all ten times, since the
# value is another; wakes nobody seven times; and has a thread wait for two words at once, of which it wakes the second.
# Writes the words' addresses and whether the kernel waits for several.
WAITS = """
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static uint32_t word, second;
static const struct timespec ms = {0, 1000000};
struct waiter { uint64_t value, address; uint32_t flags, reserved; };
__attribute__((noinline)) long f(uint32_t *at, long op, long value, const struct timespec *until) {
    register const struct timespec *fourth __asm__("r10") = until;
    register long bits __asm__("r9") = -1;
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"((long)SYS_futex), "D"(at), "S"(op), "d"(value), "r"(fourth),
        "r"(bits) : "rcx", "r11", "memory");
    return answer;
}
__attribute__((noinline)) long g(void) {
    long answer = f(&word, FUTEX_WAIT, 0, &ms);
    __asm__ volatile("");
    return answer;
}
static int has_several = 1;
static void *wait_for_two(void *nothing) {
    struct waiter waiters[2] = {{0, (uintptr_t)&word, 2, 0}, {0, (uintptr_t)&second, 2, 0}};
    if (syscall(449, waiters, 2, 0, 0, 0) < 0 && errno == ENOSYS) has_several = 0;
    return nothing;
}
int main(int count, char **arguments) {
    FILE *out = fopen(arguments[1], "w");
    for (int i = 0; i < atoi(arguments[2]); i++) { g(); __asm__ volatile(""); }
    for (int i = 0; i < 10; i++) f(&word, FUTEX_WAIT_BITSET, 1, &ms);
    for (int i = 0; i < 7; i++) f(&word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 3, 0);
    pthread_t thread;
    pthread_create(&thread, 0, wait_for_two, 0);
    while (has_several && f(&second, FUTEX_WAKE, 1, 0) == 0) usleep(1000);
    pthread_join(thread, 0);
    fprintf(out, "%p %p %d", (void *)&word, (void *)&second, has_several);
    return count != 3;
}
"""
# A thread waits for as long as it is let, another for 300 ms; each byte that is read wakes the first.
HELD = """
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static uint32_t word;
static void *wait_long(void *nothing) { for (;;) syscall(SYS_futex, &word, FUTEX_WAIT, 0, 0, 0, 0); return nothing; }
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, wait_long, 0);
    char byte;
    while (read(0, &byte, 1) == 1) {
        while (syscall(SYS_futex, &word, FUTEX_WAKE, 1, 0, 0, 0) == 0) usleep(1000);
        printf("%p\\n", (void *)&word);
        fflush(stdout);
    }
    _exit(0);
}
"""
# Waits for 50 ms, and is stopped within.
STOPPED = """
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    static uint32_t word;
    static const struct timespec while_ = {0, 300000000};
    char byte;
    if (read(0, &byte, 1) == 1) syscall(SYS_futex, &word, FUTEX_WAIT, 0, &while_, 0, 0);
    return read(0, &byte, 1);
}
"""


def list_threads(pid: int) -> list[int]:
    return sorted(int(path.name) for path in Path(f"/proc/{pid}/task").iterdir())


def await_state(pid: int, tid: int, state: str) -> None:
    """Wait until the kernel says that a thread is in a state."""
    while parse_stat(Path(f"/proc/{pid}/task/{tid}/stat").read_bytes()).state != state:
        os.sched_yield()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program of which one thread waits until it is woken, and then again."""
    path = compile_c(tmp_path, "held", HELD, "-O1", "-pthread")
    with subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as program:
        while len(list_threads(program.pid)) < 2:
            os.sched_yield()
        await_state(program.pid, list_threads(program.pid)[1], "S")
        yield program
        program.communicate()


def wake(program: subprocess.Popen[bytes]) -> str:
    """Have the waiting thread woken, and return the address that it waited at."""
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(b"x")
    return program.stdout.readline().decode().strip()


def drive(catalog: Catalog, target: BoundTarget, backend: str = TYPED) -> Driver:
    entry = catalog.entries["sched.futex"]
    return Driver(FutexWaits(), resolve_onto(entry, backend, target.target, mode="trace", keys=("task",)), target)


@pytest.mark.spec("SRC-2", "RUN-6")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_every_wait_is_there_and_how_it_ended(omn: Command, tmp_path: Path, backend: str) -> None:
    """A thousand that timed out, at their address, from where they were made; those that never began; who woke."""
    path = compile_c(tmp_path, "waits", WAITS, "-O0", "-pthread")
    out = tmp_path / "out"
    asked = ["-m", "trace", "-e", "raw", "-e", "stack", "--format", "json", "--backend", f"force:{backend}"]
    ran = omn("sched.futex", *asked, "--", str(path), str(out), "1000")
    assert ran.code == 0, ran.stderr
    assert ran.result["losses"]["dropped"] == 0
    leave_out_skipped(ran.result["losses"]["skipped"], backend)
    word, second, has_several = out.read_text().split()
    rows = [row["attrs"] | row["key"] for row in ran.result["raw"]]
    at_word = [row for row in rows if row["addr"] == word and row["op"] != "waitv"]
    assert Counter((row["op"], row.get("result")) for row in at_word) == {
        ("wait", "timed-out"): 1000,
        ("wait-bitset", "changed"): 10,
        ("wake", None): 7,
    }
    timed = [row["wait_ns"] for row in at_word if row.get("result") == "timed-out"]
    assert min(timed) >= 1_000_000
    wakes = [row for row in rows if row["op"] == "wake"]
    assert not any({"wait_ns", "waits", "result"} & row.keys() for row in wakes)
    assert {row["woken"] for row in wakes if row["addr"] == word} == {0}
    if has_several == "1":
        (several,) = [row for row in rows if row["op"] == "waitv"]
        assert several["result"] == "woken"
        assert several["addr"] == (second if backend == TYPED else word)
        assert sum(row["woken"] for row in wakes if row["addr"] == second) == 1
    (series,) = ran.result["series"]
    (timed_rows,) = [row for row in series["emits"]["stack"]["rows"] if "g" in row["frames"]]
    assert (timed_rows["frames"][:3], timed_rows["count"]) == (["f", "g", "main"], 1000)


def test_sums_are_of_waits_alone(omn: Command, tmp_path: Path) -> None:
    """What wakes is no wait, unless it is asked how many were woken."""
    path = compile_c(tmp_path, "waits", WAITS, "-O0", "-pthread")
    program = [str(path), str(tmp_path / "out"), "20"]
    asked = ["-m", "count", "-e", "count", "--keys", "op", "--format", "json", "--", *program]
    ran = omn("sched.futex", *asked)
    assert ran.code == 0, ran.stderr
    counted = {series["key"]["op"]: series["emits"]["count"] for series in ran.result["series"]}
    assert not any("wake" in name for name in counted)
    assert counted["wait-bitset"]["events"] >= 10
    assert counted["wait"]["events"] >= 20
    ran = omn("sched.futex", "--value", "woken", *asked)
    assert ran.code == 0, ran.stderr
    assert sum(series["emits"]["count"]["value"] or 0 for series in ran.result["series"]) >= 1


@pytest.mark.spec("REQ-10", "EVT-5")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_a_thread_that_waits_already_counts_from_the_windows_beginning(
    catalog: Catalog, held: subprocess.Popen[bytes], backend: str
) -> None:
    """Its wait ends when it is woken, and the next is still on at the close: neither is lost, neither is longer."""
    thread = list_threads(held.pid)[1]
    for target in (bind_processes(held.pid), bind_thread(held.pid, thread)):
        await_state(held.pid, thread, "S")
        with drive(catalog, target, backend) as driver:
            address = wake(held)
            await_state(held.pid, thread, "S")
            driver.sample()
        leave_out_skipped(driver.collector.losses().skipped, backend)
        waits = [row for row in driver.rows if row.get("task") == thread]
        assert [(row["addr"], row["op"], row.get("result")) for row in waits] == [
            (address, "wait", "woken"),
            (address, "wait", None),
        ]
        assert driver.collector.fields()["unfinished"] == 1
        assert driver.collector.fields().get("begun_before") == (0 if backend == TYPED else None)


def test_of_the_machine_a_wait_that_was_not_seen_to_begin_is_counted(
    catalog: Catalog, held: subprocess.Popen[bytes]
) -> None:
    """How long it was is not known, so that it is no event."""
    thread = list_threads(held.pid)[1]
    with drive(catalog, bind_machine()) as driver:
        address = wake(held)
        await_state(held.pid, thread, "S")
        driver.sample()
    (left,) = [row for row in driver.rows if row.get("task") == thread]
    assert (left["addr"], "result" in left) == (address, False)
    assert driver.collector.fields()["begun_before"] >= 1


def test_a_wait_that_a_stop_interrupts_goes_on(catalog: Catalog, tmp_path: Path) -> None:
    """The kernel restarts it by another call, which is a wait for the same."""
    path = compile_c(tmp_path, "stopped", STOPPED, "-O1")
    with subprocess.Popen([path], stdin=subprocess.PIPE, bufsize=0) as program:
        assert program.stdin is not None
        await_state(program.pid, program.pid, "S")
        with drive(catalog, bind_processes(program.pid)) as driver:
            program.stdin.write(b"x")
            while parse_wait(Path(f"/proc/{program.pid}/syscall").read_bytes()) is None:
                os.sched_yield()
            program.send_signal(19)
            await_state(program.pid, program.pid, "T")
            program.send_signal(18)
            await_state(program.pid, program.pid, "S")
            while not Path(f"/proc/{program.pid}/syscall").read_bytes().startswith(b"0 "):
                os.sched_yield()
            driver.sample()
        program.communicate()
    rows: list[dict[str, Any]] = driver.rows
    assert [row["result"] for row in rows] == ["interrupted", "timed-out"]
    assert sum(row["wait_ns"] for row in rows) >= 200_000_000
    assert len({row["addr"] for row in rows}) == 1


def test_what_a_thread_sleeps_in_is_read_from_its_file() -> None:
    """A wait by its command and address, one for several without; another call, or none, is no wait."""
    rest = b" 0x0 0x0 0x0 0x0 0x7ffc00 0x401000\n"
    assert parse_wait(b"202 0x1000 0x189" + rest) == Wait(9, 0x1000, 0x7FFC00)
    assert parse_wait(b"449 0x1000 0x2" + rest) == Wait(1000, 0, 0x7FFC00)
    assert parse_wait(b"202 0x1000 0x81" + rest) is None
    assert parse_wait(b"1 0x1000 0x0" + rest) is None
    assert parse_wait(b"running\n") is None
    assert parse_wait(b"-1 0x7ffc00 0x401000\n") is None


@pytest.mark.parametrize(
    ("result", "name"),
    [(0, "woken"), (2, "woken"), (-110, "timed-out"), (-11, "changed"), (-512, "interrupted"), (-14, "EFAULT")],
)
def test_a_waits_end_has_a_name(result: int, name: str) -> None:
    """Whether it was woken, timed out, never began, was interrupted or failed; one that has not ended has none."""
    assert name_result(result) == name
    assert name_result(WAITING) is None
