"""Programs that are hard to name, profiled end to end: gone, replaced, contained, stripped, generated, of 32 bits.

One run profiles them one after another; each test is about one of them.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from closed_events import hold_served
from compiled import compile_c, run_tool

from omn_core.testing.fixtures import Command, Ran

IS_X86 = platform.machine() == "x86_64"

WORKER = r"""
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
volatile uint64_t sink;
__attribute__((noinline)) void LABEL(int n) { for (int i = 0; i < n; i++) sink += i * SALT; }
int main(int argc, char **argv) {
    struct timespec now;
    do {
        LABEL(200000); /* long beside the call that follows, which whoever traces calls makes longer */
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < atol(argv[1]));
    return argc == 0;
}
"""
"""Works for so many milliseconds of its own cpu time, in a function of its own."""

GENERATES = r"""
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static const unsigned char code[] = {0xb8, 0x40, 0x42, 0x0f, 0x00, 0xff, 0xc8, 0x75, 0xfc, 0xc3};
int main(int argc, char **argv) {
    struct timespec now;
    char path[64];
    void *place = mmap((void *)0x10000000, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    memcpy(place, code, sizeof code);
    if (argc > 2) {
        FILE *map;
        snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
        map = fopen(path, "w");
        fprintf(map, "10000000 %zx %s\n", sizeof code, argv[2]);
        fclose(map);
    }
    do {
        ((void (*)(void))place)();
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < atol(argv[1]));
    return 0;
}
"""
"""Works in code that it writes into memory: counts a million down (x86). Names it in its perf map where told a name."""

SMALL = r"""
__attribute__((noinline)) int spin(int n) { volatile int sum = 0; for (int i = 0; i < n; i++) sum += i; return sum; }
void _start(void) {
    for (int i = 0; i < 40; i++) spin(1000000);
    __asm__ volatile("int $0x80" : : "a"(1), "b"(0));
}
"""

SCRIPT = r"""
import os, shutil, subprocess, sys
folder, maps = sys.argv[1], sys.argv[2]
def path(name): return os.path.join(folder, name)
def run(*words): subprocess.run([str(word) for word in words], check=False)
def place(build, name):
    shutil.copy(path(build), path(name + ".new"))
    os.rename(path(name + ".new"), path(name))
for _ in range(20):
    run(path("brief"), 5)
shutil.copy(path("one"), path("gone"))
with subprocess.Popen([path("gone"), "250"]) as child:
    while True:
        with open(f"/proc/{child.pid}/cmdline", "rb") as file:
            if b"250" in file.read() and os.readlink(f"/proc/{child.pid}/exe") == path("gone"):
                break
    os.unlink(path("gone"))
for build in ("one", "two"):  # each for as long as it takes that somebody looks
    place(build, "swapped")
    run(path("swapped"), 250)
for kind in ("", "bare"):
    for _ in range(8):
        for build in ("one", "two"):
            place(kind + build, kind + "swapped")
            run(path(kind + "swapped"), 8 if build == "one" else 4)
    shutil.copy(path(kind + "one"), path(kind + "rewritten"))
    run(path(kind + "rewritten"), 90)
    with open(path(kind + "two"), "rb") as source, open(path(kind + "rewritten"), "r+b") as target:
        target.write(source.read())
    run(path(kind + "rewritten"), 30)
covered = f"mount --bind {path('two')} {path('inside')} && {path('inside')} 100; :"
run("unshare", "--mount", "--pid", "--fork", "sh", "-c", covered)
run(path("stripped"), 80)
if os.path.exists(path("small")):
    run(path("small"))
planted = "echo 10000000 100 planted > $0-$$.map; touch -d '1 hour ago' $0-$$.map; exec $1 300"
if os.path.exists(path("generates")):
    for words in ((path("generates"), "300", "a;b c 7"), ("sh", "-c", planted, maps, path("planted"))):
        with subprocess.Popen(words) as child, open(path("maps"), "a") as told:
            print(f"{maps}-{child.pid}.map", file=told)
"""


def build(folder: Path, name: str, label: str, salt: int, *flags: str) -> Path:
    return compile_c(folder, name, WORKER, "-O1", f"-DLABEL={label}", f"-DSALT={salt}", *flags)


class Profiled:
    """The run: what the innermost frames of programs weigh, milliseconds, by object, label and who named them.

    The kernel's above them count for the frame that they interrupted: on a busy machine a tenth of a program's time is
    theirs.
    """

    def __init__(self, folder: Path, ran: Ran) -> None:
        self.folder = folder
        self.ran = ran
        self.facts: list[str] = ran.result["facts"]
        self.answer: Mapping[str, Any] = ran.result["series"][0]["emits"]["stack"]
        self._leaves: dict[tuple[str | None, str, str | None], float] = {}
        for row in self.answer["rows"]:
            frames = zip(row["objects"], row["frames"], row["named_by"], strict=True)
            leaf = next((frame for frame in frames if frame[0] != "[kernel]"), None)
            if leaf is not None:
                self._leaves[leaf] = self._leaves.get(leaf, 0.0) + row["weight"] / 1e6

    def find(self, name: str) -> dict[tuple[str, str | None], float]:
        """Return the frames of a file of the folder, or of an object that is no file."""
        holder = name if name.startswith("[") else str(self.folder / name)
        return {(label, by): weight for (found, label, by), weight in self._leaves.items() if found == holder}


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Profiled:
    """Every program built, and all of them profiled in one run."""
    folder = tmp_path_factory.mktemp("programs")
    for name, label, salt, flags in (
        ("brief", "worker", 1, ()),
        ("one", "work_one", 3, ()),
        ("two", "work_two", 5, ()),
        ("inside", "work_one", 3, ()),
        ("stripped", "work_hidden", 7, ("-s",)),
    ):
        build(folder, name, label, salt, "-Wl,--build-id=sha1", *flags)
    for name, label, salt in (("bareone", "work_one", 3), ("baretwo", "work_two", 5)):
        build(folder, name, label, salt, "-Wl,--build-id=none")
    if IS_X86:
        for name in ("generates", "planted"):
            compile_c(folder, name, GENERATES, "-O1")
        small = ("-m32", "-nostdlib", "-static", "-no-pie", "-fno-stack-protector", "-O1", "-fcf-protection=none")
        with contextlib.suppress(pytest.skip.Exception):  # the test of it says so
            compile_c(folder, "small", SMALL, *small)
    (folder / "script.py").write_text(SCRIPT)
    (folder / "maps").touch()
    cache = folder / "cache"
    cache.mkdir(mode=0o700)
    program = (sys.executable, str(folder / "script.py"), str(folder), "/tmp/perf")
    ran = Command(cache)("cpu.profile", "--format", "json", "--", *program)
    for path in (folder / "maps").read_text().split():
        Path(path).unlink(missing_ok=True)
    hold_served(ran.code, ran.stderr)
    return Profiled(folder, ran)


def name_all(found: Mapping[tuple[str, str | None], float], label: str) -> None:
    """Hold nearly all of an object's time to one function that its symbol table names."""
    assert found[label, "symtab"] > 0.9 * sum(found.values()), found


@pytest.mark.spec("STK-5", "STK-3")
def test_children_that_live_for_less_than_a_tick_are_named(profiled: Profiled) -> None:
    """Twenty processes of five milliseconds each, all of them gone when anybody could look."""
    found = profiled.find("brief")
    assert sum(found.values()) > 50
    assert found["worker", "symtab"] > 0.6 * sum(found.values())  # the rest is the loader's work and the kernel's


@pytest.mark.spec("STK-5")
def test_a_program_whose_file_was_deleted_is_named(profiled: Profiled) -> None:
    """Deleted as soon as it ran."""
    name_all(profiled.find("gone"), "work_one")


@pytest.mark.spec("STK-5")
def test_files_that_take_turns_at_a_path_are_told_apart_by_their_builds(profiled: Profiled) -> None:
    """One after another within ticks, where the number of an inode is used again: 64 ms of the one, 32 of the other.

    Both after 250 ms of each: no more of either than there was, and most of it.
    """
    found = profiled.find("swapped")
    assert 240 < found["work_one", "symtab"] < 322
    assert 225 < found["work_two", "symtab"] < 290
    assert len(profiled.answer["builds"][str(profiled.folder / "swapped")]) == 2


@pytest.mark.spec("STK-5")
@pytest.mark.parametrize("kind", ["", "bare"], ids=["with a build id", "without"])
def test_a_file_that_was_written_anew_in_place_does_not_name_what_ran_before(profiled: Profiled, kind: str) -> None:
    """90 ms of what is gone and 30 of what stands there: the 90 have no name, and it is said why."""
    found = profiled.find(f"{kind}rewritten")
    assert 12 < found["work_two", "symtab"] < 45
    assert ("work_one", "symtab") not in found
    unnamed = {label: weight for (label, by), weight in found.items() if by is None}
    assert sum(unnamed.values()) > 60
    assert all(label.startswith(f"{kind}rewritten+0x") for label in unnamed)
    path = profiled.folder / f"{kind}rewritten"
    reason = "it was written to since it was mapped" if kind else "another file stands at its path now"
    assert f"no names for {path}: {reason}" in profiled.facts


@pytest.mark.spec("STK-5")
def test_files_without_a_build_id_are_named_by_themselves_or_not_at_all(profiled: Profiled) -> None:
    """Taking turns at a path, and their inodes' numbers with them: no more of either than there was."""
    found = profiled.find("bareswapped")
    assert found.get(("work_one", "symtab"), 0) < 80
    assert found.get(("work_two", "symtab"), 0) < 45
    assert sum(found.values()) > 50


@pytest.mark.spec("STK-5")
def test_a_program_in_namespaces_of_its_own_is_named_by_its_own_file(profiled: Profiled) -> None:
    """Another file stands at the path here: in the mount namespace of the program it is covered by the one that ran."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a mount namespace")
    name_all(profiled.find("inside"), "work_two")


@pytest.mark.spec("STK-5")
def test_a_stripped_program_keeps_its_addresses_and_its_build(profiled: Profiled) -> None:
    """Nothing near is taken for its functions."""
    found = profiled.find("stripped")
    assert {by for _, by in found} <= {None, "dynsym"}
    own = sum(weight for (label, by), weight in found.items() if by is None and label.startswith("stripped+0x"))
    assert own > 0.9 * sum(found.values())
    path = str(profiled.folder / "stripped")
    notes = run_tool("readelf", "-n", path)
    assert profiled.answer["builds"][path] == [notes.partition("Build ID: ")[2].split()[0]]


@pytest.mark.spec("STK-5")
def test_a_32_bit_program_is_named(profiled: Profiled) -> None:
    """Its addresses are of 32 bits."""
    if not (profiled.folder / "small").exists():
        pytest.skip("gcc makes no 32-bit program here")
    name_all(profiled.find("small"), "spin")


@pytest.mark.spec("STK-3", "STK-7")
def test_generated_code_is_named_by_its_own_map_alone(profiled: Profiled) -> None:
    """A name with a semicolon, a space and a number is that name; a map that was there before names nothing."""
    if not IS_X86:
        pytest.skip("the code that the program writes runs on x86-64 alone")
    found = profiled.find("[anon]")
    assert {label for label, _ in found} == {"a;b c 7", "[anon]"}
    assert found["a;b c 7", "perf-map"] > 240
    assert found["[anon]", None] > 240
    assert any(
        said.startswith("the perf map of process ") and said.endswith("it was last written before the process began")
        for said in profiled.facts
    )
