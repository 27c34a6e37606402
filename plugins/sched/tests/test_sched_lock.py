"""Waits for locks of the kernel, held against a program that makes each of them by holding a file's lock."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled import compile_c
from event_backends import EACH_BACKEND, RECORDED
from omn_kernel.btf.kernel import read_kernel_btf
from omn_sched.lock_waits import name_lock

from omn_core.testing.fixtures import Command

ROUNDS = 20
# A thread writes to a file from memory whose page is not there, and so keeps the file's lock until the page is given it
# (userfaultfd); meanwhile another writes to the same file, and waits for the lock. The page is given when /proc says
# that the other sleeps and is off its cpu: the kernel says that it sleeps a little before it begins to. Prints the
# numbers of the two, and how long each wait was at least and at most.
CONTEND = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int file, holder, waiter;
static char *page;
static long long waited;
static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static void *hold(void *nothing) { holder = gettid(); return pwrite(file, page, 1, 0) == 1 ? nothing : page; }
static void *wait(void *nothing) {
    __atomic_store_n(&waiter, gettid(), __ATOMIC_SEQ_CST);
    long long began = now();
    if (pwrite(file, "x", 1, 0) != 1) return page;
    waited = now() - began;
    return nothing;
}
static char state_of(int thread) {
    char path[64], text[256], state;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *stat = fopen(path, "r");
    if (!stat || !fgets(text, sizeof text, stat)) exit(4);
    fclose(stat);
    sscanf(strrchr(text, ')'), ") %c", &state);
    return state;
}
static int is_off(int thread) {
    char path[64], text[8];
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
    FILE *call = fopen(path, "r");
    if (!call || !fgets(text, sizeof text, call)) exit(4);
    fclose(call);
    return text[0] != 'r';
}
int main(int count, char **arguments) {
    FILE *out = fopen(arguments[1], "w");
    file = open(arguments[2], O_CREAT | O_RDWR, 0600);
    int faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api)) return 3;
    for (int round = 0; round < ROUNDS; round++) {
        page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct uffdio_register over = {.range = {(unsigned long)page, 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
        if (ioctl(faults, UFFDIO_REGISTER, &over)) return 3;
        pthread_t first, second;
        struct uffd_msg message;
        waiter = 0;
        pthread_create(&first, 0, hold, 0);
        if (read(faults, &message, sizeof message) != sizeof message) return 3;
        pthread_create(&second, 0, wait, 0);
        while (!__atomic_load_n(&waiter, __ATOMIC_SEQ_CST) || state_of(waiter) != 'D' || !is_off(waiter)) sched_yield();
        long long slept = now();
        usleep(1000);
        slept = now() - slept;
        struct uffdio_zeropage give = {.range = over.range};
        if (ioctl(faults, UFFDIO_ZEROPAGE, &give)) return 3;
        pthread_join(first, 0);
        pthread_join(second, 0);
        fprintf(out, "%d %d %lld %lld\\n", holder, waiter, slept, waited);
    }
    return count != 3;
}
"""


@pytest.fixture(autouse=True)
def _tells_of_contention(loads_typed_programs: None) -> None:
    if read_kernel_btf("/").find_tracepoint("contention_begin") is None:
        pytest.skip("this kernel has no tracepoint contention_begin")


@pytest.mark.spec("SRC-2")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_each_wait_for_a_files_lock_is_there(omn: Command, tmp_path: Path, backend: str) -> None:
    """One of each thread that found the file's lock held, as long as that, from where it was; none of holders."""
    path = compile_c(tmp_path, "contend", CONTEND.replace("ROUNDS", str(ROUNDS)), "-O1", "-pthread")
    out = tmp_path / "out"
    asked = ["-m", "trace", "-e", "raw", "-e", "stack", "--filter", 'lock == "rwsem:W"', "--format", "json"]
    ran = omn("sched.lock", *asked, "--backend", f"force:{backend}", "--", str(path), str(out), str(tmp_path / "file"))
    assert ran.code == 0, ran.stderr
    if ran.document["program"]["exit"] == {"code": 3}:
        pytest.skip("userfaultfd is closed here")
    assert ran.result["losses"]["dropped"] == 0
    known = [[int(part) for part in line.split()] for line in out.read_text().splitlines()]
    assert len(known) == ROUNDS
    rows = [(row["key"]["task"], row["attrs"], row["stack"]) for row in ran.result["raw"]]
    of_file = [(task, attributes) for task, attributes, stack in rows if "vfs_write" in stack]
    skipped = ran.result["losses"]["skipped"]
    assert backend == RECORDED or skipped == 0
    assert len(of_file) >= ROUNDS - skipped
    waits = {waiter: (slept_ns, waited_ns) for _, waiter, slept_ns, waited_ns in known}
    assert len({task for task, _ in of_file}) == len(of_file)
    for task, attributes in of_file:
        slept_ns, waited_ns = waits[task]
        assert slept_ns <= attributes["wait_ns"] <= waited_ns
    assert len({attributes["addr"] for _, attributes in of_file}) == 1


def test_sums_of_the_machine_are_by_kind_of_lock(omn: Command, tmp_path: Path) -> None:
    """What the program waited is in the sum of its kind, whoever else waits."""
    path = compile_c(tmp_path, "contend", CONTEND.replace("ROUNDS", str(ROUNDS)), "-O1", "-pthread")
    out = tmp_path / "out"
    asked = ["-m", "count", "-e", "topk:9@lock", "--system", "--format", "json"]
    ran = omn("sched.lock", *asked, "--", str(path), str(out), str(tmp_path / "file"))
    assert ran.code == 0, ran.stderr
    if ran.document["program"]["exit"] == {"code": 3}:
        pytest.skip("userfaultfd is closed here")
    (series,) = ran.result["series"]
    ranked = {row["key"]["lock"]: row["value"] for row in series["emits"]["topk:9@lock"]["rows"]}
    assert ranked["rwsem:W"] >= sum(int(line.split()[2]) for line in out.read_text().splitlines())


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (0, "semaphore"),
        (1, "spinlock"),
        (1 | 2, "rwlock:R"),
        (1 | 4, "rwlock:W"),
        (2, "rwsem:R"),
        (4, "rwsem:W"),
        (8, "rt-mutex"),
        (8 | 2, "rwlock-rt:R"),
        (16 | 2, "pcpu-sem:R"),
        (32, "mutex"),
        (32 | 1, "mutex"),
    ],
)
def test_locks_have_the_names_of_perf(flags: int, name: str) -> None:
    """By what their waiters do."""
    assert name_lock(flags) == name
