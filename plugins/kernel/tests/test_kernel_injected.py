"""The memory that a library inside programs writes to, held against programs that count what they ask for."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from another_user import run_as_another_user
from compiled import compile_c
from omn_kernel.injected.heap_records import HeapRecords
from omn_kernel.injected.library import get_library, put_first, refuse_program
from omn_kernel.injected.memory import EXITING, NO_STACK, PART, InjectedMemory, Part

from omn_core.api import MachineRefused

FORMAT = HeapRecords()
MALLOC, REALLOC, FREE = 1, 3, 9
SIZE = 12_345
# More pairs of calls than there is room for the records of, and then a death that nothing can be done about.
MANY = """
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    for (int i = 0; i < CALLS; i++) { void *p = malloc(SIZE); __asm__ volatile("" : "+r"(p)); free(p); }
    kill(getpid(), SIGKILL);
}
"""
# Threads one after another, more of them than there are buffers, each of which asks once and says when it is done.
THREADS = """
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *work(void *nothing) { void *p = malloc(SIZE); __asm__ volatile("" : "+r"(p)); return nothing; }
int main(void) {
    char byte;
    while (read(0, &byte, 1) == 1) {
        for (int i = 0; i < CALLS; i++) {
            pthread_t thread;
            if (pthread_create(&thread, 0, work, 0) || pthread_join(thread, 0)) return 1;
        }
        if (write(1, &byte, 1) != 1) return 2;
    }
    return 0;
}
"""
NOTHING = "int main(void) { return 0; }"
OWN = "void *malloc(unsigned long size) { return 0; }\nint main(void) { return malloc(1) != 0; }"


@pytest.fixture
def memory() -> Iterator[InjectedMemory]:
    made = InjectedMemory(1)
    made.turn(is_on=True)
    yield made
    made.close()


def start(path: Path, memory: InjectedMemory, **more: Any) -> subprocess.Popen[bytes]:
    lent = put_first(get_library("omn_heap"), {})
    environment = {**os.environb, **lent, b"OMN_HEAP_MEMORY": os.fsencode(memory.path)}
    return subprocess.Popen([path], env=environment, **more)


def count(part: Part | None, op: int) -> int:
    records, _ = FORMAT.read([] if part is None else [part])
    return int(np.count_nonzero((records["op"] == op) & ((op == FREE) | (records["bytes"] == SIZE))))


@pytest.mark.spec("RUN-6")
def test_what_finds_no_room_is_counted_to_the_call(memory: InjectedMemory, tmp_path: Path) -> None:
    """Of a program that nobody reads and that is killed, what was written is there, and the rest is a number."""
    calls = 2_000_000
    path = compile_c(tmp_path, "many", MANY, "-O1", "-fno-builtin", f"-DCALLS={calls}", f"-DSIZE={SIZE}")
    with start(path, memory) as program:
        assert program.wait() == -signal.SIGKILL
    part = memory.drain()
    assert part is not None
    records, owners = FORMAT.read([part])
    assert memory.lost > 0
    assert len(records) + memory.lost == 2 * calls
    assert abs(count(part, MALLOC) - count(part, FREE)) <= 1
    assert set(owners["thread"].tolist()) == {program.pid}
    assert set(owners["name"].tolist()) == {b"many"}
    # Whoever called is in the one frame that is kept.
    stacks = memory.read_stacks()
    (place,) = set(records["stack"].tolist()) - {NO_STACK}
    assert stacks.length[place] == 1
    assert memory.read_processes()["pid"].tolist() == [program.pid]
    assert memory.drain() is None
    cost_ns, _ = memory.compute_cost(len(records))
    assert cost_ns > 0


def test_the_memory_of_threads_that_are_gone_is_used_again(memory: InjectedMemory, tmp_path: Path) -> None:
    """No thread says that it ends: the kernel does. Nothing is lost of more threads than have room at one time."""
    threads, rounds = 1200, 2
    path = compile_c(
        tmp_path, "threads", THREADS, "-O1", "-pthread", "-fno-builtin", f"-DCALLS={threads}", f"-DSIZE={SIZE}"
    )
    made = 0
    with start(path, memory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for _ in range(rounds):
            program.stdin.write(b"x")
            assert program.stdout.read(1) == b"x"
            made += count(memory.drain(), MALLOC)
        program.stdin.close()
    assert program.returncode == 0
    assert (made, memory.lost) == (rounds * threads, 0)
    assert memory.read_processes()["state"].tolist() == [1 | EXITING]


def write(op: int, *words: int, stack: int = 7, after_ns: int = 0) -> tuple[int, ...]:
    """Return a record's words: see native/heap.h."""
    return (op | stack << 4 | after_ns << 21, *words)


def test_calls_that_are_alike_are_one_row() -> None:
    """In whose they are, what was called, how much was asked, the stack, and whether it was had; frees are counted."""
    of_first = (
        write(MALLOC, 0x10, 8),
        write(MALLOC, 0x20, 8, after_ns=5),
        write(MALLOC, 0, 8),
        write(MALLOC, 0x30, 8, stack=3),
        write(FREE, 0x20),
        write(REALLOC, 0x50, 9, 0x10, 1),
        # This gives back what it is handed, and makes nothing; the one after it was refused a block.
        write(REALLOC, 0, 0, 0x50, 1),
        write(REALLOC, 0, 9, 0x50, 1),
    )
    of_another = (write(MALLOC, 0x60, 8), write(FREE, 0x60))
    of_first_again = (write(MALLOC, 0x70, 8),)
    contents = [np.array(sum(each, ()), np.uint64).view(np.uint8) for each in (of_first, of_another, of_first_again)]
    owners = np.array([(4, 40, len(one), b"one", 100) for one in contents], PART)
    owners["thread"][1] = 41
    added = FORMAT.add_up(Part(np.concatenate(contents), owners))
    assert added.frees == 2
    fields = [added.records[name].tolist() for name in ("op", "bytes", "stack", "addr")]
    assert list(zip(added.owners["thread"].tolist(), *fields, added.weights.tolist(), strict=True)) == [
        (40, MALLOC, 8, 7, 0x10, 3),
        (40, MALLOC, 8, 7, 0, 1),
        (40, MALLOC, 8, 3, 0x30, 1),
        (40, REALLOC, 9, 7, 0x50, 1),
        (40, REALLOC, 9, 7, 0, 1),
        (41, MALLOC, 8, 7, 0x60, 1),
    ]


def test_a_program_s_calls_add_up_to_what_reads_one_by_one(memory: InjectedMemory, tmp_path: Path) -> None:
    """Of more calls than a table of few places has room for, of as many sizes as there are calls."""
    path = compile_c(tmp_path, "many", MANY, "-O1", "-fno-builtin", "-DCALLS=100000", "-DSIZE=i%5000")
    with start(path, memory) as program:
        program.wait()
    part = memory.drain()
    assert part is not None
    records, _ = FORMAT.read([part])
    added = FORMAT.add_up(part)
    assert added.frees == np.count_nonzero(records["op"] == FREE)
    sizes, counts = np.unique(records["bytes"][records["op"] == MALLOC], return_counts=True)
    made = added.records["op"] == MALLOC
    order = np.argsort(added.records["bytes"][made])
    assert added.records["bytes"][made][order].tolist() == sizes.tolist()
    assert added.weights[made][order].tolist() == counts.tolist()
    assert len(sizes) >= 5000


@pytest.mark.parametrize(
    ("source", "flags", "reason"),
    [
        (NOTHING, ("-static",), "is linked statically"),
        (OWN, ("-fno-builtin",), "has a function malloc of its own"),
    ],
)
def test_a_program_that_would_not_load_the_library_is_refused(
    tmp_path: Path, source: str, flags: tuple[str, ...], reason: str
) -> None:
    """By what stands against it; so is a script that such a program runs. Any other passes."""
    path = compile_c(tmp_path, "program", source, *flags)
    script = tmp_path / "script"
    script.write_text(f"#!{path}\n")
    script.chmod(0o700)
    for name in (path, script):
        with pytest.raises(MachineRefused, match=reason) as refused:
            refuse_program(str(name), {}, "malloc", "another way")
        assert refused.value.remedy == "another way"
    refuse_program(str(compile_c(tmp_path, "other", NOTHING)), {}, "malloc", "")
    refuse_program("/nowhere", {}, "malloc", "")


def test_a_program_of_other_privileges_is_refused(tmp_path: Path) -> None:
    """Its loader passes over what it is asked to load; of the same user's it does not."""
    path = compile_c(tmp_path, "program", NOTHING)
    path.chmod(0o4755)
    refuse_program(str(path), {}, "malloc", "")
    if os.geteuid() != 0:
        pytest.skip("only root makes a program another user's")
    os.chown(path, 65534, -1)
    path.chmod(0o4755)
    with pytest.raises(MachineRefused, match="privileges of its own"):
        refuse_program(str(path), {}, "malloc", "")


def test_a_program_opens_the_memory_of_an_omn_that_may_do_no_more_than_it() -> None:
    """One that the kernel hides from its user is refused; and what tasks map is told to a user without privileges."""
    if os.geteuid() != 0:
        pytest.skip("only root makes a program another user's")
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 2:
        pytest.skip("perf events are closed to users here")
    said = run_as_another_user(
        """
        import ctypes, os, time
        from omn_core.api import MachineRefused
        from omn_core.testing.harness import bind_processes
        from omn_kernel.injected.library import refuse_reader
        from omn_kernel.perf.followed_tasks import FollowedTasks
        from omn_kernel.perf.task_records import TaskRecords
        from omn_kernel.symbols.choice import NameSources
        """,
        """
        try:
            refuse_reader(os.getpid(), "")
        except MachineRefused as refused:
            print(refused.reason)
        PR_SET_DUMPABLE = 4
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        refuse_reader(os.getpid(), "")
        tasks = FollowedTasks("/", NameSources())
        TaskRecords(bind_processes(os.getpid()), tasks, time.monotonic_ns(), is_held=False).close()
        print("opened")
        """,
    )
    assert said == "the program may not open the memory of an omn that has more capabilities than it\nopened\n"


def make_part(*records: tuple[int, ...], owners: int = 1) -> Part:
    """Make a part of so many owners, each of whom wrote the records."""
    content = np.array([word for record in records for word in record] * owners, np.uint64).view(np.uint8)
    made = np.zeros(owners, PART)
    made["bytes"] = len(content) // owners
    made["base_ns"] = 1000
    made["thread"] = np.arange(owners)
    return Part(content, made)


def test_a_record_is_read_as_it_was_written() -> None:
    """What was called, its stack and its time are one word; each call has the others that it takes."""
    stacked = MALLOC | 77 << 4 | 5 << 21
    part = make_part((stacked, 0xAA, 100), (REALLOC | 9 << 21, 0xBB, 200, 0xAA, 1008), (FREE | 9 << 21, 0xBB), owners=2)
    records, owners = FORMAT.read([part])
    read = [
        tuple(int(record[name]) for name in ("op", "ns", "began_ns", "addr", "bytes", "given")) for record in records
    ]
    assert read[:3] == [
        (MALLOC, 1005, 1005, 0xAA, 100, 0),
        (REALLOC, 1009, 1008, 0xBB, 200, 0xAA),
        (FREE, 1009, 1009, 0, 0, 0xBB),
    ]
    assert read[3:] == read[:3]
    assert int(records["stack"][0]) == 77
    assert owners["thread"].tolist() == [0, 0, 0, 1, 1, 1]


def test_a_part_is_cut_to_whole_records() -> None:
    """The first ones are kept, and of each owner so many as are left of its own; a torn record is none."""
    part = make_part((FREE, 1), (MALLOC, 2, 3), owners=2)
    assert FORMAT.count(part.content) == 4
    kept = part.cut(FORMAT.measure(part.content, 3))
    assert (len(kept.content), kept.owners["bytes"].tolist()) == (56, [40, 16])
    assert FORMAT.read([kept])[0]["op"].tolist() == [FREE, MALLOC, FREE]
    torn = make_part((FREE, 1), (REALLOC, 2, 3))
    assert FORMAT.count(torn.content) == len(FORMAT.read([torn])[0]) == 1
