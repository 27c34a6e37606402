"""Mutexes of the C library, held against programs that know who has them and for how long, and where the library is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiled import compile_c
from omn_kernel.procfs.process import list_threads
from omn_kernel.symbols.mappings import parse_mappings
from omn_sched.mutexes import Mutexes, MutexLinks, end_at

from omn_core.api import BoundTarget, MachineRefused
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes, bind_thread, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_typed_programs")
BACKENDS = {"bpf:uprobe_multi": MutexLinks, "bpf:uprobe": Mutexes}
# One thread has a mutex until the fifteen others sleep for it. Each writes its number and how long it waited for the
# mutex by its own clock; the first how long it had it.
CONVOY = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
enum { THREADS = 16 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static int numbers[THREADS];
static long long times[THREADS];
static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static int sleeps(int thread) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *stat = fopen(path, "r");
    char *state = stat && fgets(text, sizeof text, stat) ? strrchr(text, ')') : 0;
    if (stat) fclose(stat);
    return state && state[2] == 'S';
}
static void *follow(void *place) {
    int *number = place;
    __atomic_store_n(number, gettid(), __ATOMIC_SEQ_CST);
    pthread_barrier_wait(&barrier);
    long long began = now();
    pthread_mutex_lock(&mutex);
    times[number - numbers] = now() - began;
    pthread_mutex_unlock(&mutex);
    return 0;
}
static void *lead(void *place) {
    pthread_setname_np(pthread_self(), "leader");
    numbers[0] = gettid();
    pthread_mutex_lock(&mutex);
    times[0] = now();
    pthread_barrier_wait(&barrier);
    for (int one = 1; one < THREADS; one++)
        while (!sleeps(numbers[one])) usleep(100);
    times[0] = now() - times[0];
    pthread_mutex_unlock(&mutex);
    return place;
}
int main(int count, char **arguments) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, 0, THREADS);
    for (int one = 0; one < THREADS; one++) pthread_create(threads + one, 0, one ? follow : lead, numbers + one);
    for (int one = 0; one < THREADS; one++) pthread_join(threads[one], 0);
    FILE *out = fopen(arguments[1], "w");
    fprintf(out, "%p", (void *)&mutex);
    for (int one = 0; one < THREADS; one++) fprintf(out, " %d %lld", numbers[one], times[one]);
    return count != 2;
}
"""
# For each byte that it reads it locks a mutex, waits for a condition until its time is out, and unlocks; locks another
# twice and unlocks it as often; and tries a third, which it never unlocks.
LOCKING = """
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t waiting = PTHREAD_MUTEX_INITIALIZER, twice, kept = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
int main(void) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&twice, &kind);
    char byte;
    while (read(0, &byte, 1) == 1) {
        struct timespec past = {0, 0};
        pthread_mutex_lock(&waiting);
        pthread_cond_timedwait(&never, &waiting, &past);
        pthread_mutex_unlock(&waiting);
        pthread_mutex_lock(&twice);
        pthread_mutex_lock(&twice);
        pthread_mutex_unlock(&twice);
        pthread_mutex_unlock(&twice);
        pthread_mutex_trylock(&kept);
        pthread_mutex_trylock(&kept);
        char text[128];
        int size = snprintf(text, sizeof text, "%p %p %p\\n", (void *)&waiting, (void *)&twice, (void *)&kept);
        if (write(1, text, size) != size) return 2;
    }
    _exit(0);
}
"""
# For each byte that it reads it cancels a thread that waits for a mutex, and one that waits for a condition, once the
# kernel says that they sleep. The first may be cancelled anywhere, the second has what it unlocks then.
CANCELLED = """
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static pthread_mutex_t had = PTHREAD_MUTEX_INITIALIZER, let = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int number;
static void *want(void *nothing) {
    int before;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    __atomic_store_n(&number, gettid(), __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&had);
    return nothing;
}
static void unlock(void *mutex) { pthread_mutex_unlock(mutex); }
static void *wait(void *nothing) {
    pthread_mutex_lock(&let);
    pthread_cleanup_push(unlock, &let);
    __atomic_store_n(&number, gettid(), __ATOMIC_SEQ_CST);
    pthread_cond_wait(&never, &let);
    pthread_cleanup_pop(1);
    return nothing;
}
static int sleeps(int thread) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *stat = fopen(path, "r");
    if (!stat || !fgets(text, sizeof text, stat)) return 0;
    fclose(stat);
    return strrchr(text, ')')[2] == 'S';
}
static int cancel(void *(*run)(void *)) {
    pthread_t thread;
    number = 0;
    pthread_create(&thread, 0, run, 0);
    while (!__atomic_load_n(&number, __ATOMIC_SEQ_CST) || !sleeps(number)) sched_yield();
    pthread_cancel(thread);
    pthread_join(thread, 0);
    return number;
}
int main(void) {
    char byte;
    pthread_mutex_lock(&had);
    while (read(0, &byte, 1) == 1) {
        int first = cancel(want), second = cancel(wait);
        printf("%p %d %d\\n", (void *)&had, first, second);
        fflush(stdout);
    }
    _exit(0);
}
"""


def drive(catalog: Catalog, target: BoundTarget, backend: str = "bpf:uprobe") -> Driver:
    entry = catalog.entries["sched.mutex"]
    resolved = resolve_onto(entry, backend, target.target, mode="trace", keys=("task",))
    return Driver(BACKENDS[backend](), resolved, target)


@contextmanager
def running(*argv: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that waits for bytes, each of which has it answer with a line, until its input ends."""
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, bufsize=0, env={**os.environ, **environment}) as program:
        yield program
        program.communicate()


def let_lock(program: subprocess.Popen[bytes]) -> list[str]:
    """Have it lock, and return the addresses of its mutexes."""
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(b"x")
    return program.stdout.readline().decode().split()


def check_locked(rows: list[dict[str, Any]], addresses: list[str]) -> None:
    """Hold the events of one round against what it did: which mutex was had for how often, and what is known of it."""
    waiting, twice, kept = ([row for row in rows if row["addr"] == address] for address in addresses)
    assert [("wait_ns" in row, row["held_ns"] > 0) for row in waiting] == [(True, True), (False, True)]
    assert [("wait_ns" in row, row["held_ns"] > 0) for row in twice] == [(True, True)]
    assert [row["acquisitions"] for row in kept] == [1]
    assert {row["contended"] for row in rows} == {0}


@pytest.mark.spec("SRC-2")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_convoy_names_who_has_the_mutex(omn: Command, tmp_path: Path, backend: str) -> None:
    """Each of fifteen waits for the one that has the mutex, and no longer than its own thread says."""
    path = compile_c(tmp_path, "convoy", CONVOY, "-O1", "-fno-omit-frame-pointer", "-pthread")
    asked = ["-m", "trace", "-e", "raw", "-e", "stack", "--filter", "contended == 1 or held_ns > 0", "--format", "json"]
    ran = omn("sched.mutex", *asked, "--backend", f"force:{backend}", "--", str(path), str(tmp_path / "out"))
    if "lacks" in ran.stderr or "no several uprobes" in ran.stderr:
        pytest.skip(f"this kernel has no {backend}")
    assert ran.code == 0, ran.stderr
    assert ran.result["losses"]["dropped"] == 0
    mutex, *told = (tmp_path / "out").read_text().split()
    numbers, times = [int(one) for one in told[::2]], [int(one) for one in told[1::2]]
    rows = [(row["key"]["task"], row["attrs"], row["stack"]) for row in ran.result["raw"]]
    of_mutex = {task: (attributes, stack) for task, attributes, stack in rows if attributes["addr"] == mutex}
    assert set(of_mutex) == set(numbers)
    leader, stack = of_mutex[numbers[0]]
    assert (leader["contended"], "holder" in leader, stack[0]) == (0, False, "lead")
    assert leader["held_ns"] >= times[0]
    for number, waited_ns in zip(numbers[1:], times[1:], strict=True):
        row, stack = of_mutex[number]
        assert (row["contended"], row["holder"], row["holder_comm"]) == (1, numbers[0], "leader")
        assert 0 < row["wait_ns"] <= waited_ns
        assert stack[0] == "follow"


def test_conditions_let_go_and_a_mutex_locked_twice_is_one(catalog: Catalog, tmp_path: Path) -> None:
    """A wait for a condition ends a hold and begins another, whose wait is unknown; what is kept is not ended."""
    path = compile_c(tmp_path, "locking", LOCKING, "-O1", "-pthread")
    with running(str(path)) as program:
        for target in (bind_processes(program.pid), bind_thread(program.pid, program.pid)):
            with drive(catalog, target) as driver:
                addresses = let_lock(program)
                driver.sample()
            if target.tid is None:
                check_locked(driver.rows, addresses)
                assert driver.collector.fields()["unfinished"] == 1
            else:
                assert [row["addr"] for row in driver.rows] == [addresses[0]] * 2 + [addresses[1]]


def test_a_thread_that_is_cancelled_as_it_waits_waited_until_its_end(catalog: Catalog, tmp_path: Path) -> None:
    """For a mutex it is an event, which had none; a wait for a condition is none, and both are counted."""
    path = compile_c(tmp_path, "cancelled", CANCELLED, "-O1", "-pthread")
    with running(str(path)) as program, drive(catalog, bind_processes(program.pid)) as driver:
        had, first, second = let_lock(program)
        # A thread is joined a little before it is at its end.
        while {int(first), int(second)} & set(list_threads("/", program.pid)):
            os.sched_yield()
        driver.sample()
    (wait,) = [row for row in driver.rows if row["addr"] == had]
    assert (wait["task"], wait["acquisitions"], "held_ns" in wait) == (int(first), 0, False)
    assert wait["wait_ns"] > 0
    fields = driver.collector.fields()
    assert (fields["abandoned"], fields["unfinished"]) == (2, 0)


def copy_library(folder: Path) -> Path:
    """Copy the C library that this interpreter maps, under its own name, to a folder."""
    mapped = parse_mappings(Path("/proc/self/maps").read_bytes())
    (library,) = {one.path for one in mapped if os.path.basename(one.path).startswith("libc.so")}
    folder.mkdir(exist_ok=True)
    return Path(shutil.copy(library, folder))


@pytest.mark.spec("STK-5")
def test_a_library_in_another_mount_namespace_is_found(catalog: Catalog, tmp_path: Path) -> None:
    """Through what the kernel says that the process maps: nothing here stands at its path."""
    path = compile_c(tmp_path, "locking", LOCKING, "-O1", "-pthread")
    copied = copy_library(tmp_path / "hidden")
    inside = tmp_path / "inside"
    inside.mkdir()
    script = f"mount -t tmpfs omn {inside} && cp {copied} {inside} && LD_LIBRARY_PATH={inside} exec {path}"
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace can be made here")
    with running("unshare", "-m", "sh", "-c", script) as program:
        let_lock(program)
        with drive(catalog, bind_processes(program.pid)) as driver:
            addresses = let_lock(program)
            driver.sample()
    assert not list(inside.iterdir())
    assert f"{inside}/{copied.name}" in driver.collector.facts()[0]
    # It has kept one from the round before, when nobody looked.
    check_locked([*driver.rows, {"addr": addresses[2], "acquisitions": 1, "contended": 0}], addresses)


def test_a_library_that_is_mapped_later_is_probed_and_said(catalog: Catalog, tmp_path: Path) -> None:
    """A shell executes a program with a library of its own: the next tick finds it, and that it is late is said."""
    path = compile_c(tmp_path, "locking", LOCKING, "-O1", "-pthread")
    copied = copy_library(tmp_path / "own")
    script = f"read line; LD_LIBRARY_PATH={copied.parent} exec {path}"
    with running("sh", "-c", script) as program, drive(catalog, bind_processes(program.pid)) as driver:
        assert program.stdin is not None
        program.stdin.write(b"\n")
        let_lock(program)
        driver.sample()
        addresses = let_lock(program)
        driver.sample()
    (said,) = driver.collector.degradations()
    assert str(copied) in said
    assert addresses[1] in [row["addr"] for row in driver.rows]


def test_a_program_without_the_functions_is_refused(catalog: Catalog, tmp_path: Path) -> None:
    """One that runs already, of which no file has them by its symbols; the remedy is what sees any lock sleep."""
    path = compile_c(tmp_path, "stripped", "#include <stdio.h>\nint main(void) { return getchar(); }", "-static", "-s")
    with running(str(path)) as program:
        while Path(f"/proc/{program.pid}/exe").readlink() != path:
            os.sched_yield()
        with pytest.raises(MachineRefused, match="has a function pthread_mutex_lock") as refused:
            drive(catalog, bind_processes(program.pid)).__enter__()
    assert "sched.futex" in (refused.value.remedy or "")


def test_what_had_not_ended_at_the_close_is_a_wait_or_a_hold_until_there() -> None:
    """A mutex had by then has a time that it was held, one that was not has none, and what came later is cut."""
    layout = np.dtype([("ns", "u8"), ("began_ns", "u8"), ("acquired_ns", "u8"), ("wait_ns", "i8"), ("held_ns", "i8")])
    records = np.array([(90, 50, 60, 10, 30), (130, 60, 70, 10, 60), (140, 70, 120, 50, 20)], layout)
    left = np.array([(0, 80, 0, 0, -1), (0, 80, 95, 15, -1), (0, 110, 0, 0, -1)], layout)
    whole, unfinished = end_at(records, left, 100)
    assert unfinished == 4
    told = [tuple(int(row[name]) for name in layout.names or ()) for row in whole]
    assert told == [
        (90, 50, 60, 10, 30),
        (100, 60, 70, 10, 30),
        (100, 70, 0, 30, -1),
        (100, 80, 0, 20, -1),
        (100, 80, 95, 15, 5),
    ]


def test_a_launched_interpreters_own_library_is_probed_before_it_runs(omn: Command) -> None:
    """Nothing is late, and what it locks from its beginning on is there."""
    code = "import threading; [threading.Thread(target=int).start() for _ in range(3)]"
    ran = omn("sched.mutex", "-m", "count", "-e", "count", "--format", "json", "--", sys.executable, "-c", code)
    assert ran.code == 0, ran.stderr
    (series,) = ran.result["series"]
    assert series["emits"]["count"]["events"] > 10
    assert not [said for said in ran.result["degraded"] if "mapped" in said]
    assert any("libc.so" in fact for fact in ran.result["facts"])
