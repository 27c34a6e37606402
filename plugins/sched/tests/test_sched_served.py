"""Interrupts, deferred work and moves between cpus by programs in the kernel, held to the kernel's own counts."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import pytest
from event_backends import EACH_BACKEND, RECORDED, TYPED
from held_cpus import hold_cpus
from networks import send_to_oneself
from omn_kernel.procfs.interrupts import parse_counts, parse_description, parse_interrupts
from omn_sched.traced import Interrupts, Migrations, SoftInterrupts

from omn_core.api import BoundTarget, EmitSpec
from omn_core.model.catalog import Catalog
from omn_core.testing.harness import Driver, bind_machine, bind_processes, bind_thread, list_rows, resolve_onto

pytestmark = pytest.mark.usefixtures("loads_typed_programs")
BLOCK = 4096
# Moves itself between two cpus when it is told to, as often as it is told, and a child of its own after it.
MOVER = """
import json, os, sys
first, second = sorted(os.sched_getaffinity(0))[:2]
def move(times):
    for number in range(times): os.sched_setaffinity(0, [(second, first)[number % 2]])
os.sched_setaffinity(0, [first])
print(json.dumps([first, second]), flush=True)
sys.stdin.readline()
move(100)
child = os.fork()
if child == 0:
    move(50)
    os._exit(0)
os.waitpid(child, 0)
print(child, flush=True)
sys.stdin.readline()
"""


def drive(
    catalog: Catalog, source: str, target: BoundTarget, keys: tuple[str, ...], backend: str = TYPED, **asked: Any
) -> Driver:
    collectors = {"sched.irq": Interrupts, "sched.softirq": SoftInterrupts, "sched.migrations": Migrations}
    emits = tuple(EmitSpec(name) for name in asked.pop("emits", ("raw",)))
    resolved = resolve_onto(catalog.entries[source], backend, target.target, **{"mode": "trace", "keys": keys, **asked})
    return Driver(collectors[source](), attrs.evolve(resolved, emits=emits), target)


def read_counts(path: str) -> Counter[tuple[str, int]]:
    """Read how often each line came to each cpu."""
    table = parse_interrupts(Path(path).read_bytes())
    return Counter(
        {
            (label, cpu): count
            for label, line in table.lines.items()
            for cpu, count in zip(table.cpus, parse_counts(line, len(table.cpus)), strict=False)
        }
    )


def take(driver: Driver) -> list[tuple[int, dict[str, Any]]]:
    """Take rows that were added up in the kernel, each with how many events it stands for."""
    batch = driver.collector.sample(time.monotonic_ns())
    assert batch.weight is not None
    return list(zip(batch.weight.tolist(), list_rows(batch), strict=True))


def write_disk(path: Path) -> Path:
    """Write a file through to the disk."""
    with open(path, "wb") as file:
        file.write(os.urandom(20 * BLOCK))
        os.fsync(file.fileno())
    return path


def read_disk(path: Path) -> None:
    """Read the file's blocks from the disk, each by itself and past the cache."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, BLOCK) as block:
        try:
            for number in range(20):
                os.preadv(descriptor, [block], number * BLOCK)
        finally:
            os.close(descriptor)


Readings: TypeAlias = list[tuple[int, Counter[tuple[str, int]]]]


def read_around(path: str, work: Callable[[], None]) -> Readings:
    """Read the kernel's counts before and after some work, each with a time before it and one after it.

    Meanwhile nobody else's task has a cpu, and none that the kernel hides from tracepoints.
    """
    while True:
        readings: Readings = []
        with hold_cpus() as until_ns:
            for step in (lambda: None, work):
                step()
                began_ns = time.monotonic_ns()
                counts = read_counts(path)
                readings += [(began_ns, counts), (time.monotonic_ns(), counts)]
        if readings[-1][0] < until_ns:
            return readings


def check_counts(driver: Driver, key: str, readings: Readings, *, lost: int) -> Counter[tuple[str, int]]:
    """Hold events to what the kernel counted between two readings, line by line and cpu by cpu; return what it did.

    Records that were passed over (`lost`) are in its counts alone. Lines without a number pass no tracepoint. One may
    be counted at a reading and have passed no tracepoint yet.
    """
    (begun_ns, before), (begins_ns, _), (ends_ns, after), (ended_ns, _) = readings
    made = Counter({line: count for line, count in (after - before).items() if key != "irq" or line[0].isdigit()})
    inside, around = (
        Counter((row[key], row["cpu"]) for row in driver.rows if first_ns <= row["ts_ns"] - row["time_ns"] <= last_ns)
        for first_ns, last_ns in ((begins_ns, ends_ns), (begun_ns, ended_ns))
    )
    for line in inside | made:
        assert inside[line] - 1 <= made[line] <= around[line] + 1 + lost, line
    return made


@pytest.mark.spec("SCH-1")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_deferred_work_is_what_the_kernel_counts_of_it(catalog: Catalog, backend: str) -> None:
    """By kind and cpu, between readings of /proc/softirqs, while nobody runs whom the kernel hides from tracepoints."""
    with drive(catalog, "sched.softirq", bind_machine(), ("softirq", "cpu"), backend) as driver:
        readings = read_around("/proc/softirqs", partial(send_to_oneself, 200))
        driver.sample()
    skipped = driver.collector.losses().skipped
    assert backend == RECORDED or skipped == 0
    made = check_counts(driver, "softirq", readings, lost=skipped)
    # Several packets may be the work of one poll of the queue.
    assert any(kind == "NET_RX" for kind, _ in made)
    assert min(row["time_ns"] for row in driver.rows) > 0
    waited = [row["raised_to_served_ns"] for row in driver.rows if "raised_to_served_ns" in row]
    assert waited
    assert min(waited) > 0


@pytest.mark.spec("SCH-1", "EVT-5")
@pytest.mark.parametrize("backend", EACH_BACKEND)
@pytest.mark.parametrize(("source", "path"), [("sched.softirq", "/proc/softirqs"), ("sched.irq", "/proc/interrupts")])
def test_what_passed_no_tracepoint_is_a_loss(
    catalog: Catalog, tmp_path: Path, source: str, path: str, backend: str
) -> None:
    """Traced, counted and as a histogram: events and losses together are what the kernel counts, whoever ran."""
    asked: dict[str, dict[str, Any]] = {
        "raw": {},
        "count": {"mode": "count", "emits": ("count",)},
        "hist": {"emits": ("hist",), "value": "time_ns"},
    }
    written = write_disk(tmp_path / "written")
    with ExitStack() as stack:
        drivers = {
            name: stack.enter_context(drive(catalog, source, bind_machine(), ("cpu",), backend, **each))
            for name, each in asked.items()
        }
        before = count_lines(path)
        send_to_oneself(200)
        read_disk(written)
        made = count_lines(path) - before
        taken = {name: take(drivers[name]) for name in ("count", "hist")}
        drivers["raw"].sample()
    taken["raw"] = [(1, row) for row in drivers["raw"].rows]
    assert made > 0
    for name, driver in drivers.items():
        assert all(row["time_ns"] > 0 for _, row in taken[name])
        losses = driver.collector.losses()
        known = sum(weight for weight, _ in taken[name]) + losses.dropped + losses.skipped
        # What was being served at the first reading is counted then, and its end is in no event.
        assert made <= known + driver.collector.fields()["begun_before"], name
        assert all("passed no tracepoint" in reason or losses.skipped for reason in losses.reasons)


def count_lines(path: str) -> int:
    """Count what came of what passes tracepoints: of interrupts the lines with numbers."""
    counts = read_counts(path)
    return sum(count for (label, _), count in counts.items() if path == "/proc/softirqs" or label.isdigit())


@pytest.mark.spec("SCH-1")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_interrupts_are_what_the_kernel_counts_of_each_line(catalog: Catalog, tmp_path: Path, backend: str) -> None:
    """By line and cpu, each with the time that its handlers took and what they are called; nobody hidden runs."""
    written = write_disk(tmp_path / "written")
    with drive(catalog, "sched.irq", bind_machine(), ("irq", "cpu"), backend) as driver:
        readings = read_around("/proc/interrupts", partial(read_disk, written))
        driver.sample()
    skipped = driver.collector.losses().skipped
    assert backend == RECORDED or skipped == 0
    assert check_counts(driver, "irq", readings, lost=skipped)
    table = parse_interrupts(Path("/proc/interrupts").read_bytes())
    for row in driver.rows:
        assert row["time_ns"] > 0
        assert row["description"].split("\0")[0] in parse_description(table.lines[row["irq"]], len(table.cpus))


def test_an_interval_without_work_is_a_zero(catalog: Catalog) -> None:
    """Of a kind that never comes, and not no reading at all."""
    asked: dict[str, Any] = {"mode": "poll", "emits": ("summary",)}
    with drive(catalog, "sched.irq", bind_machine(), (), **asked) as driver:
        driver.sample()
        row = driver.sample()
    assert len(row) == 1
    assert row[0]["interrupts"] >= 0


def count_skipped(driver: Driver, backend: str) -> int:
    """Return how many events a program was not called for, and hold the driver to no other loss."""
    losses = driver.collector.losses()
    assert losses.dropped == 0
    assert backend == RECORDED or losses.skipped == 0
    return losses.skipped


@pytest.mark.spec("SCH-1")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_moves_are_those_that_a_program_makes(catalog: Catalog, backend: str) -> None:
    """Each with where from and where to: of a process with what it starts, a thread, and the cpu that it came to."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("moving takes two cpus, and this process has one")
    argv = [sys.executable, "-S", "-c", MOVER]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        first, second = json.loads(program.stdout.readline())
        keys = ("task", "cpu")
        with (
            drive(catalog, "sched.migrations", bind_processes(program.pid), keys, backend) as of_process,
            drive(catalog, "sched.migrations", bind_thread(program.pid, program.pid), keys, backend) as of_thread,
            drive(catalog, "sched.migrations", bind_machine(second), keys, backend) as of_cpu,
            drive(
                catalog, "sched.migrations", bind_processes(program.pid), (), backend, mode="count", emits=("count",)
            ) as total,
        ):
            program.stdin.write("\n")
            child = int(program.stdout.readline())
            for driver in (of_process, of_thread, of_cpu):
                driver.sample()
            summed = take(total)
        program.stdin.write("\n")
    skipped = {driver: count_skipped(driver, backend) for driver in (of_process, of_thread, of_cpu, total)}
    for driver in (of_process, of_thread):
        own = Counter((row["from_cpu"], row["cpu"]) for row in driver.rows if row["task"] == program.pid)
        assert own.keys() == {(first, second), (second, first)}
        assert all(50 - skipped[driver] <= count <= 50 for count in own.values())
    assert 150 - skipped[of_process] <= len(of_process.rows) <= 150
    assert {row["task"] for row in of_process.rows} == {program.pid, child}
    assert {row["cpu"] for row in of_cpu.rows} == {second}
    assert 50 - skipped[of_cpu] <= len([row for row in of_cpu.rows if row["task"] == program.pid]) <= 50
    assert 150 - skipped[total] <= sum(weight for weight, _ in summed) <= 150
