"""What probes on a program's functions cost it, beside heaptrack: as ratios of its own time, on one workload."""

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


@pytest.mark.spec("MEM-1")
def test_two_threads_blocks_are_all_counted_and_what_that_costs(omn: Any, tmp_path: Path) -> None:
    """200,000 of 200,000, and how much slower the program is than alone, beside heaptrack's figure."""
    if not read_privileges("/").has("bpf"):
        pytest.skip("this process is without CAP_BPF")
    path = compile_c(tmp_path, "threads", PROGRAM, "-O1", "-pthread", "-fno-builtin", f"-DCALLS={CALLS}")
    alone = min(run(str(path)) for _ in range(3))
    ran = omn("mem.heap.alloc", "-m", "count", "-e", "count", "--keys", "func", "--format", "json", "--", str(path))
    assert ran.code == 0, ran.stderr
    counted = {series["key"].get("func"): series["emits"]["count"]["events"] for series in ran.result["series"]}
    assert (counted["work"], ran.result["losses"]["dropped"]) == (2 * CALLS, 0)
    ours = ran.document["program"]["lifetime_ns"] / 1e9
    print(f"\nmem.heap.alloc by probes: {ours / alone:.0f}x the program's own time of {alone * 1000:.1f} ms")
    if shutil.which("heaptrack") is not None:
        theirs = run("heaptrack", "-o", str(tmp_path / "heap"), str(path))
        print(f"heaptrack: {theirs / alone:.0f}x, its start included")
