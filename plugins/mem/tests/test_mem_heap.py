"""What a program asks of its allocator, held against programs that count their own calls and print their blocks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiled import compile_c
from omn_mem.allocations import AllocationLinks, Allocations
from omn_mem.block_lives import LIVE, REPLACED, compute_lives
from omn_mem.programs.heap import FREE, MALLOC, REALLOC

from omn_core.api import MachineRefused
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_typed_programs")
BACKENDS = {"bpf:uprobe_multi": AllocationLinks, "bpf:uprobe": Allocations}
CALLS = 10_000
# Two threads make so many blocks each and give them back; ten are kept, and three are too large for any machine.
THREADS = """
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#define HIDE(pointer) __asm__ volatile("" : "+r"(pointer))
__attribute__((noinline)) static void keep(void) { for (int i = 0; i < 10; i++) { void *p = malloc(1000); HIDE(p); } }
__attribute__((noinline)) static void *fail(void) {
    size_t huge = SIZE_MAX / 4;
    HIDE(huge);
    char *one = malloc(huge), *two = calloc(huge, 16), *three = aligned_alloc(4096, huge);
    HIDE(one);
    return one ? one : two ? two : three;
}
__attribute__((noinline)) static void *work(void *nothing) {
    for (int i = 0; i < CALLS; i++) { void *p = malloc(64); HIDE(p); free(p); }
    return nothing;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(threads + i, 0, work, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    keep();
    return fail() != 0;
}
"""
# For each byte that it reads it asks for blocks in every way, and writes the address of each and what it gave back.
WAYS = """
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define HIDE(pointer) __asm__ volatile("" : "+r"(pointer))
static char text[4096];
static int size;
static void say(const char *way, void *block) { size += sprintf(text + size, "%s %p ", way, block); }
int main(void) {
    char byte;
    void *before = malloc(77);
    while (read(0, &byte, 1) == 1) {
        size_t huge = SIZE_MAX / 4;
        HIDE(huge);
        size = 0;
        void *kept = malloc(11);
        HIDE(kept);
        say("malloc", kept);
        void *cleared = calloc(3, 7);
        HIDE(cleared);
        say("calloc", cleared);
        void *moved = realloc(cleared, 5000);
        HIDE(moved);
        say("realloc", moved);
        if (realloc(moved, huge)) return 1;
        void *aligned = 0;
        if (posix_memalign(&aligned, 64, 640)) return 1;
        say("posix_memalign", aligned);
        void *other = aligned_alloc(64, 128);
        HIDE(other);
        say("aligned_alloc", other);
        free(other);
        free(before);
        before = 0;
        text[size - 1] = '\\n';
        if (write(1, text, size) != size) return 2;
    }
    _exit(0);
}
"""
# An allocator of its own, which calls itself: a larger block is a new one, and the old one is given back.
OWN = """
#include <stddef.h>
#include <string.h>
static char room[1 << 20];
static size_t used;
void *malloc(size_t size) { void *block = room + used; used += (size + 31) / 16 * 16; return block; }
void free(void *block) { __asm__ volatile("" : "+r"(block)); }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *old, size_t size) {
    if (size > sizeof room) return 0;
    void *block = malloc(size);
    if (old) { memcpy(block, old, 16); free(old); }
    return block;
}
int posix_memalign(void **place, size_t to, size_t size) { *place = malloc(size + to); return 0; }
void *aligned_alloc(size_t to, size_t size) { return malloc(size + to); }
"""


def drive(catalog: Catalog, pid: int, backend: str = "bpf:uprobe") -> Driver:
    target = bind_processes(pid)
    resolved = resolve_onto(catalog.entries["mem.heap.alloc"], backend, target.target, mode="trace", keys=("task",))
    return Driver(BACKENDS[backend](), resolved, target)


@contextmanager
def running(path: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that waits for bytes, each of which has it answer with a line, until its input ends."""
    pipe = subprocess.PIPE
    with subprocess.Popen([path], stdin=pipe, stdout=pipe, bufsize=0, env={**os.environ, **environment}) as program:
        while Path(f"/proc/{program.pid}/exe").readlink() != path:
            os.sched_yield()
        while not Path(f"/proc/{program.pid}/syscall").read_bytes().startswith(b"0 "):
            os.sched_yield()
        yield program
        program.communicate()


def let_allocate(program: subprocess.Popen[bytes]) -> dict[str, str]:
    """Have it ask for blocks, and return where each way's is."""
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(b"x")
    words = program.stdout.readline().decode().split()
    return dict(zip(words[::2], words[1::2], strict=True))


def find(rows: list[dict[str, Any]], way: str, address: str) -> dict[str, Any]:
    ways = {"aligned_alloc", "memalign"} if way == "aligned_alloc" else {way}
    (row,) = [row for row in rows if row["op"] in ways and row.get("addr") == address]
    return row


@pytest.mark.spec("MEM-1")
@pytest.mark.parametrize("backend", ["preload", "bpf:uprobe"])
def test_every_block_is_there_and_what_is_kept_is_live(omn: Command, tmp_path: Path, backend: str) -> None:
    """By who asked: two threads' blocks one by one, all given back; ten that are kept; three that were refused.

    By the library and by probes alike.
    """
    path = compile_c(tmp_path, "threads", THREADS, "-O1", "-pthread", "-fno-builtin", f"-DCALLS={CALLS}")
    asked = ["-m", "trace", "-e", "summary", "-e", "summary@live_bytes", "--keys", "func", "--format", "json"]
    ran = omn("mem.heap.alloc", "--backend", f"force:{backend}", *asked, "--", str(path))
    assert ran.code == 0, ran.stderr
    assert ran.result["losses"]["dropped"] == 0
    said = {series["key"].get("func"): series["emits"] for series in ran.result["series"]}
    asked_for = {name: (emits["summary"]["count"], emits["summary"]["total"]) for name, emits in said.items()}
    assert asked_for["work"] == (2 * CALLS, 2 * CALLS * 64)
    assert asked_for["keep"] == (10, 10_000)
    assert asked_for["fail"] == (3, 0)
    rows = {name: emits["summary@live_bytes"]["rows"] for name, emits in said.items()}
    live = {name: [(row["attr"], row["count"]) for row in of_one] for name, of_one in rows.items()}
    assert live["work"] == [(0, 2 * CALLS)]
    assert live["keep"] == [(1000, 10)]
    assert live["fail"] == [(0, 3)]
    fields = ran.result["fields"]
    assert fields["frees"] >= 2 * CALLS
    # What the C library keeps for its threads is live too.
    assert 10 <= fields["live"] < 100
    assert fields["live_bytes"] >= 10_000


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_way_to_ask_is_told_with_its_size_and_its_end(catalog: Catalog, tmp_path: Path, backend: str) -> None:
    """Of a process that runs already: what it made before is not known, and giving it back is counted."""
    path = compile_c(tmp_path, "ways", WAYS, "-O1", "-fno-builtin")
    with running(path) as program:
        try:
            driver = drive(catalog, program.pid, backend).__enter__()
        except MachineRefused as refusal:
            pytest.skip(f"this kernel has no {backend}: {refusal.reason}")
        made = let_allocate(program)
        driver.sample()
        driver.__exit__(None, None, None)
    rows = driver.rows
    assert len(rows) == 6
    sizes = {"malloc": 11, "calloc": 21, "realloc": 5000, "posix_memalign": 640, "aligned_alloc": 128}
    for way, size in sizes.items():
        row = find(rows, way, made[way])
        is_live = way not in ("calloc", "aligned_alloc")
        assert (row["bytes"], row["allocations"], "failed_bytes" in row) == (size, 1, False)
        assert (row["live_bytes"], "lifetime_ns" in row) == (size if is_live else 0, not is_live)
    (refused,) = [row for row in rows if row["allocations"] == 0]
    assert (refused["op"], refused["bytes"], refused["failed_bytes"] > 1 << 60) == ("realloc", 0, True)
    fields = driver.collector.fields()
    assert (fields["live"], fields["live_bytes"], fields["frees_of_unknown"]) == (3, 11 + 5000 + 640, 1)


def test_an_allocator_of_a_programs_own_is_told_by_its_outermost_calls(catalog: Catalog, tmp_path: Path) -> None:
    """What it asks of itself is no call of the program's."""
    path = compile_c(tmp_path, "ways", WAYS, "-O1", "-fno-builtin")
    library = compile_c(tmp_path, "libown.so", OWN, "-O1", "-shared", "-fPIC", "-fno-builtin")
    with running(path, LD_PRELOAD=str(library)) as program, drive(catalog, program.pid) as driver:
        made = let_allocate(program)
        driver.sample()
    assert str(library) in driver.collector.facts()[0]
    rows = driver.rows
    assert sorted(row["op"] for row in rows) == [
        "aligned_alloc",
        "calloc",
        "malloc",
        "posix_memalign",
        "realloc",
        "realloc",
    ]
    assert find(rows, "realloc", made["realloc"])["bytes"] == 5000
    assert driver.collector.fields()["live_bytes"] == 11 + 5000 + 640


def test_a_program_without_an_allocator_to_be_seen_is_refused(catalog: Catalog, tmp_path: Path) -> None:
    """One that runs already, of which no file names it; the remedy is what sees the pages of any."""
    source = "#include <stdio.h>\nint main(void) { return getchar(); }"
    path = compile_c(tmp_path, "stripped", source, "-static", "-s")
    with running(path) as program, pytest.raises(MachineRefused, match="has a function malloc") as refused:
        drive(catalog, program.pid).__enter__()
    assert "mem.faults" in (refused.value.remedy or "")


def test_frees_are_matched_to_what_they_free() -> None:
    """By process and address, at each in time; a block that moves is freed and made at once; a late free is none."""
    layout = np.dtype([("ns", "u8"), ("process", "i4"), ("op", "u4"), ("addr", "u8"), ("given", "u8"), ("bytes", "u8")])
    records = np.array(
        [
            (10, 1, MALLOC, 0x10, 0, 8),
            (11, 2, MALLOC, 0x10, 0, 8),
            (12, 1, FREE, 0, 0x10, 0),
            (13, 1, MALLOC, 0x10, 0, 8),
            (14, 1, REALLOC, 0x10, 0x10, 9),
            (15, 1, REALLOC, 0x20, 0x10, 99),
            (16, 1, REALLOC, 0, 0x20, 1 << 60),
            (17, 1, FREE, 0, 0x30, 0),
            (18, 1, MALLOC, 0x40, 0, 1),
            (19, 1, MALLOC, 0x40, 0, 1),
            (20, 1, REALLOC, 0, 0x40, 0),
            (31, 1, FREE, 0, 0x20, 0),
        ],
        layout,
    )
    lives = compute_lives(records, records["ns"], 30)
    assert lives.ended_ns[[0, 1, 3, 4, 5, 8, 9]].tolist() == [12, LIVE, 14, 15, LIVE, REPLACED, 20]
    assert lives.unknown == 1


def test_an_address_that_a_move_gave_away_is_anothers() -> None:
    """From where the move began: what another thread made there meanwhile lives on."""
    layout = np.dtype([("ns", "u8"), ("process", "i4"), ("op", "u4"), ("addr", "u8"), ("given", "u8"), ("bytes", "u8")])
    records = np.array(
        [(10, 1, MALLOC, 0x10, 0, 8), (15, 1, MALLOC, 0x10, 0, 8), (20, 1, REALLOC, 0x20, 0x10, 99)], layout
    )
    began_ns = np.array([10, 15, 12], np.uint64)
    assert compute_lives(records, began_ns, 30).ended_ns.tolist() == [12, LIVE, LIVE]
