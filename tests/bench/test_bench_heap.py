"""What a library in front of a program's allocator, and probes on it, cost the program, beside heaptrack."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from compiled import compile_c
from omn_kernel.privileges import read_privileges

CALLS = 100_000
PROGRAM = """
#include <pthread.h>
#include <stdlib.h>
static void *work(void *nothing) {
    for (int i = 0; i < CALLS; i++) { void *block = malloc(64); __asm__ volatile("" : "+r"(block)); free(block); }
    return nothing;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(threads + i, 0, work, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
"""


def run(*argv: str) -> float:
    """Run a command, and return the seconds that it took."""
    began = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True)
    return time.perf_counter() - began


def measure(omn: Any, path: Path, backend: str) -> float:
    """Ask for every block by a function on one of the backends, all of them there: the seconds that the program ran."""
    asked = ["--backend", f"force:{backend}", "-m", "count", "-e", "count", "--keys", "func", "--format", "json"]
    ran = omn("mem.heap.alloc", *asked, "--", str(path))
    assert ran.code == 0, ran.stderr
    counted = {series["key"].get("func"): series["emits"]["count"]["events"] for series in ran.result["series"]}
    assert (counted["work"], ran.result["losses"]["dropped"]) == (2 * CALLS, 0)
    seconds: float = ran.document["program"]["lifetime_ns"] / 1e9
    return seconds


@pytest.mark.spec("MEM-1")
def test_two_threads_blocks_are_all_counted_and_what_that_costs(omn: Any, tmp_path: Path) -> None:
    """200,000 of 200,000, and how much slower the program is than alone, beside heaptrack's figure."""
    path = compile_c(tmp_path, "threads", PROGRAM, "-O1", "-pthread", "-fno-builtin", f"-DCALLS={CALLS}")
    alone = min(run(str(path)) for _ in range(3))
    ours = min(measure(omn, path, "preload") for _ in range(3))
    print(f"\nmem.heap.alloc by the library: {ours / alone:.1f}x the program's own time of {alone * 1000:.1f} ms")
    if read_privileges("/").has("bpf"):
        print(f"by probes: {measure(omn, path, 'bpf:uprobe') / alone:.0f}x")
    if shutil.which("heaptrack") is None:
        return
    empty = compile_c(tmp_path, "empty", "int main(void) { return 0; }")
    # What it takes to start and to interpret what it wrote is none of the program's.
    began = min(run("heaptrack", "--raw", "-o", str(tmp_path / "none"), str(empty)) for _ in range(3))
    theirs = min(run("heaptrack", "--raw", "-o", str(tmp_path / "heap"), str(path)) for _ in range(3)) - began
    print(f"heaptrack: {theirs / alone:.1f}x, its start left out")
