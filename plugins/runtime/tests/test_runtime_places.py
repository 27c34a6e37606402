"""Places that are passed, held against a program that counts its passings and knows what it passed there."""

from __future__ import annotations

import os
import subprocess
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from compiled import compile_c
from marked_programs import MARK
from omn_runtime.passes import Passes

from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_typed_programs")
BACKENDS = ("bpf:uprobe_multi", "bpf:uprobe", "bpf:usdt")
# Two threads step, the first 300 times and the second 200, and pass a place each time, and another at both ends of the
# way. Whoever writes a byte to it is told whether somebody looks, for whom it steps once more.
SOURCE = f"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
{MARK}
COUNTER(looked);
__attribute__((noinline)) void step(int at, long far) {{
    volatile long kept = -3L * at;
    volatile short near = (short)-at;
    unsigned char low = (unsigned char)(at + 250);
    MARK("looked", "step", "-4@%0 8@%1 -2@%2 1@%b3 4@$5 8@(%4) 8@%5 -8@%6",
         "r"(at), "m"(kept), "m"(near), "q"(low), "r"((long *)8), "r"(far), "i"(-7L));
}}
__attribute__((noinline)) void walk(int steps) {{
    MARK("0", "end", "-4@%0", "r"(steps));
    for (int at = 0; at < steps; at++) step(at, -1L - at);
    MARK("0", "end", "8@%0 4@%%xmm0 4@4+4(%%rsp)", "r"(-1L));
}}
static void *begin(void *steps) {{
    walk(*(int *)steps);
    return 0;
}}
int main(int count, char **arguments) {{
    static int steps[] = {{300, 200}};
    pthread_t thread;
    char byte;
    for (int one = 0; one < 2; one++) {{
        pthread_create(&thread, 0, begin, steps + one);
        pthread_join(thread, 0);
    }}
    while (count > 1 && read(0, &byte, 1) == 1) {{
        int now = looked;
        if (now) step(1, 2);
        printf("%d\\n", now);
        fflush(stdout);
    }}
    return !arguments;
}}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    flags = ("-O1", "-fno-omit-frame-pointer", "-pthread")
    return compile_c(tmp_path_factory.mktemp("marked"), "marked", SOURCE, *flags)


def pass_places(omn: Command, text: str, *words: str) -> Any:
    ran = omn("runtime.custom", "--filter", text, "--format", "json", *words)
    assert ran.code == 0, ran.stderr
    assert ran.result["losses"]["dropped"] == 0
    return ran.result


@pytest.mark.spec("RTM-1")
@pytest.mark.parametrize("backend", BACKENDS)
def test_places_are_passed_as_often_as_the_program_passes_them(omn: Command, program: Path, backend: str) -> None:
    """By thread and place, functions and marked places alike; of marked places alone where they are asked for."""
    asked = ["-m", "count", "-e", "count", "--backend", f"force:{backend}", "--keys", "task,function"]
    result = pass_places(omn, "function in ('step', 'walk', 'own:step', 'own:end')", *asked, "--", str(program))
    functions = {} if backend == "bpf:usdt" else {"walk": (1, 1), "step": (300, 200)}
    places = {"own:step": (300, 200), "own:end": (2, 2), **functions}
    counted: dict[int, dict[str, int]] = defaultdict(dict)
    for row in result["series"]:
        counted[row["key"]["task"]][row["key"]["function"]] = row["emits"]["count"]["value"]
    threads = sorted(counted.values(), key=lambda thread: -thread["own:step"])
    assert threads == [{name: times[at] for name, times in places.items()} for at in (0, 1)]
    assert any(f"places of {program}" in fact and "own:step" in fact for fact in result["facts"])


@pytest.mark.spec("RTM-1", "KRN-3")
def test_arguments_are_what_the_program_passed(omn: Command, program: Path) -> None:
    """In registers, in memory and as numbers, of each size and sign; what cannot be read is absent, and never zero."""
    asked = ["-m", "trace", "-e", "raw", "--", str(program)]
    result = pass_places(omn, "function == 'own:step' or function == 'step' and arg1 < 0", *asked)
    rows = [row["attrs"] for row in result["raw"]]
    assert Counter(row["function"] for row in rows) == {"own:step": 500, "step": 500}
    marked = [row for row in rows if row["function"] == "own:step"]
    at = [*range(300), *range(200)]
    for position, passed in {
        "arg0": at,
        "arg1": [-3 * one for one in at],
        "arg2": [-one for one in at],
        "arg3": [(one + 250) % 256 for one in at],
        "arg4": [5] * 500,
        "arg6": [-1 - one for one in at],
        "arg7": [-7] * 500,
    }.items():
        assert [row[position] for row in marked] == passed, position
    # The sixth lies where nothing is mapped, and there is no ninth.
    assert not any({"arg5", "arg8"} & row.keys() for row in marked)
    entered = [row for row in rows if row["function"] == "step"]
    assert [row["arg1"] for row in entered] == [-1 - one for one in at]
    assert not any({"arg0", "arg2"} & row.keys() for row in entered)


def test_an_argument_that_is_not_read_is_said(omn: Command, program: Path) -> None:
    """One in a register of floating point; the others of the place are there."""
    result = pass_places(omn, "function == 'own:end'", "-m", "trace", "-e", "raw", "--", str(program))
    arguments = [{key: row["attrs"][key] for key in row["attrs"] if key.startswith("arg")} for row in result["raw"]]
    assert [one["arg0"] for one in arguments] == [300, -1, 200, -1]
    assert [sorted(one) for one in arguments] == [["arg0"], ["arg0", "arg2"]] * 2
    assert any("is not read: of own:end" in one for one in result["degraded"])


@pytest.mark.spec("RTM-1")
def test_a_stack_is_of_who_called_or_of_where_the_place_stands(omn: Command, program: Path) -> None:
    """A function's begins with its caller, a marked place's with the function that it stands in."""
    asked = ["-m", "trace", "-e", "stack", "--keys", "function", "--", str(program)]
    result = pass_places(omn, "function in ('step', 'own:step')", *asked)
    frames = {
        row["key"]["function"]: {tuple(stack["frames"][:2]) for stack in row["emits"]["stack"]["rows"]}
        for row in result["series"]
    }
    assert frames == {"step": {("walk", "begin")}, "own:step": {("step", "walk")}}


@pytest.mark.spec("EVT-6")
def test_a_count_divides_by_where_places_stand(omn: Command, program: Path) -> None:
    """Numbers that the kernel adds up have no stacks, so that each passing is taken where functions are asked for."""
    asked = ["-m", "count", "-e", "count", "--keys", "func", "--", str(program)]
    result = pass_places(omn, "function == 'own:step'", *asked)
    counts = {row["key"]["func"]: row["emits"]["count"]["value"] for row in result["series"]}
    assert counts == {"step": 500}


@pytest.mark.spec("RTM-1")
def test_a_running_program_is_told_while_somebody_looks(catalog: Catalog, program: Path) -> None:
    """Its counter is one while it is measured, zero before and after, and it passes the place by that alone."""
    with subprocess.Popen([str(program), "asked"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdin is not None

        def ask() -> int:
            assert running.stdout is not None
            assert running.stdin is not None
            running.stdin.write(b".")
            running.stdin.flush()
            return int(running.stdout.readline())

        assert ask() == 0
        target = bind_processes(running.pid)
        asked = {"mode": "trace", "predicate": "function == 'own:step'"}
        resolved = resolve_onto(catalog.entries["runtime.custom"], "bpf:uprobe", target.target, **asked)
        with Driver(Passes(), resolved, target) as driver:
            assert (ask(), ask()) == (1, 1)
            driver.sample()
        assert ask() == 0
        running.stdin.close()
    assert [row["function"] for row in driver.rows] == ["own:step", "own:step"]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--filter", "arg0 > 5", "--", "true"), 2, "every function of a program would be probed"),
        (("--filter", "function =~ '.'", "--", "true"), 2, "1024 functions and 32 marked can be probed"),
        (("--filter", "function =~ '.'", "--backend", "force:bpf:uprobe", "--", "true"), 2, "32 can be"),
        (("--filter", "function == 'none'", "--pid", str(os.getpid()), "-d", "1s"), 1, "place that the filter names"),
        (("--filter", "function == 'main'", "--system", "-d", "1s"), 2, "a program's own files are probed"),
    ],
)  # fmt: skip
def test_what_cannot_be_probed_is_refused(omn: Command, words: tuple[str, ...], code: int, sentence: str) -> None:
    """With one sentence, and with whose it is."""
    ran = omn("runtime.custom", "-m", "count", "-e", "count", *words)
    assert (ran.code, sentence in ran.stderr) == (code, True), ran.stderr


def test_a_program_without_the_place_counts_none_and_says_so(omn: Command) -> None:
    """It is run, and the answer says that there was nothing to pass."""
    result = pass_places(omn, "function == 'own:none'", "-m", "count", "-e", "count", "--", "true")
    assert [row["emits"]["count"]["value"] for row in result["series"]] == [0]
    assert any("place that the filter names" in one for one in result["degraded"])
