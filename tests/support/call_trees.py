"""A program whose every way of burning time is in calls that are known: the truth of walked stacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from compiled import compile_c

LIBRARY = """
__attribute__((noinline)) static int through(int (*callback)(int), int x) { return callback(x + 1) + 1; }
int called_back(int (*callback)(int), int x) { return through(callback, x) + 2; }
"""

PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOT_INLINED __attribute__((noinline, noclone))
int called_back(int (*callback)(int), int x);
volatile uint64_t sink;
static const char *self;

NOT_INLINED void burn(int n) { for (int i = 0; i < n * 1000; i++) sink += i; }
NOT_INLINED int task(int n) { burn(30000); sink++; return n; }
NOT_INLINED int plain(int n) { return task(n) + 1; }
NOT_INLINED int in_library(int n) { return called_back(task, n) + 1; }
NOT_INLINED int descend(int n) { return n ? descend(n - 1) * 3 + 1 : plain(n) + 1; }
NOT_INLINED static void on_signal(int number) { task(number); sink++; }
NOT_INLINED int signalled(int n) { signal(SIGUSR1, on_signal); raise(SIGUSR1); return n; }

NOT_INLINED int in_linkage(int n)
{
    for (int i = 0; i < 8000000; i++)
        sink += (uint64_t)called_back(abs, i);
    return n;
}

NOT_INLINED int in_vdso(int n)
{
    struct timespec now;

    for (int i = 0; i < 1000000; i++)
        clock_gettime(CLOCK_MONOTONIC, &now);
    return n + (int)now.tv_nsec;
}

static void *job(void *given) { return (void *)(uintptr_t)plain((int)(uintptr_t)given); }
NOT_INLINED int pool(int n)
{
    pthread_t threads[3];

    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, job, (void *)(uintptr_t)i);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return n;
}

NOT_INLINED int in_child(int n)
{
    pid_t child = vfork();
    int status;

    if (child == 0) {
        execl(self, "child", "plain", (char *)0);
        _exit(9);
    }
    waitpid(child, &status, 0);
    return n + status;
}

/* sub $8,%rsp; mov %rdi,%rax; mov %esi,%edi; call *%rax; add $8,%rsp; ret */
static const unsigned char CODE[] = {0x48, 0x83, 0xec, 8,    0x48, 0x89, 0xf8, 0x89,
                                     0xf7, 0xff, 0xd0, 0x48, 0x83, 0xc4, 8,    0xc3};
NOT_INLINED int in_generated(int n)
{
    void *code = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int (*call)(int (*)(int), int) = (int (*)(int (*)(int), int))code;

    memcpy(code, CODE, sizeof CODE);
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    return call(task, n) + 1;
}

int main(int count, char **words)
{
    self = "/proc/self/exe";
    for (int at = 1; at < count; at++) {
        if (!strcmp(words[at], "plain")) plain(1);
        if (!strcmp(words[at], "library")) in_library(1);
        if (!strcmp(words[at], "deep")) descend(5000);
        if (!strcmp(words[at], "signal")) signalled(1);
        if (!strcmp(words[at], "linkage")) in_linkage(1);
        if (!strcmp(words[at], "vdso")) in_vdso(1);
        if (!strcmp(words[at], "pool")) pool(1);
        if (!strcmp(words[at], "child")) in_child(1);
        if (!strcmp(words[at], "generated")) in_generated(1);
    }
    return 0;
}
"""


def compile_calls(folder: Path, *flags: str) -> Path:
    """Compile the program, and a library that calls back into it."""
    library = compile_c(folder, "libback.so", LIBRARY, "-shared", "-fPIC", *flags)
    linked = ("-Wl,-z,now", str(library), f"-Wl,-rpath,{folder}", "-pthread")
    return compile_c(folder, "calls", PROGRAM, *flags, "-fno-optimize-sibling-calls", *linked)


def list_outward(result: Mapping[str, Any], leaf: str) -> list[tuple[str, ...]]:
    """List the stacks that a function is in, from it on outward, each once."""
    rows = result["series"][0]["emits"]["stack"]["rows"]
    found = [row["frames"][row["frames"].index(leaf) :] for row in rows if leaf in row["frames"]]
    return sorted({tuple(frames) for frames in found})


def drop_marks(stacks: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Drop the marks of recovered frames."""
    return sorted({tuple(frame.removesuffix(" [recovered]") for frame in stack) for stack in stacks})
