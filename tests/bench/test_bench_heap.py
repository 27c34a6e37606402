"""What a library in front of a program's allocator, and probes on it, cost the program, beside heaptrack."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiled import compile_c
from omn_kernel.privileges import read_privileges

CALLS = 100_000
TRIES = 5
# It says what cpu its calls took: nothing of a tool's start is in that, nor what else a busy machine does.
PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static void *work(void *nothing) {
    for (int i = 0; i < CALLS; i++) { void *block = malloc(64); __asm__ volatile("" : "+r"(block)); free(block); }
    return nothing;
}
static double read_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}
int main(int count, char **words) {
    pthread_t threads[2];
    double began = read_ms();
    for (int i = 0; i < 2; i++) pthread_create(threads + i, 0, work, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    FILE *said = fopen(words[1], "w");
    fprintf(said, "%f", read_ms() - began);
    return fclose(said);
}
"""


def measure(omn: Any, program: tuple[str, str], backend: str) -> float:
    """Ask for every block by a function on one of the backends, all of them there: the cpu the calls took, in ms."""
    asked = ["--backend", f"force:{backend}", "-m", "count", "-e", "count", "--keys", "func", "--format", "json"]
    ran = omn("mem.heap.alloc", *asked, "--", *program)
    assert ran.code == 0, ran.stderr
    counted = {series["key"].get("func"): series["emits"]["count"]["events"] for series in ran.result["series"]}
    assert (counted["work"], ran.result["losses"]["dropped"]) == (2 * CALLS, 0)
    return float(Path(program[1]).read_text())


def run(*argv: str) -> float:
    """Run the program, alone or under heaptrack, and return the cpu its calls took, in ms."""
    subprocess.run(argv, check=True, capture_output=True)
    return float(Path(argv[-1]).read_text())


@pytest.mark.spec("MEM-1")
def test_two_threads_blocks_are_all_counted_and_what_that_costs(omn: Any, tmp_path: Path) -> None:
    """200,000 of 200,000; the library slows the calls down by at most 0.7 of what heaptrack does, in one run."""
    path = compile_c(tmp_path, "threads", PROGRAM, "-O1", "-pthread", "-fno-builtin", f"-DCALLS={CALLS}")
    program = (str(path), str(tmp_path / "said"))
    alone = min(run(*program) for _ in range(TRIES))
    ours = min(measure(omn, program, "preload") for _ in range(TRIES))
    print(f"\nmem.heap.alloc by the library: {ours / alone:.1f}x the {alone:.2f} ms of the program's calls alone")
    if read_privileges("/").has("bpf"):
        print(f"by probes: {measure(omn, program, 'bpf:uprobe') / alone:.0f}x")
    if shutil.which("heaptrack") is None:
        return
    theirs = min(run("heaptrack", "--raw", "-o", str(tmp_path / "heap"), *program) for _ in range(TRIES))
    print(f"heaptrack: {theirs / alone:.1f}x")
    assert ours <= 0.7 * theirs
