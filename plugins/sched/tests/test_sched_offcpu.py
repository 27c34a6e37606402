"""Threads off the cpu, held against programs that know how long and where they sleep, and the kernel's accounts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from compiled import compile_c
from event_backends import EACH_BACKEND, RECORDED, leave_out_skipped
from moments import READ_MOMENT
from omn_kernel.btf.kernel import read_kernel_btf
from omn_kernel.procfs.task import parse_stat
from omn_sched.blocks import Blocks
from omn_sched.off_cpu_times import end_at, name_state

from omn_core.api import EmitSpec
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_typed_programs")

# Sleeps 40 times for five milliseconds below two calls, by the system call itself: what is walked by frame pointers
# would miss the caller of a library's function that sets none up.
SLEEPER = """
#include <time.h>
#include <sys/syscall.h>
static const struct timespec nap = {0, 5000000};
__attribute__((noinline)) long f(void) {
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"((long)SYS_nanosleep), "D"(&nap), "S"(0L) : "rcx", "r11", "memory");
    return answer;
}
__attribute__((noinline)) long g(void) { long answer = f(); __asm__ volatile("" : "+r"(answer)); return answer; }
int main(void) { for (int i = 0; i < 40; i++) { g(); __asm__ volatile(""); } return 0; }
"""
# Spins and sleeps in turn, and writes what the kernel says that it ran and waited for a cpu before and after, and what
# the machine's host took meanwhile.
MIXED = (
    READ_MOMENT
    + """
import json, sys
before = read_moment()
for _ in range(20):
    end = time.thread_time_ns() + 4_000_000
    while time.thread_time_ns() < end:
        pass
    time.sleep(0.004)
json.dump([before, read_moment()], open(sys.argv[1], "w"))
"""
)


@pytest.fixture
def asleep() -> Iterator[subprocess.Popen[bytes]]:
    """A program that sleeps until it is told to end."""
    argv = [sys.executable, "-c", "import sys; print('ready', flush=True); sys.stdin.read()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        while parse_stat(Path(f"/proc/{program.pid}/stat").read_bytes()).state != "S":
            os.sched_yield()
        yield program
        program.communicate()


def get_emit(result: dict[str, Any], name: str) -> Any:
    """Return what an emit of the one series says."""
    (series,) = result["series"]
    return series["emits"][name]


def leave_out_unseen(losses: dict[str, Any], backend: str) -> None:
    """Leave out where records alone tell of blocks and an end was not seen, which only the kernel's account mends."""
    assert backend == RECORDED or losses["dropped"] == 0
    leave_out_skipped(losses["skipped"] + losses["dropped"], backend)


@pytest.mark.spec("SRC-2", "STK-3")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_a_sleepers_stack_is_its_calls(omn: Command, tmp_path: Path, backend: str) -> None:
    """Each sleep is there, below main, g and f, and nothing of the program that looks stands in it."""
    path = compile_c(tmp_path, "sleeper", SLEEPER, "-O0")
    asked = ["-m", "trace", "-e", "stack", "-e", "summary", "--format", "json", "--backend", f"force:{backend}"]
    ran = omn("sched.offcpu", *asked, "--", str(path))
    assert ran.code == 0, ran.stderr
    leave_out_unseen(ran.result["losses"], backend)
    # One that is made to give way on its way to sleep leaves twice, and from elsewhere in the kernel.
    slept = [row for row in get_emit(ran.result, "stack")["rows"] if "f" in row["frames"]]
    assert sum(row["count"] for row in slept) >= 40
    for row in slept:
        place = row["frames"].index("f")
        assert row["frames"][place : place + 3] == ["f", "g", "main"]
        assert row["frames"][0] in ("__schedule", "schedule")
        assert not any(name.startswith(("bpf_", "__traceiter", "[kernel")) for name in row["frames"])


# Waits for its child to sleep in two ways, and says what the kernel says that it waits in (proc_pid_wchan(5)).
WAITING = """
import json, os, select, sys, time
waits = []
def say(wait):
    inner, outer = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        wait(inner[0])
        os._exit(0)
    while open(f"/proc/{child}/stat").read().rpartition(")")[2].split()[0] != "S":
        os.sched_yield()
    time.sleep(0.02)
    waits.append((child, open(f"/proc/{child}/wchan").read()))
    os.write(inner[1], b"x")
    os.waitpid(child, 0)
say(lambda read: os.read(read, 1))
say(lambda read: select.select([read], [], []))
json.dump(waits, open(sys.argv[1], "w"))
"""


def test_a_function_is_what_the_kernel_says_a_thread_waits_in(omn: Command, tmp_path: Path) -> None:
    """The longest of each child's blocks is in its wchan, whatever of the scheduler's own stands below that."""
    out = tmp_path / "waits"
    asked = ["-m", "trace", "--keys", "proc,func", "-e", "summary", "--format", "json"]
    ran = omn("sched.offcpu", *asked, "--", sys.executable, "-c", WAITING, str(out))
    assert ran.code == 0, ran.stderr
    longest: dict[int, tuple[int, str]] = {}
    for series in ran.result["series"]:
        child, block = int(series["key"]["proc"].rpartition(":")[2]), series["emits"]["summary"]["max"]
        longest[child] = max(longest.get(child, (0, "")), (block, series["key"]["func"]))
    waits = json.loads(out.read_text())
    assert len({function for _, function in waits}) == 2
    assert [longest[child][1] for child, _ in waits] == [function for _, function in waits]


def test_the_function_that_a_thread_waits_in_ranks_and_filters(omn: Command) -> None:
    """As it divides: what is kept are the sleeps alone, each in the row of its function."""
    asked = ["-m", "trace", "-e", "topk@func", "-e", "summary", "--filter", 'func =~ "nanosleep"', "--format", "json"]
    ran = omn("sched.offcpu", *asked, "--", sys.executable, "-c", "import time\nfor _ in range(3): time.sleep(0.002)")
    assert ran.code == 0, ran.stderr
    rows = get_emit(ran.result, "topk@func")["rows"]
    assert rows
    assert all("nanosleep" in row["key"]["func"] for row in rows)
    summary = get_emit(ran.result, "summary")
    assert summary["count"] >= 3
    assert sum(row["value"] for row in rows) == summary["total"] >= 3 * 2_000_000


@pytest.mark.spec("SRC-2")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_what_was_off_queued_and_on_the_cpu_is_the_threads_life(omn: Command, tmp_path: Path, backend: str) -> None:
    """To a hundredth, less what a host takes of a cpu that runs, and what it waited is what the kernel says."""
    out = tmp_path / "account"
    asked = ["-m", "trace", "-e", "raw", "--format", "json", "--backend", f"force:{backend}"]
    ran = omn("sched.offcpu", *asked, "--", sys.executable, "-c", MIXED, str(out))
    assert ran.code == 0, ran.stderr
    leave_out_unseen(ran.result["losses"], backend)
    (began_ns, *before), (ended_ns, *after) = json.loads(out.read_text())
    *_, ran_ns, waited_ns, stolen_ns = (late - early for early, late in zip(before, after, strict=True))
    rows = [row["attrs"] for row in ran.result["raw"] if began_ns <= row["ts_ns"] <= ended_ns]
    off_ns, queued_ns = (sum(row[name] for row in rows) for name in ("off_ns", "queued_ns"))
    lived_ns = ended_ns - began_ns
    # The kernel leaves what was stolen out of what a thread ran, and tells of it in ticks.
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    assert 0.99 * lived_ns - stolen_ns - tick_ns <= off_ns + queued_ns + ran_ns <= 1.01 * lived_ns
    # Between the queue's clock and the tracepoint a host may take the cpu: records wait from the one, the kernel from
    # the other.
    taken_ns = stolen_ns + tick_ns if backend == RECORDED else 0
    assert queued_ns > 0
    assert queued_ns == pytest.approx(waited_ns, rel=0.02, abs=1_000_000 + taken_ns)
    assert sum(row["off_ns"] for row in rows if row["state"] == "interruptible") >= 0.95 * 20 * 4_000_000


@pytest.mark.spec("SRC-2")
def test_a_block_begins_where_the_scheduler_is_entered(omn: Command, tmp_path: Path) -> None:
    """A little before the switch that ends the thread's turn, and within that turn; else the answer says where."""
    session = tmp_path / "session.json"
    program = [sys.executable, "-c", "import time\nfor _ in range(100): time.sleep(0.0002)"]
    asked = {"mode": "trace", "emits": ["raw"], "keys": ["task"], "target": {"launch": program}}
    requests = [{"source": name, **asked} for name in ("sched.offcpu", "sched.slices")]
    session.write_text(json.dumps({"requests": requests}))
    ran = omn("-f", str(session), "--format", "json")
    assert ran.code == 0, ran.stderr
    blocks, turns = (
        [(row["ts_ns"], row["attrs"]) for row in result["raw"] if row["key"]["task"] == ran.document["program"]["pid"]]
        for result in ran.document["results"]
    )
    said = [fact for fact in ran.document["results"][0]["facts"] if "begins at the switch" in fact]
    if read_kernel_btf("/").find_tracepoint("sched_entry_tp") is None:
        assert said
        return
    assert said == []
    begun = [ts_ns - attrs["off_ns"] - attrs["queued_ns"] for ts_ns, attrs in blocks if attrs["off_ns"] > 100_000]
    assert len(begun) >= 100
    spans = [(ts_ns - attrs["slice_ns"], ts_ns) for ts_ns, attrs in turns]
    assert all(any(began < at < ended for began, ended in spans) for at in begun)


def test_a_thread_that_is_made_to_give_way_waits_for_a_cpu_all_the_time(omn: Command) -> None:
    """Nothing of its gap is time off the cpu for another reason, to the nanosecond."""
    code = "import os\nfor _ in range(200): os.sched_yield()"
    asked = ["-m", "trace", "-e", "raw", "--filter", 'state == "runnable"', "--format", "json"]
    pair = f"taskset -c 0 {sys.executable} -c '{code}' & taskset -c 0 {sys.executable} -c '{code}'; wait"
    ran = omn("sched.offcpu", *asked, "--", "sh", "-c", pair)
    assert ran.code == 0, ran.stderr
    rows = [row["attrs"] for row in ran.result["raw"]]
    assert len(rows) > 100
    assert any(row["queued_ns"] > 0 for row in rows)
    assert {row["off_ns"] for row in rows} == {0}


def test_a_block_whose_end_passed_no_tracepoint_ends_where_the_kernel_says(catalog: Catalog) -> None:
    """When its thread leaves again: at its last arrival by the kernel's account. One that never was is no block."""
    thread = threading.get_native_id()
    target = bind_processes(os.getpid())
    entry = catalog.entries["sched.offcpu"]
    resolved = resolve_onto(entry, "bpf:raw_tp", target.target, mode="trace", keys=("task",))
    collector = Blocks()
    with Driver(collector, attrs.evolve(resolved, emits=(EmitSpec("raw"),)), target) as driver:
        left_ns = time.monotonic_ns()
        time.sleep(0.001)
        ahead_ns = time.monotonic_ns() + 60_000_000_000
        for began_ns in (left_ns, ahead_ns):
            row = np.zeros((), collector.record)
            row["left_ns"], row["state"] = began_ns, 1
            collector.get_spans().update((thread,), row)
            time.sleep(0.001)
        driver.sample()
        until_ns = time.monotonic_ns()
    ended = {row["ts_ns"] - row["off_ns"] - row["queued_ns"]: row["ts_ns"] for row in driver.rows}
    assert left_ns + 1_000_000 <= ended[left_ns] <= until_ns
    assert ahead_ns not in ended


@pytest.mark.spec("REQ-10")
def test_a_thread_that_sleeps_all_the_time_counts_the_window(omn: Command, asleep: subprocess.Popen[bytes]) -> None:
    """It was off the cpu before anybody looked and is still: one event of the whole window, that has not ended."""
    asked = ["-m", "trace", "-e", "summary", "-e", "raw", "-d", "300ms", "--format", "json"]
    ran = omn("sched.offcpu", "--pid", str(asleep.pid), *asked)
    assert ran.code == 0, ran.stderr
    (row,) = ran.result["raw"]
    window = ran.result["window"]
    assert window["opened_ns"] < row["ts_ns"] <= window["closed_ns"]
    assert row["attrs"]["off_ns"] >= row["ts_ns"] - window["opened_ns"]
    assert (row["attrs"]["queued_ns"], row["attrs"]["state"]) == (0, "interruptible")
    assert (row["attrs"]["pid"], row["attrs"]["blocks"]) == (asleep.pid, 1)
    assert ran.result["fields"]["unfinished"] == 1


def test_a_launched_sleeper_is_unfinished_when_the_window_closes(omn: Command) -> None:
    """Most of the window of a program that sleeps longer than it is its one block."""
    ran = omn("sched.offcpu", "-m", "count", "-e", "count", "-d", "700ms", "--format", "json", "--", "sleep", "15")
    assert ran.code == 0, ran.stderr
    window = ran.result["window"]
    assert ran.result["fields"]["unfinished"] == 1
    assert get_emit(ran.result, "count")["value"] == pytest.approx(window["closed_ns"] - window["opened_ns"], rel=0.5)


def test_a_launched_sleeper_counts_a_window_that_begins_later(omn: Command, tmp_path: Path) -> None:
    """It was off the cpu before its window's start and is still, which is all that there is of it."""
    session = tmp_path / "session.yaml"
    asked = "mode: trace, emits: [raw], target: {launch: [sleep, '15']}, window: {start: 400ms, stop: 700ms}"
    session.write_text(f"requests:\n  - {{source: sched.offcpu, {asked}}}\n")
    ran = omn("-f", str(session), "--format", "json")
    assert ran.code == 0, ran.stderr
    (row,) = ran.result["raw"]
    assert row["attrs"]["off_ns"] >= row["ts_ns"] - ran.result["window"]["opened_ns"]
    assert ran.result["fields"]["unfinished"] == 1


@pytest.mark.spec("EVT-6")
def test_without_stacks_nothing_is_read_from_them(omn: Command) -> None:
    """It is the request's mistake, and a way to walk that programs have not is the build's."""
    refused = omn("sched.offcpu", "-m", "count", "-e", "count", "--keys", "func", "--stack", "none", "--", "true")
    assert (refused.code, "--stack none" in refused.stderr) == (2, True)
    refused = omn("sched.offcpu", "-m", "trace", "-e", "stack", "--stack", "dwarf", "--", "true")
    assert refused.code in (1, 3)
    assert "dwarf" in refused.stderr


def test_the_machine_is_no_target(omn: Command) -> None:
    """Every idle thread of it is off the cpu."""
    refused = omn("sched.offcpu", "-m", "count", "-e", "count", "--system", "-d", "1s")
    assert (refused.code, "idle thread" in refused.stderr) == (2, True)


def test_what_had_not_ended_at_the_close_ends_there() -> None:
    """Of a thread that came back later, what it was off until the close; of one made to give way, all as a wait."""
    layout = np.dtype([("ns", "u8"), ("left_ns", "u8"), ("off_ns", "i8"), ("queued_ns", "i8"), ("state", "u4")])
    records = np.array([(90, 50, 30, 10, 1), (130, 60, 20, 50, 1), (140, 70, 65, 5, 1), (150, 120, 20, 10, 1)], layout)
    left = np.array([(0, 80, 0, 0, 2), (0, 95, 0, 0, 0), (0, 110, 0, 0, 1)], layout)
    whole, unfinished = end_at(records, left, 100)
    assert unfinished == 4
    told = [(int(row["ns"]), int(row["off_ns"]), int(row["queued_ns"])) for row in whole]
    assert told == [(90, 30, 10), (100, 20, 20), (100, 30, 0), (100, 20, 0), (100, 0, 5), (150, 20, 10)]


@pytest.mark.parametrize(
    ("state", "name"),
    [(0, "runnable"), (1, "interruptible"), (2, "uninterruptible"), (0x402, "idle"), (0x2001, "interruptible")],
)
def test_states_have_the_kernels_names(state: int, name: str) -> None:
    """A bit beside them, such as that of a thread that may be frozen, changes nothing."""
    assert name_state(state) == name
