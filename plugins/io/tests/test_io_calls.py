"""Calls that move bytes or wait for them, held against programs that count and time their own, and /proc/<pid>/io."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from compiled import compile_c
from event_backends import EACH_BACKEND, RECORDED, TYPED, needs_records
from omn_io import file_calls
from omn_io.calls import Syncs, Transfers
from omn_kernel.bpf import open_files
from omn_kernel.polled import read_file
from omn_kernel.procfs.task import find_status_field

from omn_core.api import BoundTarget
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, bind_processes, bind_thread, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_programs")
Rows = list[dict[str, Any]]
# Waits for a byte, makes calls of which it knows what each moves, and says what it did; then waits again.
MOVING = """
import json, os, sys
folder = sys.argv[1]
first, second, other = (os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT) for name in ("first", "second", "other"))
inner, outer = os.pipe()
event = os.eventfd(0)
os.read(0, 1)
told = []
def note(op, dir, file, moved): told.append([op, dir, file, moved])
for size in range(1, 300): note("pwrite64", "write", "first", os.pwrite(first, bytes(size), 0))
for size in range(100): note("pread64", "read", "first", len(os.pread(first, size, 0)))
note("pwritev", "write", "second", os.pwritev(second, [b"ab", b"cde"], 0))
note("preadv", "read", "second", os.preadv(second, [bytearray(3), bytearray(9)], 0))
note("write", "write", "other", os.write(other, b"x" * 777))
moved = os.sendfile(second, first, 0, 123)
note("sendfile", "write", "second", moved); note("sendfile", "read", "first", moved)
moved = os.copy_file_range(first, other, 55)
note("copy_file_range", "read", "first", moved); note("copy_file_range", "write", "other", moved)
note("write", "write", "pipe", os.write(outer, b"piped")); note("read", "read", "pipe", len(os.read(inner, 99)))
note("write", "write", "eventfd", os.write(event, bytes([1]) + bytes(7)))
note("read", "read", "eventfd", len(os.read(event, 8)))
failed = 0
for fd in (outer, 999):
    try: os.read(fd, 1)
    except OSError: failed += 1
pipe = os.readlink(f"/proc/self/fd/{inner}")
said = json.dumps({"told": told, "failed": failed, "pipe": pipe, "said": 0}).encode()
os.write(1, said + b"\\n")
os.read(0, 1)
"""
SYNCING = """
import json, mmap, os, sys, time
folder = sys.argv[1]
first, second = (os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT) for name in ("first", "second"))
os.ftruncate(first, 4096)
memory = mmap.mmap(first, 4096)
inner, outer = os.pipe()
told = []
def span(op, name, call):
    began = time.monotonic_ns()
    try: call()
    except OSError as error: name = f"{name}:{error.errno}"
    told.append([op, name, began, time.monotonic_ns()])
for _ in range(20):
    os.pwrite(first, b"x" * 5000, 0)
    span("fsync", "first", lambda: os.fsync(first))
    os.pwrite(second, b"y" * 5000, 0)
    span("fdatasync", "second", lambda: os.fdatasync(second))
memory[:4] = b"done"
span("msync", None, memory.flush)
span("fsync", "pipe", lambda: os.fsync(inner))
json.dump(told, open(f"{folder}/told", "w"))
"""
# 32-bit code, which makes calls under numbers and with registers of its own.
OLD_CALLS = """
static int call(int number, int first, const void *second, int third) {
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "0"(number), "b"(first), "c"(second), "d"(third) : "memory");
    return result;
}
void _start(void) {
    for (int round = 0; round < 7; round++) call(4, 1, "eleven more", 11);
    call(1, 0, 0, 0);
}
"""
# Writes to standard error from two functions, without the C library's own between.
TWO_WRITERS = """
#define own __attribute__((noinline, noclone))
#define PUT(text) long put; __asm__ volatile( \\
    "syscall" : "=a"(put) : "0"(1L), "D"(2L), "S"(text), "d"(sizeof(text) - 1) : "rcx", "r11", "memory")
own void fill(void) { PUT("eleven more"); }
own void mark(void) { PUT("five!"); }
int main(void) {
    for (int round = 0; round < 30; round++) fill();
    for (int round = 0; round < 7; round++) mark();
}
"""


def drive(catalog: Catalog, source: str, target: BoundTarget, *keys: str, backend: str = TYPED, **asked: Any) -> Driver:
    resolved = resolve_onto(catalog.entries[source], backend, target.target, keys=keys, **asked)
    return Driver(Transfers() if source == "io.syscall" else Syncs(), resolved, target)


def wait_reading(pid: int) -> dict[str, int]:
    """Wait until a process sleeps in its read of standard input, and return its own account of what it moved."""
    while not (state := find_status_field(read_file("/", f"/proc/{pid}/status"), "State") or "").startswith("S") or (
        not read_file("/", f"/proc/{pid}/syscall").startswith(b"0 0x0 ")
    ):
        assert not state.startswith("Z"), "the program has ended"
        os.sched_yield()
    lines = read_file("/", f"/proc/{pid}/io").decode().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


@contextmanager
def start_moving(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the program that moves bytes, and let it end afterwards."""
    argv = [sys.executable, "-S", "-c", MOVING, str(folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as child:
        wait_reading(child.pid)
        yield child
        assert child.stdin is not None
        child.stdin.write(b"\n")
    assert child.returncode == 0


def let_move(child: subprocess.Popen[bytes]) -> tuple[dict[str, Any], dict[str, int]]:
    """Let the program move, and return what it says and by what its account grew."""
    assert child.stdin is not None
    assert child.stdout is not None
    before = wait_reading(child.pid)
    child.stdin.write(b"\n")
    line = child.stdout.readline()
    after = wait_reading(child.pid)
    told = json.loads(line)
    told["told"].append(["write", "write", "said", len(line)])
    return told, {name: after[name] - before[name] for name in after}


def name_file(row: dict[str, Any], folder: Path, told: dict[str, Any]) -> Any:
    """Name the file of a row as the program does."""
    file = row.get("file")
    if file == told["pipe"]:
        return "pipe"
    if file == "anon_inode:[eventfd]":
        return "eventfd"
    return "said" if file is None or file.startswith("pipe:") else str(Path(file).relative_to(folder))


@pytest.mark.spec("KRN-4", "EVT-2")
def test_each_call_is_the_programs_own_to_the_byte(catalog: Catalog, tmp_path: Path) -> None:
    """By name, direction and file, in order; their sums are what the kernel counts for the process."""
    with start_moving(tmp_path) as child:
        keys = ("op", "dir", "file", "descriptor", "task")
        with drive(catalog, "io.syscall", bind_processes(child.pid), *keys, mode="trace") as driver:
            told, grown = let_move(child)
            driver.sample()
    rows = [row for row in driver.rows if not row["failed"]]
    seen = [[row["op"].rstrip("2"), row["dir"], name_file(row, tmp_path, told), row["bytes"]] for row in rows]
    assert seen == told["told"]
    kinds = {name_file(row, tmp_path, told): row["descriptor"] for row in rows}
    assert kinds == {**dict.fromkeys(("first", "second", "other"), "file"), **dict.fromkeys(("pipe", "said"), "pipe"),
                     "eventfd": "eventfd"}  # fmt: skip
    moved = {name: sum(row["bytes"] for row in rows if row["dir"] == name) for name in ("read", "write")}
    # The read that the program was in when the programs came has its byte in the kernel's account alone.
    assert (moved["read"] + 1, moved["write"]) == (grown["rchar"], grown["wchar"])
    counted = [sum(row["dir"] == name for row in rows) for name in ("read", "write")]
    assert (counted[0] + 1, counted[1]) == (grown["syscr"], grown["syscw"])
    failed = [row for row in driver.rows if row["failed"]]
    assert [(row["error"], row["bytes"]) for row in failed] == [("EBADF", 0)] * told["failed"]
    assert [row.get("descriptor") for row in failed] == ["pipe", None]
    assert driver.collector.fields()["begun_before"] == driver.collector.fields()["unfinished"] == 1
    assert driver.collector.losses().is_empty


@pytest.mark.spec("KRN-4", "EVT-2")
@needs_records
@pytest.mark.parametrize("mode", ["trace", "count"])
def test_each_call_is_seen_without_the_kernels_types(catalog: Catalog, tmp_path: Path, mode: str) -> None:
    """By name and direction, to the byte, less at most what the kernel passed over; a record names no file."""
    with (
        start_moving(tmp_path) as child,
        drive(catalog, "io.syscall", bind_processes(child.pid), "op", "dir", backend=RECORDED, mode=mode) as driver,
    ):
        told, _ = let_move(child)
        driver.sample()
    weights = [1] * len(driver.rows) if mode == "trace" else driver._batches[0].weight
    seen: Counter[tuple[str, str, int]] = Counter()
    for row, calls in zip(driver.rows, weights, strict=True):
        assert not {"file", "descriptor", "proc", "ppid"} & row.keys()
        assert (row["error"] == "EBADF") if row["failed"] else ("error" not in row)
        seen[row["op"].rstrip("2"), row["dir"], 0 if row["failed"] else row["bytes"]] += int(calls)
    made = Counter((op, direction, moved) for op, direction, _, moved in told["told"])
    made["read", "read", 0] += told["failed"]
    losses = driver.collector.losses()
    # A call that is two events has one record of its beginning.
    assert made.total() - 2 * losses.skipped <= seen.total() <= made.total()
    if mode == "count":
        seen, made = add_bytes(seen), add_bytes(made)
    assert not seen - made
    assert losses.skipped or seen == made
    assert losses.dropped == 0
    if not losses.skipped:
        assert driver.collector.fields()["begun_before"] == driver.collector.fields()["unfinished"] == 1


def add_bytes(calls: Counter[tuple[str, str, int]]) -> Counter[tuple[str, str, int]]:
    """Return the bytes of each call and direction: of a sum the calls' own sizes are not known."""
    added: Counter[tuple[str, str, int]] = Counter()
    for (op, direction, moved), count in calls.items():
        added[op, direction, 0] += moved * count
    return added


@pytest.mark.spec("KRN-4", "CAT-8")
def test_sums_in_the_kernel_are_the_programs_own(catalog: Catalog, tmp_path: Path) -> None:
    """By name, direction and file, to the byte although a row has but a mean of its calls."""
    with (
        start_moving(tmp_path) as child,
        drive(catalog, "io.syscall", bind_processes(child.pid), "op", "dir", "file", mode="count") as driver,
    ):
        told, _ = let_move(child)
        rows = driver.sample()
        weight = driver._batches[0].weight
    assert weight is not None
    made: dict[tuple[Any, ...], list[int]] = {}
    for op, direction, file, moved in told["told"]:
        one = made.setdefault((op, direction, file), [0, 0])
        one[0] += 1
        one[1] += moved
    counted: dict[tuple[Any, ...], list[int]] = {}
    for row, calls in zip(rows, weight.tolist(), strict=True):
        if row["failed"]:
            assert row["error"] == "EBADF"
            continue
        one = counted.setdefault((row["op"].rstrip("2"), row["dir"], name_file(row, tmp_path, told)), [0, 0])
        one[0] += calls
        one[1] += calls * row["bytes"]
        assert row["total_ns"] >= row["time_ns"] * calls
    assert counted == made
    assert driver.collector.losses().is_empty


@pytest.mark.spec("KRN-5")
@needs_records
def test_what_a_launched_program_starts_is_counted_by_records(omn: Command) -> None:
    """Two processes that read a known number of bytes each, with the stacks that they read in."""
    script = "for name in one two; do head -c 70001 /dev/zero > /dev/null; done"
    asked = ["--keys", "comm", "-e", "count", "-e", "stack", "--filter", "comm == 'head' and dir == 'write'"]
    ran = omn(
        "io.syscall",
        "-m",
        "trace",
        *asked,
        "--backend",
        f"force:{RECORDED}",
        "--format",
        "json",
        "--",
        "sh",
        "-c",
        script,
    )
    assert ran.code == 0, ran.stderr
    (series,) = ran.result["series"]
    written, skipped = series["emits"]["count"]["value"], ran.result["losses"]["skipped"]
    assert written == 2 * 70001 or (skipped and written < 2 * 70001)
    # A stack that the kernel did not keep, since another has its place, is a row without frames.
    assert any("write" in frame for row in series["emits"]["stack"]["rows"] for frame in row["frames"][:1])


@pytest.mark.spec("KRN-5")
def test_a_launched_program_is_counted_with_what_it_starts(omn: Command, tmp_path: Path) -> None:
    """Two processes that write a known number of bytes; one by one, and by file in sums, the totals agree."""
    script = f"for name in one two; do head -c 70001 /dev/zero > {tmp_path}/$name; done"
    asked = ["--keys", "dir,descriptor", "-e", "count", "--filter", "comm == 'head'", "--format", "json"]
    totals = []
    for mode in ("count", "trace"):
        ran = omn("io.syscall", "-m", mode, *asked, "--", "sh", "-c", script)
        assert ran.code == 0, ran.stderr
        counted = {tuple(one["key"].values()): one["emits"]["count"]["value"] for one in ran.result["series"]}
        totals.append(counted)
    assert totals[0] == totals[1]
    assert totals[0]["write", "file"] == 2 * 70001
    assert totals[0]["read", "device"] >= 2 * 70001


def test_calls_of_32_bit_code_are_counted(omn: Command, tmp_path: Path) -> None:
    """Under their own numbers, with their arguments in other registers."""
    program = compile_c(tmp_path, "old", OLD_CALLS, "-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie")
    out = tmp_path / "out"
    ran = omn(
        "io.syscall", "-m", "count", "-e", "count", "--keys", "op,file", "--format", "json", "--",
        "sh", "-c", f"exec {program} > {out}",
    )  # fmt: skip
    if ran.document["program"]["exit"] != {"code": 0}:
        pytest.skip("this kernel runs no 32-bit programs")
    counted = {tuple(one["key"].values()): one["emits"]["count"] for one in ran.result["series"]}
    assert counted["i386:write", str(out)]["value"] == 77
    assert counted["i386:write", str(out)]["events"] == 7


@pytest.mark.spec("EVT-6")
def test_a_count_divides_by_the_functions_that_call(omn: Command, tmp_path: Path) -> None:
    """Sums that the kernel makes have no stacks, so that each call is taken where functions are asked for."""
    program = compile_c(tmp_path, "writers", TWO_WRITERS, "-O1", "-fno-omit-frame-pointer")
    asked = ["io.syscall", "-m", "count", "-e", "count", "--keys", "func", "--filter", "func in ('fill', 'mark')"]
    ran = omn(*asked, "--format", "json", "--", str(program))
    counts = {row["key"]["func"]: row["emits"]["count"] for row in ran.result["series"]}
    assert {func: (count["events"], count["value"]) for func, count in counts.items()} == {
        "fill": (30, 330),
        "mark": (7, 35),
    }


def test_a_thread_is_told_from_all_others(catalog: Catalog) -> None:
    """And a call that has not returned is counted beside the answer, as is one that had begun before."""
    (inner, outer), (answered, answering) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.read(inner, 1)
        os.write(answering, b"four")
        os.read(inner, 1)
        os._exit(0)
    while not read_file("/", f"/proc/{child}/syscall").startswith(b"0 "):
        os.sched_yield()
    with drive(catalog, "io.syscall", bind_thread(child, child), "op", mode="trace") as driver:
        os.write(outer, b"x")
        assert os.read(answered, 4) == b"four"
        while not read_file("/", f"/proc/{child}/syscall").startswith(b"0 "):
            os.sched_yield()
        driver.sample()
    os.write(outer, b"x")
    os.waitpid(child, 0)
    assert [(row["op"], row["bytes"]) for row in driver.rows] == [("write", 4)]
    assert driver.collector.fields()["begun_before"] == driver.collector.fields()["unfinished"] == 1
    for descriptor in (inner, outer, answered, answering):
        os.close(descriptor)


def test_files_beyond_those_kept_are_named_by_number(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the answer says how many calls were on them."""
    monkeypatch.setattr(file_calls, "OpenFiles", lambda resolved: open_files.OpenFiles(resolved, 1))
    files = [os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT) for name in ("one", "other")]
    with drive(catalog, "io.syscall", bind_processes(os.getpid()), "file", mode="trace") as driver:
        for file in files:
            os.write(file, b"text")
        driver.sample()
    status = os.fstat(files[1])
    number = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}:{status.st_ino}"
    assert number in {row["file"] for row in driver.rows if row["bytes"] == 4}
    assert "events are of files beyond 1," in driver.collector.degradations()[-1]
    for file in files:
        os.close(file)


def test_calls_whose_row_has_no_room_are_counted(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in rows and what is lost are the calls that were made."""
    monkeypatch.setattr(file_calls.FileCallRows, "entries", 1)
    inner, outer = os.pipe()
    with drive(catalog, "io.syscall", bind_processes(os.getpid()), "op", mode="count") as driver:
        for _ in range(100):
            os.write(outer, b"x")
            os.read(inner, 1)
        driver.sample()
    weight = driver._batches[0].weight
    assert weight is not None
    assert driver.collector.losses().dropped >= 100
    assert int(weight.sum()) + driver.collector.losses().dropped >= 200
    os.close(inner)
    os.close(outer)


@pytest.mark.spec("KRN-4", "EVT-2")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_each_sync_is_inside_the_programs_own_time(omn: Command, tmp_path: Path, backend: str) -> None:
    """By call and, where that is told, by file; one that fails has its error, and one of memory names no file."""
    asked = ["-e", "raw", "--backend", f"force:{backend}", "--format", "json"]
    ran = omn("io.fsync", *asked, "--", sys.executable, "-S", "-c", SYNCING, str(tmp_path))
    assert ran.code == 0, ran.stderr
    made = json.loads((tmp_path / "told").read_text())
    seen = ran.result["raw"]
    skipped = ran.result["losses"]["skipped"]
    if backend == RECORDED and skipped:
        assert len(made) - skipped <= len(seen) <= len(made)
        return
    assert [row["key"]["op"] for row in seen] == [op for op, *_ in made]
    for row, (_, name, began_ns, ended_ns) in zip(seen, made, strict=True):
        assert began_ns <= row["ts_ns"] - row["attrs"]["time_ns"] <= row["ts_ns"] <= ended_ns
        file = row["key"].get("file")
        if backend == RECORDED:
            assert file is None
            assert row["attrs"].get("error") == ("EINVAL" if name == "pipe:22" else None)
        elif name in ("first", "second"):
            assert file == str(tmp_path / name)
        else:
            assert (name, row["attrs"].get("error")) in ((None, None), ("pipe:22", "EINVAL"))
            assert (file is None) is (name is None)
    assert not any(ran.result["losses"][kind] for kind in ("dropped", "skipped", "failed_reads"))


def test_the_machine_is_asked_with_omn_in_it(catalog: Catalog, tmp_path: Path) -> None:
    """A bystander's sync is in it, under its name."""
    script = f"import os; os.fsync(os.open({str(tmp_path / 'file')!r}, os.O_WRONLY | os.O_CREAT))"
    with drive(catalog, "io.fsync", bind_machine(), "file", "comm", "proc") as driver:
        subprocess.run([sys.executable, "-S", "-c", script], check=True)
        driver.sample()
    found = [row for row in driver.rows if row.get("file") == str(tmp_path / "file")]
    assert len(found) == 1
    assert found[0]["comm"].startswith("python")


@pytest.mark.spec("REQ-9")
@pytest.mark.parametrize("source", ["io.syscall", "io.fsync"])
def test_without_the_capability_it_is_the_machines_refusal(omn: Command, source: str) -> None:
    """It names the capability, and nothing ran."""
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv (util-linux) is not installed here")
    drop = ["setpriv", "--bounding-set=-bpf,-sys_admin", "--inh-caps=-bpf,-sys_admin"]
    asked = [*omn.argv, source, "-m", "trace", "-e", "summary", "--", "true"]
    refused = subprocess.run([*drop, *asked], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "CAP_BPF" in refused.stderr
    assert refused.stderr.rstrip().endswith("omn: this machine refused the request; nothing ran")
