"""Interrupts, deferred work and moves between cpus by programs in the kernel, held to the kernel's own counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import pytest
from event_backends import EACH_BACKEND, RECORDED, TYPED
from omn_kernel.btf.kernel import PATH
from omn_kernel.privileges import read_privileges
from omn_kernel.procfs.interrupts import parse_counts, parse_description, parse_interrupts
from omn_sched.traced import Interrupts, Migrations, SoftInterrupts

from omn_core.api import BoundTarget, EmitSpec
from omn_core.model.catalog import Catalog
from omn_core.testing.harness import Driver, bind_machine, bind_processes, bind_thread, list_rows, resolve_onto

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


@pytest.fixture(autouse=True)
def _privileged() -> None:
    if not read_privileges("/").has("bpf"):
        pytest.skip("this process is without CAP_BPF")
    if not os.path.exists(PATH):
        pytest.skip(f"this kernel has no {PATH}")


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


def write_disk(path: Path, blocks: int) -> None:
    """Write blocks to a file, each through to the disk."""
    data = os.urandom(4096)
    with open(path, "wb") as file:
        for _ in range(blocks):
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


@pytest.mark.spec("SCH-1")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_deferred_work_is_what_the_kernel_counts_of_it(catalog: Catalog, backend: str) -> None:
    """By kind and cpu: traced, added up, and as a histogram, between readings of /proc/softirqs.

    That is the most that there may be: see `test_interrupts_are_what_the_kernel_counts_of_each_line`.
    """
    keys = ("softirq", "cpu")
    asked: dict[str, dict[str, Any]] = {
        "raw": {},
        "count": {"mode": "count", "emits": ("count",)},
        "hist": {"emits": ("hist",), "value": "time_ns"},
    }
    around = [read_counts("/proc/softirqs")]
    with ExitStack() as stack:
        drivers = {
            name: stack.enter_context(drive(catalog, "sched.softirq", bind_machine(), keys, backend, **each))
            for name, each in asked.items()
        }
        inside = [read_counts("/proc/softirqs")]
        for _ in range(20):
            subprocess.run(["true"], check=True)
        inside.append(read_counts("/proc/softirqs"))
        taken = {name: take(drivers[name]) for name in ("count", "hist")}
        drivers["raw"].sample()
    around.append(read_counts("/proc/softirqs"))
    taken["raw"] = [(1, row) for row in drivers["raw"].rows]
    for name, driver in drivers.items():
        counted: Counter[tuple[str, int]] = Counter()
        for weight, row in taken[name]:
            counted[row["softirq"], row["cpu"]] += weight
            assert row["time_ns"] > 0
        skipped = count_skipped(driver, backend)
        for place, count in around[1].items():
            made = inside[1][place] - inside[0][place]
            assert made // 2 - skipped <= counted[place] <= count - around[0][place], (name, place)
        assert sum(counted.values()) >= 5
    waited = [row["raised_to_served_ns"] for row in drivers["raw"].rows if "raised_to_served_ns" in row]
    assert waited
    assert min(waited) > 0


def count_skipped(driver: Driver, backend: str) -> int:
    """Return how many events a program was not called for, and hold the driver to no other loss."""
    losses = driver.collector.losses()
    assert losses.dropped == 0
    assert backend == RECORDED or losses.skipped == 0
    return losses.skipped


@pytest.mark.spec("SCH-1")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_interrupts_are_what_the_kernel_counts_of_each_line(catalog: Catalog, tmp_path: Path, backend: str) -> None:
    """By line and cpu, each with the time that its handlers took and what they are called.

    On a busy machine the kernel was seen to count a few that passed no tracepoint, whatever program stood there: its
    count is the most that there may be.
    """
    around = [read_counts("/proc/interrupts")]
    with drive(catalog, "sched.irq", bind_machine(), ("irq", "cpu"), backend) as driver:
        inside = [read_counts("/proc/interrupts")]
        write_disk(tmp_path / "written", 20)
        inside.append(read_counts("/proc/interrupts"))
        driver.sample()
    around.append(read_counts("/proc/interrupts"))
    counted = Counter((row["irq"], row["cpu"]) for row in driver.rows)
    came = {place for place in inside[1] if place[0].isdigit() and inside[1][place] > inside[0][place]}
    assert came
    skipped = count_skipped(driver, backend)
    for place in came | set(counted):
        made = inside[1][place] - inside[0][place]
        assert made // 2 - skipped <= counted[place] <= around[1][place] - around[0][place], place
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
