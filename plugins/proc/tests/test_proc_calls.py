"""proc.calls held against a program that knows its calls: each with its arguments, its path, its result, its error."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from event_backends import EACH_BACKEND, TYPED, leave_out_skipped
from omn_kernel.mounts import find_tracefs
from omn_proc.call_text import name_error, quote, spell_arguments, spell_number
from omn_proc.calls import Calls

from omn_core.api import BoundTarget, EmitSpec
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes, bind_thread, resolve_onto

needs_programs = pytest.mark.usefixtures("loads_programs")


def drive(
    catalog: Catalog, target: BoundTarget, *keys: str, backend: str = TYPED, predicate: str | None = None
) -> Driver:
    entry = catalog.entries["proc.calls"]
    resolved = resolve_onto(entry, backend, target.target, mode="trace", keys=keys, predicate=predicate)
    return Driver(Calls(), attrs.evolve(resolved, emits=(EmitSpec("raw"),)), target)


CALLS = """
import ctypes, json, mmap, os, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
sys.stdin.readline()
for length in (1, 126, 127, 300):
    libc.open(b"/" * length + b"\\0", 0o2000000)
pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
libc.mprotect(address + mmap.PAGESIZE, mmap.PAGESIZE, 0)
path = b"/absent/at/the/end\\0"
pages[mmap.PAGESIZE - len(path):mmap.PAGESIZE] = path
libc.syscall(257, -100, ctypes.c_void_p(address + mmap.PAGESIZE - len(path)), 0)  # openat
libc.syscall(257, -100, ctypes.c_void_p(address + mmap.PAGESIZE), 0)
libc.fsync(9999)
getppid = os.getppid
for _ in range(5000): getppid()
before_ns = time.monotonic_ns()
libc.usleep(20000)
slept_ns = time.monotonic_ns() - before_ns
reading, writing = os.pipe()
waiter = threading.Thread(target=os.read, args=(reading, 77), daemon=True)
waiter.start()
while open(f"/proc/self/task/{waiter.native_id}/syscall").read().split()[0] != "0": os.sched_yield()
print(json.dumps({"slept_ns": slept_ns, "address": address, "reader": waiter.native_id}), flush=True)
sys.stdin.readline()
"""


def wait_reading(pid: int) -> None:
    """Wait until a process is in a call of read on its standard input."""
    while not Path(f"/proc/{pid}/syscall").read_text().startswith("0 0x0 "):
        os.sched_yield()


@needs_programs
@pytest.mark.spec("SRC-5", "KRN-4", "EVT-5")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_each_call_is_told_with_what_it_was_asked_and_what_it_answered(catalog: Catalog, backend: str) -> None:
    """Paths to their last byte, one that ends where its mapping does; errors; times; and what has not returned."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-S", "-c", CALLS], stdin=pipe, stdout=pipe, bufsize=0) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        wait_reading(child.pid)
        with drive(catalog, bind_processes(child.pid), "op", "task", backend=backend) as driver:
            child.stdin.write(b"\n")
            told = json.loads(child.stdout.readline())
            driver.sample()
        child.stdin.write(b"\n")
    losses = driver.collector.losses()
    assert losses.dropped == 0
    leave_out_skipped(losses.skipped, backend)
    rows = driver.rows
    opened = [row for row in rows if row["op"] == "openat" and '="' + "/" in row["arguments"]]
    paths = [row["arguments"].partition('"')[2].partition('"') for row in opened]
    slashes = [(path, rest[:3] == "...") for path, _, rest in paths if set(path) == {"/"}]
    assert slashes == [("/", False), ("/" * 126, False), ("/" * 127, True), ("/" * 127, True)]
    (at_end,) = [row for row in opened if '"/absent/at/the/end"' in row["arguments"]]
    assert at_end["error"] == "ENOENT"
    assert "result" not in at_end
    (unread,) = [row for row in rows if row.get("error") == "EFAULT"]
    assert hex(told["address"] + 4096) in unread["arguments"]
    (failed,) = [row for row in rows if row["op"] == "fsync"]
    assert (failed["error"], "result" in failed) == ("EBADF", False)
    asked = [row for row in rows if row["op"] == "getppid"]
    assert len(asked) == 5000
    assert {row["result"] for row in asked} == {os.getpid()}
    (slept,) = [row for row in rows if row["op"] == "clock_nanosleep" and row["time_ns"] >= 20_000_000]
    assert slept["time_ns"] <= told["slept_ns"]
    (waiting,) = [row for row in rows if row["op"] == "read" and row["task"] == told["reader"]]
    assert not {"result", "error"} & waiting.keys()
    assert "77" in waiting["arguments"]
    fields = driver.collector.fields()
    assert fields["unfinished"] >= 1
    # It waited for the word to begin.
    assert fields["begun_before"] == 1
    if find_tracefs("/") is not None:
        assert failed["arguments"] == "fd=9999"
        assert at_end["arguments"].startswith('dfd=-100, filename="/absent')
        assert {row["arguments"] for row in asked} == {""} or not any("arguments" in row for row in asked)


@needs_programs
@pytest.mark.spec("KRN-5")
def test_one_thread_is_told_of_alone(catalog: Catalog) -> None:
    """Not the process that it belongs to, nor who runs beside it."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.read(reading, 1)
        os.getuid()
        os._exit(0)
    with drive(catalog, bind_thread(child, child), "op") as driver:
        os.getuid()
        os.write(writing, b"x")
        os.waitpid(child, 0)
    assert [row["op"] for row in driver.rows if row["op"] == "getuid"] == ["getuid"]
    assert {row["pid"] for row in driver.rows} == {child}
    os.close(reading)
    os.close(writing)


@needs_programs
@pytest.mark.spec("EVT-6", "SRC-5")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_calls_have_the_stack_that_they_were_made_on(omn: Command, backend: str) -> None:
    """And divide by its leaf; a program's own calls and those of what it starts."""
    asked = ["-m", "trace", "-e", "stack", "-e", "summary@op", "--filter", "op == 'write'", "--format", "json"]
    program = "import os\nfor _ in range(50): os.write(2, b'')\nif os.fork() == 0: os.write(2, b'')\nelse: os.wait()"
    ran = omn("proc.calls", *asked, "--backend", f"force:{backend}", "--", sys.executable, "-S", "-c", program)
    assert ran.code == 0, ran.stderr
    leave_out_skipped(ran.result["losses"]["skipped"], backend)
    emits: dict[str, Any] = ran.result["series"][0]["emits"]
    assert [(row["attr"], row["count"]) for row in emits["summary@op"]["rows"]] == [("write", 51)]
    assert sum(row["count"] for row in emits["stack"]["rows"]) == 51
    # The kernel reads a stack only where its pages are there, and a child's first call may be before they are.
    walked = [row for row in emits["stack"]["rows"] if row["frames"]]
    assert all("write" in row["frames"][0] for row in walked)
    assert sum(row["count"] for row in walked) >= 50
    assert ran.result["losses"]["dropped"] == 0
    # Its execve began before: a child's return from its parent's fork did not.
    assert ran.result["fields"]["begun_before"] == 1


def test_what_a_call_was_asked_is_spelt_as_people_read_it() -> None:
    """Small numbers and those below zero as numbers, others as addresses; nothing is taken for a name."""
    assert [spell_number(value) for value in (0, 65535, 65536, 2**64 - 100, 2**32 - 1)] == [
        "0",
        "65535",
        "0x10000",
        "-100",
        "-1",
    ]
    assert quote(b'a"b\\\xff', is_whole=True) == '"a\\"b\\\\\\\\xff"'
    assert quote(b"abc", is_whole=False) == '"abc"...'
    assert spell_arguments(["1", "2", "3"], ["fd"]) == "fd=1"
    assert spell_arguments(["1", "2"], None) == "1, 2"
    assert [name_error(result) for result in (0, 5, -errno.ENOENT, -512, -4095, -4096)] == [
        None,
        None,
        "ENOENT",
        "ERESTARTSYS",
        "4095",
        None,
    ]
