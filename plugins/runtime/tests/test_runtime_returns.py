"""Calls that do not return as they were entered: left by a jump, past what the kernel catches, by an exception."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from compiled import compile_c, compile_cpp
from omn_runtime.calls import find_left_calls

from omn_core.testing.fixtures import Command

MS = 1_000_000
CAUGHT = 64
"""How many returns of a thread the kernel catches at a time (MAX_URETPROBE_DEPTH of <linux/uprobes.h>)."""
# Calls itself a hundred deep, each a millisecond at least, then three deep; leaves two calls inside another by longjmp.
SOURCE = """
#include <setjmp.h>
#include <time.h>
#define CALLED __attribute__((noinline))
static jmp_buf out;
CALLED int dive(int deep) {
    struct timespec t = {0, 1000000};
    nanosleep(&t, 0);
    int all = deep ? dive(deep - 1) : 0;
    __asm__ volatile("" : "+r"(all));
    return all + 1;
}
CALLED int leap(int deep) {
    int all = 0;
    if (deep == 1 && setjmp(out)) return 0;
    if (deep == 3) longjmp(out, 1);
    all = leap(deep + 1);
    __asm__ volatile("" : "+r"(all));
    return all + 1;
}
int main(void) {
    dive(99);
    dive(2);
    leap(0);
    leap(0);
    return 0;
}
"""
# Throws through two functions, and catches outside of them.
THROWING = """
#include <stdexcept>
extern "C" __attribute__((noinline)) int inner(int n) { if (n) throw std::runtime_error("odd"); return n; }
extern "C" __attribute__((noinline)) int outer(int n) { int r = inner(n); asm volatile("" ::: "memory"); return r + 1; }
int main() {
    int caught = 0;
    for (int n = 0; n < 2; n++) try { outer(n); } catch (std::exception &) { caught++; }
    return caught != 1;
}
"""


@pytest.mark.spec("SRC-7", "RTM-1")
@pytest.mark.usefixtures("loads_typed_programs")
@pytest.mark.parametrize("backend", ["bpf:uprobe_multi", "bpf:uprobe"])
def test_a_return_is_that_of_its_own_entry_whatever_never_returned(omn: Command, tmp_path: Path, backend: str) -> None:
    """The kernel catches 64 of a hundred calls in each other; times and depths are theirs, and so of those after."""
    program = compile_c(tmp_path, "returning", SOURCE, "-O1")
    asked = ["--filter", "function in ('dive', 'leap')", "--backend", f"force:{backend}", "--format", "json"]
    ran = omn("runtime.func", "-e", "raw", *asked, "--", str(program))
    assert ran.code == 0, ran.stderr
    calls = [row["attrs"] | row["key"] for row in ran.result["raw"]]
    dives = [call for call in calls if call["function"] == "dive"]
    assert [call["depth"] for call in dives] == [*reversed(range(CAUGHT)), 2, 1, 0]
    for call in dives[:CAUGHT]:
        assert call["duration_ns"] >= (100 - call["depth"]) * MS
    # Of each leap the outer two return: the first from inside of the others, which it leaves.
    assert [call["depth"] for call in calls if call["function"] == "leap"] == [1, 0, 1, 0]
    fields = ran.result["fields"]
    assert (fields["unreturned"], fields["unpaired"], fields["unfinished"]) == (100 - CAUGHT + 4, 0, 0)
    assert ran.result["losses"]["dropped"] == 0


@pytest.mark.spec("SRC-7")
@pytest.mark.usefixtures("loads_typed_programs")
def test_a_program_that_an_exception_ends_in_a_timed_call_is_a_failed_run(omn: Command, tmp_path: Path) -> None:
    """It would have caught what it throws: its results stand, and the run says whose doing its death may be."""
    program = compile_cpp(tmp_path, "throwing", THROWING, "-O1")
    ran = omn("runtime.func", "--filter", "function in ('inner', 'outer')", "--format", "json", "--", str(program))
    assert ran.document["program"]["exit"] == {"signal": "SIGABRT"}
    assert (ran.code, "inside a timed call" in ran.stderr) == (1, True), ran.stderr
    assert ran.stderr.splitlines()[-1] == "omn: the run failed after its results were written"
    assert (ran.result["fields"]["delivered"], ran.result["fields"]["unreturned"]) == (2, 2)


def test_a_call_is_over_once_one_around_it_has_returned() -> None:
    """Its own thread's, later than it began, with the stack where it was or above it."""
    fields = [("thread", "u4"), ("stack", "u8"), ("began_ns", "u8"), ("ns", "u8")]
    returned = np.array([(1, 90, 5, 30), (1, 100, 5, 20), (2, 900, 5, 99)], fields)
    left = np.array([(1, 100, 10, 0), (1, 100, 20, 0), (1, 90, 29, 0), (1, 80, 30, 0), (2, 80, 30, 0)], fields)
    assert find_left_calls(returned, left).tolist() == [True, False, True, False, True]
    assert find_left_calls(returned[:0], left).tolist() == [False] * 5
