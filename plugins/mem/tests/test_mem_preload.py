"""The library on a program's allocator, held against programs that count their own calls and print their blocks."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from compiled import compile_c
from omn_kernel.injected.collecting import MOST_RECORDS

from omn_core.testing.fixtures import Command, Ran

PINNED = ("--backend", "force:preload")
# A block that moves, one that is too large, a child that gives back what its parent made, and what this executes; what
# each asked for is summed up by itself. No descriptor is there but its own three, and nothing changes errno.
TREE = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define HIDE(pointer) __asm__ volatile("" : "+r"(pointer))
__attribute__((noinline)) static void *ask(size_t size) { void *p = malloc(size); HIDE(p); return p; }
__attribute__((noinline)) static int count_descriptors(void) {
    int count = 0;
    for (int i = 0; i < 256; i++) count += fcntl(i, F_GETFD) >= 0;
    return count;
}
__attribute__((noinline)) static int second(void) {
    size_t huge = SIZE_MAX / 2;
    HIDE(huge);
    errno = 77;
    ask(300);
    if (errno != 77) return 3;
    if (reallocarray(NULL, huge, 4) || errno != ENOMEM) return 4;
    kill(getpid(), SIGKILL);
    return 5;
}
int main(int count, char **words) {
    if (count > 1) return second();
    int descriptors = count_descriptors(), status;
    char *first = ask(100);
    for (int i = 0; i < 100; i++) first[i] = i;
    for (int size = 1000; size <= 1000000; size *= 10) first = realloc(first, size);
    for (int i = 0; i < 100; i++) if (first[i] != i) return 6;
    if (fork() == 0) {
        free(first);
        ask(200);
        execv(words[0], (char *[]){words[0], "second", NULL});
        _exit(7);
    }
    wait(&status);
    if (vfork() == 0) {
        execl(STATIC, "still", NULL);
        _exit(8);
    }
    wait(NULL);
    char text[64];
    int size = snprintf(text, sizeof text, "%d %d\\n", descriptors, WIFSIGNALED(status) ? WTERMSIG(status) : -1);
    return write(1, text, size) == size ? 0 : 9;
}
"""
STILL = "int main(void) { return 0; }"
# What is waiting in a stream is written behind everything that a program does on its way out, libraries' included.
DIES_LATE = """
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
static ssize_t put(void *nothing, const char *text, size_t size) { raise(SIGSEGV); return size; }
int main(void) {
    void *block = malloc(1000);
    __asm__ volatile("" : "+r"(block));
    FILE *late = fopencookie(NULL, "w", (cookie_io_functions_t){.write = put});
    fputs("waiting", late);
    return 0;
}
"""
MANY = """
#include <stdlib.h>
int main(void) {
    for (int i = 0; i < CALLS; i++) { void *p = malloc(i % 2 ? 10 : 50); __asm__ volatile("" : "+r"(p)); free(p); }
    return 0;
}
"""
DIES = '#include <stdlib.h>\nint main(void) { void *p = malloc(9); __asm__ volatile("" : "+r"(p)); abort(); }'
OWN = """
#include <stddef.h>
static char room[1 << 20];
static size_t used;
void *malloc(size_t size) { void *block = room + used; used += (size + 31) / 16 * 16; return block; }
void free(void *block) { __asm__ volatile("" : "+r"(block)); }
int main(void) { free(malloc(5)); return 0; }
"""


def ask(omn: Command, *words: str, mode: str = "trace", **environment: str) -> Ran:
    """Ask for events on the library, those of each process apart."""
    return omn("mem.heap.alloc", *PINNED, "-m", mode, "--format", "json", *words, **environment)


@pytest.mark.spec("MEM-1", "CST-2")
def test_blocks_are_followed_through_moves_forks_and_execs(omn: Command, tmp_path: Path) -> None:
    """Each as the program itself knows it; what was executed without the library is named, and none is zero."""
    still = compile_c(tmp_path, "still", STILL, "-static")
    path = compile_c(tmp_path, "tree", TREE, "-O1", "-fno-builtin", f'-DSTATIC="{still}"')
    ran = ask(omn, "-e", "raw", "--", "sh", "-c", f'ulimit -n 64; exec "{path}" >"{tmp_path}/said"')
    assert ran.code == 0, ran.stderr
    assert (tmp_path / "said").read_text() == "3 9\n"
    rows = [row for row in ran.result["raw"] if row["key"]["comm"] == "tree"]
    made = [(row["stack"][0], row["attrs"]["op"], row["attrs"]["bytes"]) for row in rows]
    chain = [size for _, way, size in made if way == "realloc" and size]
    assert chain == [1000, 10_000, 100_000, 1_000_000]
    live = {row["attrs"]["bytes"]: row["attrs"]["live_bytes"] for row in rows}
    # What the child gives back is its own copy: its parent's is live.
    assert {size: live[size] for size in (100, 200, 300, 1_000_000)} == {
        100: 0,
        200: 200,
        300: 300,
        1_000_000: 1_000_000,
    }
    assert [size for func, _, size in made if func == "ask"] == [100, 200, 300]
    (refused,) = [row["attrs"] for row in rows if not row["attrs"]["allocations"]]
    assert (refused["op"], refused["failed_bytes"] > 1 << 60) == ("realloc", True)
    assert ran.result["fields"]["frees_of_unknown"] >= 1
    assert [one for one in ran.result["degraded"] if "executed without the library" in one and "still" in one]
    assert ran.document["cost"]["in_target"]["cpu_ns"] >= 0
    assert not ran.document["cost"]["in_target"]["unknown"]


@pytest.mark.spec("MEM-1", "EMT-2")
def test_a_count_has_no_bound(omn: Command, tmp_path: Path) -> None:
    """Calls that are alike are one row while they come: twice as many as a run holds are counted, and their bytes."""
    calls = MOST_RECORDS * 2
    path = compile_c(tmp_path, "many", MANY, "-O1", "-fno-builtin", f"-DCALLS={calls}")
    ran = ask(omn, "-e", "count", "-e", "topk:1@op", "-e", "hist", "--keys", "func", "--", str(path), mode="count")
    assert ran.code == 0, ran.stderr
    assert ran.result["losses"]["dropped"] == 0
    (emits,) = [one["emits"] for one in ran.result["series"] if one["key"].get("func") == "main"]
    total = calls // 2 * (10 + 50)
    assert (emits["count"]["events"], emits["count"]["value"]) == (calls, total)
    assert emits["topk:1@op"]["rows"][0] == {"key": {"op": "malloc"}, "value": total, "share": 1.0}
    assert [bucket["count"] for bucket in emits["hist"]["buckets"] if bucket["count"]] == [calls // 2] * 2
    assert ran.result["fields"]["frees"] == calls
    assert "live" not in ran.result["fields"]


@pytest.mark.spec("RUN-16")
def test_a_death_on_the_librarys_way_out_is_the_tools(omn: Command, tmp_path: Path) -> None:
    """Said, with what was counted until then, and exit 1; a program that dies by itself is the program's affair."""
    late = compile_c(tmp_path, "late", DIES_LATE, "-O1", "-fno-builtin")
    ran = ask(omn, "-e", "summary", "--keys", "func", "--", str(late))
    assert ran.code == 1
    assert ran.stderr.splitlines()[-1] == "omn: the run failed after its results were written"
    assert [one for one in ran.result["degraded"] if "SIGSEGV" in one and "way out" in one]
    (of_main,) = [one["emits"]["summary"] for one in ran.result["series"] if one["key"].get("func") == "main"]
    assert (of_main["count"], of_main["total"]) == (1, 1000)
    early = compile_c(tmp_path, "early", DIES, "-O1", "-fno-builtin")
    died = ask(omn, "-e", "summary", "--", str(early))
    assert (died.code, died.document["program"]["exit"]) == (0, {"signal": "SIGABRT"})
    assert not [one for one in died.result["degraded"] if "way out" in one]


@pytest.mark.spec("MEM-1")
def test_whom_the_library_is_not_in_is_named_or_refused(omn: Command, tmp_path: Path) -> None:
    """Alone it is refused before it runs, with what would see it; beside others it is a degradation, and no zero."""
    path = compile_c(tmp_path, "own", OWN, "-O1", "-fno-builtin")
    alone = ask(omn, "-e", "count", "--", str(path), mode="count")
    assert alone.code == 1
    assert "has a function malloc of its own" in alone.stderr
    assert "bpf:uprobe" in alone.stderr
    ran = ask(omn, "-e", "count", "--", "sh", "-c", f'"{path}"; env -i ls >/dev/null', mode="count")
    assert ran.code == 0, ran.stderr
    assert [one for one in ran.result["degraded"] if "an allocator of their own" in one]
    assert [one for one in ran.result["degraded"] if re.search("executed without the library.*: ls$", one)]


SEVERAL: list[dict[str, Any]] = [
    {"mode": "count", "emits": ["count"], "value": "allocations"},
    {"mode": "count", "emits": ["count"], "keys": ["func"]},
    {"mode": "trace", "emits": ["stack"]},
]


@pytest.mark.spec("MEM-1", "CST-2")
def test_several_requests_have_one_library(omn: Command, tmp_path: Path) -> None:
    """Each answers as it would alone: how many calls, of which function how many bytes, and each by its stack."""
    calls = 3000
    inner = MANY.replace("int main", "__attribute__((noinline)) int work") + "int main(void) { return work(); }"
    path = compile_c(tmp_path, "many", inner, "-O1", "-fno-builtin", "-fno-omit-frame-pointer", f"-DCALLS={calls}")
    common = {"source": "mem.heap.alloc", "backend": "preload", "target": {"launch": [str(path)]}}
    session = tmp_path / "several.json"
    session.write_text(json.dumps({"requests": [{**common, **one} for one in SEVERAL]}))
    ran = omn("-f", str(session), "--format", "json")
    assert ran.code == 0, ran.stderr
    of_all, by_function, traced = ran.document["results"]
    (whole,), (single,) = of_all["series"], traced["series"]
    (of_work,) = [one["emits"]["count"] for one in by_function["series"] if one["key"].get("func") == "work"]
    assert (of_work["events"], of_work["value"]) == (calls, calls // 2 * 60)
    (stack,) = [row for row in single["emits"]["stack"]["rows"] if row["frames"][0] == "work"]
    assert (stack["count"], stack["weight"]) == (calls, calls // 2 * 60)
    assert stack["frames"][1] == "main"
    # Who starts a program may have it call more than its own.
    events = [one["fields"]["delivered"] for one in ran.document["results"]]
    assert events == [whole["emits"]["count"]["events"]] * 3
    assert events[0] >= calls
    assert not any(one["losses"]["dropped"] for one in ran.document["results"])
    assert ran.document["cost"]["in_target"]["cpu_ns"] > 0
    assert not ran.document["cost"]["in_target"]["unknown"]


def test_one_omn_has_the_library_and_a_running_process_has_none(omn: Command) -> None:
    """A second is refused with what serves it; so is a process that runs already, by the chain."""
    twice: Any = omn("mem.heap.alloc", *PINNED, "-m", "count", "-e", "count", "--", "true", OMN_HEAP_MEMORY="/other")
    assert (twice.code, "another omn has the library" in twice.stderr) == (1, True)
    running = omn("mem.heap.alloc", *PINNED, "-m", "count", "-e", "count", "--pid", str(os.getpid()), "-d", "10ms")
    assert running.code in (1, 2)
    assert "preload" in running.stderr
