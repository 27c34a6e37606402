"""Calls of functions, held against programs that count and time them by themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from compiled import compile_c
from omn_runtime.calls import CallLinks

from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_typed_programs")
MS = 1_000_000
# Naps in a function, each for as long as it is told, and writes how long each call took by its own clock; calls itself
# to a depth of five; has a thread that is in a call for good; leaves a function by longjmp.
SOURCE = """
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static jmp_buf out;
__attribute__((noinline)) long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
#define CALLED __attribute__((noinline))
CALLED void nap(long ms) {
    struct timespec t = {0, ms * 1000000};
    nanosleep(&t, 0);
    __asm__ volatile("");
}
CALLED int dive(int deep) {
    int all = deep ? dive(deep - 1) : 0;
    __asm__ volatile("" : "+r"(all));
    return all + 1;
}
CALLED void leap(int leaps) { if (leaps) longjmp(out, 1); __asm__ volatile(""); }
CALLED void *stay(void *place) { pause(); __asm__ volatile(""); return place; }
int main(int count, char **arguments) {
    FILE *said = fopen(arguments[1], "w");
    for (int one = 1; one <= 5; one++) {
        long long began = now();
        nap(4 * one);
        fprintf(said, "%lld\\n", now() - began);
    }
    fclose(said);
    for (volatile int one = 0; one < 100; one++) dive(4);
    for (volatile int one = 0; one < 3; one++) if (!setjmp(out)) leap(1);
    leap(0);
    pthread_t thread;
    pthread_create(&thread, 0, stay, 0);
    nap(20);
    return count < 1;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(tmp_path_factory.mktemp("called"), "called", SOURCE, "-O1", "-pthread")


def time_functions(omn: Command, text: str, *words: str, emit: str = "raw") -> Any:
    ran = omn("runtime.func", "-e", emit, "--filter", text, "--format", "json", *words)
    assert ran.code == 0, ran.stderr
    return ran.result


@pytest.mark.spec("SRC-7", "RTM-1")
@pytest.mark.parametrize("backend", ["bpf:uprobe_multi", "bpf:uprobe"])
def test_each_call_lasts_from_its_entry_to_its_return(
    omn: Command, program: Path, tmp_path: Path, backend: str
) -> None:
    """Each nap by the program's own clock, recursion depth by depth, and every return has its own entry."""
    out = tmp_path / "said"
    asked = ["--backend", f"force:{backend}", "--keys", "function", "--", str(program), str(out)]
    result = time_functions(omn, "function in ('nap', 'dive')", *asked)
    calls = [row["attrs"] for row in result["raw"]]
    naps = [call["duration_ns"] for call in calls if call["function"] == "nap"]
    said = [int(line) for line in out.read_text().split()]
    assert len(naps) == 6
    for own, (nap, theirs) in enumerate(zip(naps, said, strict=False), 1):
        assert 4 * own * MS <= nap <= theirs
    depths = [call["depth"] for call in calls if call["function"] == "dive"]
    assert {depth: depths.count(depth) for depth in set(depths)} == dict.fromkeys(range(5), 100)
    # The innermost returns first, and what it is inside of lasts longer.
    dives = [call for call in calls if call["function"] == "dive"][:5]
    assert [call["depth"] for call in dives] == [4, 3, 2, 1, 0]
    assert [call["duration_ns"] for call in dives] == sorted(call["duration_ns"] for call in dives)
    assert {call["object"] for call in calls} == {str(program)}
    assert (result["fields"]["unreturned"], result["fields"]["unpaired"]) == (0, 0)
    assert result["losses"]["dropped"] == 0
    assert any(f"nap of {program}" in fact for fact in result["facts"])


@pytest.mark.spec("SRC-7")
def test_a_stack_is_of_who_called(omn: Command, program: Path, tmp_path: Path) -> None:
    """It begins with the function that the timed one returns to."""
    result = time_functions(omn, "function == 'nap'", "--", str(program), str(tmp_path / "said"), emit="stack")
    (series,) = result["series"]
    assert {stack["frames"][0] for stack in series["emits"]["stack"]["rows"]} == {"main"}


@pytest.mark.spec("SRC-7")
def test_what_never_returns_is_counted(omn: Command, program: Path, tmp_path: Path) -> None:
    """Three calls are left by longjmp, one is a thread's until its process ends; one of each kind returns, paired."""
    result = time_functions(omn, "function in ('leap', 'stay', 'nap')", "--", str(program), str(tmp_path / "said"))
    calls = [row["attrs"]["function"] for row in result["raw"]]
    assert (calls.count("leap"), calls.count("stay"), calls.count("nap")) == (1, 0, 6)
    assert result["fields"]["unreturned"] == 4


@pytest.mark.spec("SRC-7")
def test_a_running_program_is_timed_from_then_on_and_a_call_until_the_close(catalog: Catalog, program: Path) -> None:
    """A call that is on at the close counts until there; a return whose entry was not seen is one of the unpaired."""
    source = "import sys, time\nfor line in sys.stdin:\n    time.sleep(float(line))\n    print('slept', flush=True)\n"
    asked = {"predicate": "function == 'clock_nanosleep'"}
    with subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        target = bind_processes(running.pid)
        resolved = resolve_onto(catalog.entries["runtime.func"], "bpf:uprobe_multi", target.target, **asked)
        with Driver(CallLinks(), resolved, target) as driver:
            for seconds in (0.01, 60):
                running.stdin.write(f"{seconds}\n".encode())
                running.stdin.flush()
                if seconds < 1:
                    assert running.stdout.readline() == b"slept\n"
            while "nanosleep" not in Path(f"/proc/{running.pid}/wchan").read_text():
                os.sched_yield()
            driver.sample()
        running.kill()
    first, second = driver.rows
    assert 10 * MS <= first["duration_ns"] < 60_000 * MS
    assert 0 < second["duration_ns"] < 60_000 * MS
    assert second["duration_ns"] <= second["ts_ns"] - first["ts_ns"]
    assert driver.collector.fields()["unfinished"] == 1


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--", "true"), 2, "every call of every function of a program would be timed"),
        (("--filter", "duration_ns > 5", "--", "true"), 2, "every call of every function of a program would be timed"),
        (("--filter", "function =~ '.'", "--", "true"), 2, "functions, of which 32 can be timed"),
        (("--filter", "function == 'none'", "--pid", str(os.getpid()), "-d", "1s"), 1, "that the filter names"),
        (("--filter", "function == 'main'", "--system", "-d", "1s"), 2, "a program's own files are probed"),
        (("--filter", "function == 'main'", "--pid", "4194303", "-d", "1s"), 1, "4194303"),
    ],
)  # fmt: skip
def test_what_cannot_be_timed_is_refused(omn: Command, words: tuple[str, ...], code: int, sentence: str) -> None:
    """With one sentence, and with whose it is."""
    ran = omn("runtime.func", *words)
    assert (ran.code, sentence in ran.stderr) == (code, True), ran.stderr


def test_a_go_program_is_not_timed(omn: Command, program: Path, tmp_path: Path) -> None:
    """Its stacks move, so that a changed return address would end it: the table of its functions tells it."""
    if shutil.which("objcopy") is None:
        pytest.skip("objcopy is not installed here")
    marked = tmp_path / "marked"
    subprocess.run(["objcopy", "--add-section", f".gopclntab={__file__}", str(program), str(marked)], check=True)
    ran = omn("runtime.func", "--filter", "function == 'nap'", "--", str(marked), str(tmp_path / "said"))
    assert (ran.code, "is a Go program" in ran.stderr) == (1, True), ran.stderr


def test_a_launched_program_without_the_function_says_so(omn: Command) -> None:
    """It is run, with nothing timed, and the answer says that there was nothing."""
    result = time_functions(omn, "function == 'no such'", "--", "true")
    assert result["raw"] == []
    assert any("has such a function" in one for one in result["degraded"])
