"""mem.faults, sampled and traced: each fault with whose it was and where in the code, against getrusage's count."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from closed_events import hold_served
from compiled import compile_c

from omn_core.testing.fixtures import Command, Ran

SOURCE = """
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
__attribute__((noinline)) void touch_hot(char *at, int pages) {
    for (int page = 0; page < pages; page++) at[page * 4096L] = 1;
}
__attribute__((noinline)) void touch_cold(char *at, int pages) {
    for (int page = 0; page < pages; page++) at[page * 4096L] = 1;
}
__attribute__((noinline)) long measured(char *at) {
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    touch_hot(at, 700);
    touch_cold(at + 700 * 4096L, 300);
    getrusage(RUSAGE_SELF, &after);
    return after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt;
}
int main(void) {
    char *at = mmap(0, 1000 * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(at, 1000 * 4096L, MADV_NOHUGEPAGE);
    printf("%p %ld\\n", (void *)at, measured(at));
    return 0;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return compile_c(tmp_path, "touching", SOURCE, "-O0", "-fno-omit-frame-pointer")


def run(omn: Command, program: Path, *arguments: str) -> Ran:
    out = program.parent / "out"
    ran = omn("mem.faults", *arguments, "--format", "json", "--program-stdout", str(out), "--", str(program))
    hold_served(ran.code, ran.stderr)
    return ran


def read_truth(program: Path) -> tuple[int, int]:
    """Read what the program printed: where it touched, and how many faults getrusage counted there."""
    at, count = (program.parent / "out").read_text().split()
    return int(at, 16), int(count)


@pytest.mark.spec("MEM-1", "EVT-6", "CAT-1")
def test_every_fault_is_traced_to_the_function_that_touched(omn: Command, program: Path) -> None:
    """As many as getrusage counted inside one function, by the functions it called, and each to its page."""
    ran = run(omn, program, "-m", "trace", "-e", "raw", "-e", "count", "--keys", "within")
    at, counted = read_truth(program)
    result = ran.result
    by_function = {one["key"]["within"]: one["emits"]["count"]["value"] for one in result["series"]}
    assert result["losses"]["dropped"] == 0
    assert counted >= 1000
    assert by_function["measured"] == counted
    assert (by_function["touch_hot"], by_function["touch_cold"]) == (700, 300)
    inside = [event for event in result["raw"] if "measured" in event.get("stack", ())]
    pages = Counter((event["attrs"]["addr"] - at) // 4096 for event in inside)
    assert {page: count for page, count in pages.items() if 0 <= page < 1000} == dict.fromkeys(range(1000), 1)
    assert result["fields"]["delivered"] == result["fields"]["counted"] == result["events_seen"]
    assert all("weight" not in event and event["attrs"]["faults"] == 1 for event in result["raw"])


@pytest.mark.spec("MEM-1", "EMT-2")
def test_samples_stand_for_what_the_event_counted(omn: Command, program: Path) -> None:
    """Each for its period: what comes after a task's last sample is in none, less than a period a cpu, and said."""
    ran = run(omn, program, "-m", "sample", "--period", "7", "-e", "count", "-e", "topk:1@func")
    result = ran.result
    (series,) = result["series"]
    total, fields = series["emits"]["count"]["value"], result["fields"]
    cpus = os.cpu_count() or 1
    assert total == 7 * fields["delivered"]
    assert fields["counted"] - 7 * cpus < total <= fields["counted"]
    (row,) = series["emits"]["topk:1@func"]["rows"]
    assert row["key"]["func"] == "touch_hot"
    assert abs(row["value"] - 700) <= 7 * cpus
    assert any(fact.startswith("a sample of each 7 was asked for") for fact in result["facts"])


def test_an_event_is_sampled_once_in_thirteen_where_nothing_is_asked(omn: Command, program: Path) -> None:
    """And a stack is walked for what shows it alone."""
    ran = run(omn, program, "-m", "sample", "-e", "stack")
    rows: list[dict[str, Any]] = ran.result["series"][0]["emits"]["stack"]["rows"]
    assert {row["weight"] % 13 for row in rows} == {0}
    cold = sum(row["weight"] for row in rows if "touch_cold" in row["frames"])
    assert abs(cold - 300) <= 13 * (os.cpu_count() or 1)
    assert sum(row["count"] for row in rows) == 13 * ran.result["fields"]["delivered"]
